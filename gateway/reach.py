"""Telling the engine after an answer has left. Hints only: the sweep repeats whatever is not told here."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sweep.engine import Engine

AT_ONCE = 4
"""Starts and nudges under way at the same time; more would only queue up in the engine."""
LONGEST_POSTPONED = 1.0
"""Seconds for which a start makes way for triggers that are being taken in."""
LOOK_SECONDS = 0.01
DRAIN_SECONDS = 2.0


class Reach:
    """One gateway process's way to the engine. Accepting comes first: a burst is stored before it is started."""

    def __init__(self) -> None:
        self.engine: Engine | None = None
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._telling: set[asyncio.Task[None]] = set()
        self._taking_in = 0

    async def __call__(self, run_id: str) -> None:
        """Tell the engine of this run soon, in a task of its own: the connection is free for its next request."""
        if self.engine is not None:
            task = asyncio.create_task(self._tell(self.engine, run_id))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    async def _tell(self, engine: Engine, run_id: str) -> None:
        async with self._turns:
            await self._quiet()
            await engine.soon(run_id)

    async def _quiet(self) -> None:
        until = time.monotonic() + LONGEST_POSTPONED
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
        if self._telling:
            await asyncio.wait(self._telling, timeout=DRAIN_SECONDS)
