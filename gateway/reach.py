"""Telling the engine after an answer has left. Hints only: the sweep repeats whatever is not told here."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from sweep.engine import Engine, Hint

TOGETHER = 8
"""Runs that the engine is told of at the same time; more would only queue up there."""
LONGEST_POSTPONED = 1.0
"""Seconds after which a run no longer makes way for triggers that are being taken in."""
LOOK_SECONDS = 0.01
DRAIN_SECONDS = 2.0
MOST_WAITING = 10_000
"""While the engine is away, older hints than the newest so many are left to the sweep."""


class Reach:
    """One gateway process's way to the engine. Accepting comes first: a burst is stored before it is started."""

    def __init__(self) -> None:
        self.engine: Engine | None = None
        self._waiting: deque[tuple[float, Hint]] = deque(maxlen=MOST_WAITING)
        self._telling: asyncio.Task[None] | None = None
        self._taking_in = 0

    async def __call__(self, run_id: str) -> None:
        """Tell the engine of this run soon, in a task of its own: the connection is free for its next request."""
        if self.engine is not None:
            self._waiting.append((time.monotonic(), Hint(run_id)))
            if self._telling is None or self._telling.done():
                self._telling = asyncio.create_task(self._tell(self.engine))

    async def _tell(self, engine: Engine) -> None:
        while self._waiting:
            await self._quiet(until=self._waiting[0][0] + LONGEST_POSTPONED)
            together = [self._waiting.popleft()[1] for _ in range(min(TOGETHER, len(self._waiting)))]
            await engine.soon(together)

    async def _quiet(self, until: float) -> None:
        """Nothing is being taken in, or the oldest has made way for long enough."""
        while self._taking_in and time.monotonic() < until:
            await asyncio.sleep(LOOK_SECONDS)

    @contextmanager
    def taking_in(self) -> Iterator[None]:
        """A trigger is being taken in."""
        self._taking_in += 1
        try:
            yield
        finally:
            self._taking_in -= 1

    async def reachable(self) -> bool:
        """Whether the engine answers at once."""
        return self.engine is not None and await self.engine.reachable()

    async def drained(self) -> None:
        """Finish what is being told, for a moment; the sweep does the rest."""
        if self._telling is not None:
            await asyncio.wait([self._telling], timeout=DRAIN_SECONDS)
