"""Bodies that arrive while others are being stored are stored together: one transaction for all that wait."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from business_store.intake import Accepted, Received

LARGEST = 64
"""Bodies in one transaction: what one of them waits for, all of them wait for."""
USUAL, MOST = 2, 6
"""Transactions under way at once: one is stored while the next is put together; more only when those are slow."""
SLOW_SECONDS = 0.1
"""A transaction that takes longer waits for somebody's lock, and others do not wait with it."""

OF_ONE_BODY = ("22", "23", "40", "55", "57014")
"""SQLSTATEs of data, keys, conflicts, locks and time limits: one body is refused for them, not the whole store."""

Take: TypeAlias = Callable[[Sequence[Received]], list[list[Accepted]]]
Waiting: TypeAlias = "tuple[Received, asyncio.Future[list[Accepted]]]"


@dataclass
class Batches:
    """One process's bodies on their way into the store. `take` stores several, in a thread, and is keyed."""

    take: Take
    _waiting: deque[Waiting] = field(default_factory=deque)
    _under_way: set[asyncio.Task[None]] = field(default_factory=set)
    _beginning: asyncio.Task[None] | None = None

    async def stored(self, body: Received) -> list[Accepted]:
        """What became of each element, once it is committed. Raises what `take` raises for this body."""
        outcome: asyncio.Future[list[Accepted]] = asyncio.get_running_loop().create_future()
        self._waiting.append((body, outcome))
        if self._beginning is None or self._beginning.done():
            self._beginning = asyncio.create_task(self._begin())
        return await outcome

    async def _begin(self) -> None:
        """Nobody waits for others to come: whoever finds room is stored at once."""
        while self._waiting:
            await self._room()
            batch = [self._waiting.popleft() for _ in range(min(LARGEST, len(self._waiting)))]
            task = asyncio.create_task(self._store(batch))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _room(self) -> None:
        if len(self._under_way) >= USUAL:
            await asyncio.wait(self._under_way, timeout=SLOW_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        while len(self._under_way) >= MOST:
            await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)

    async def _store(self, batch: Sequence[Waiting]) -> None:
        """A body that cannot be stored must not be in the way of those that came beside it."""
        try:
            accepted = await asyncio.to_thread(self.take, [body for body, _ in batch])
        except Exception as refused:
            await self._refused(batch, refused)
        else:
            for (_, outcome), of_body in zip(batch, accepted, strict=True):
                if not outcome.done():
                    outcome.set_result(of_body)

    async def _refused(self, batch: Sequence[Waiting], refused: Exception) -> None:
        if len(batch) > 1 and _of_one_body(refused):
            for alone in batch:
                await self._store([alone])
            return
        for _, outcome in batch:
            if not outcome.done():
                outcome.set_exception(refused)


def _of_one_body(refused: Exception) -> bool:
    if isinstance(refused, DBAPIError):
        return str(getattr(refused.orig, "sqlstate", None) or "").startswith(OF_ONE_BODY)
    return not isinstance(refused, SQLAlchemyError)
