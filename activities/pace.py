"""Whether a send is quick enough to be made within the workflow task, by what this worker has seen of late."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from activities.failures import too_slow

QUICK = 2.0
"""Seconds that a step with a send may take within a workflow task and be called quick."""
REST = 30.0
"""Seconds for which a step that was not quick is left to activities of its own."""


class Pace:
    """A workflow task that waits for a slow provider keeps others waiting: then each send is an activity of its own."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._under_way: list[tuple[str, float]] = []
        self._slow_until: dict[str, float] = {}

    @contextmanager
    def quick(self, step: str) -> Iterator[None]:
        """Around one step within a workflow task. Raises ApplicationError, with nothing done yet, where it may not."""
        own = self._begun(step, self._clock())
        try:
            yield
        finally:
            self._ended(own, self._clock())

    def _begun(self, step: str, now: float) -> tuple[str, float]:
        with self._lock:
            if not self._may(step, now):
                raise too_slow()
            own = (step, now)
            self._under_way.append(own)
            return own

    def _may(self, step: str, now: float) -> bool:
        """One that hangs says so while it hangs, not only when it has ended; after a rest one alone tries again."""
        same = [begun for other, begun in self._under_way if other == step]
        if step in self._slow_until:
            return self._slow_until[step] <= now and not same
        return all(now - begun <= QUICK for begun in same)

    def _ended(self, own: tuple[str, float], now: float) -> None:
        step, begun = own
        with self._lock:
            self._under_way.remove(own)
            if now - begun > QUICK:
                self._slow_until[step] = now + REST
            else:
                self._slow_until.pop(step, None)
