"""The loops of a worker process: one sweeper and one projector at a time among all workers, by lease."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

from business_store.database import Store
from business_store.sweeping import give_back, take_lease, turn_finished
from domain.boundaries import boundary

log = logging.getLogger(__name__)


def holder() -> str:
    """A name of this process that no other has at the same time."""
    return f"{socket.gethostname()}:{os.getpid()}"


@dataclass(frozen=True)
class Loop:
    """Work to be done every `interval` by whoever holds the lease."""

    name: str
    interval: timedelta
    lease: timedelta
    store: Store
    work: Callable[[], Awaitable[object]]

    async def forever(self, stopping: asyncio.Event) -> None:
        """Until `stopping`, then give the lease back. A turn that fails is logged by its type; the next one comes."""
        while not stopping.is_set():
            await self._logged(self.turn)
            await _pause(stopping, self.interval)
        await self._logged(self._give_back)

    async def _logged(self, work: Callable[[], Awaitable[object]]) -> None:
        try:
            await work()
        except Exception as problem:
            log.warning("%s failed: %s", self.name, type(problem).__name__)

    async def _give_back(self) -> None:
        with boundary("finish-turn"):
            await asyncio.to_thread(self.store.write, lambda connection: give_back(connection, self.name, holder()))

    async def turn(self) -> bool:
        """One turn, if the lease can be had."""
        with boundary("take-lease"):
            taken = await asyncio.to_thread(
                self.store.write, lambda connection: take_lease(connection, self.name, holder(), self.lease)
            )
        if taken:
            await self.work()
            with boundary("finish-turn"):
                await asyncio.to_thread(
                    self.store.write, lambda connection: turn_finished(connection, self.name, holder())
                )
        return taken


async def _pause(stopping: asyncio.Event, interval: timedelta) -> None:
    try:
        await asyncio.wait_for(stopping.wait(), interval.total_seconds())
    except TimeoutError:
        return
