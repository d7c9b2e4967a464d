"""One sweep: unstarted runs, unseen nudges, approved but idle, lost executions, changes without a run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection

from business_store.database import Store
from business_store.sweeping import (
    EngineRow,
    approved_but_idle,
    execution_gone,
    open_runs_of,
    unchecked,
    unread_without_run,
    unseen_nudges,
    unstarted,
)
from domain.boundaries import boundary
from domain.ports import Crm
from domain.process import Process
from operating.metrics import PASSES_FAILED, SWEPT
from sweep.callbacks import CallbackSweep
from sweep.closed_requests import ClosedRequests
from sweep.engine import Engine
from sweep.holds import Holds
from workflows.starting import Reached

log = logging.getLogger(__name__)
Find = Callable[[Connection, timedelta], Sequence[EngineRow]]
WELL = ("ok", "stuck")
"""Health of an execution that is there."""
CLOSED_WITHIN = timedelta(hours=1)
"""How far back each sweep looks for executions that somebody ended; older ones are found by the slow check."""


@dataclass
class Report:
    """How many runs each pass touched; `failed` names passes that could not be carried through."""

    done: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Sweep:
    """Everything one sweep works with."""

    store: Store
    engine: Engine
    crms: Mapping[str, Crm]
    processes: Mapping[str, Process[Any]]
    patience: timedelta
    callbacks: CallbackSweep
    holds: Holds
    check_every: timedelta
    """How often the execution of an open run is looked at, one by one, for what the engine itself lost."""

    async def once(self) -> Report:
        """Every pass, each on its own: one that fails leaves the others their turn."""
        report = Report()
        for name, work in self._passes().items():
            try:
                report.done[name] = await work()
                SWEPT.labels(name).inc(report.done[name])
            except Exception as problem:
                PASSES_FAILED.labels(name).inc()
                log.warning("sweep pass %s failed: %s", name, type(problem).__name__)
                report.failed[name] = type(problem).__name__
        return report

    def _passes(self) -> dict[str, Callable[[], Awaitable[int]]]:
        return {
            "started": lambda: self._each(unstarted, self._start),
            "nudged": lambda: self._each(unseen_nudges, self._nudge),
            "idle": lambda: self._each(approved_but_idle, self._nudge),
            "ended": self._ended,
            "lost": self._lost,
            "read": self._read_closed,
            "callbacks": lambda: asyncio.to_thread(self.callbacks.once),
            "lifted": lambda: asyncio.to_thread(self.holds.once),
        }

    async def _each(self, find: Find, work: Callable[[EngineRow], Awaitable[object]]) -> int:
        """One row that fails is not in the way of the next, unless the whole engine is away."""
        rows = await asyncio.to_thread(self._found, find, self.patience)
        for row in rows:
            await work(row)
        return len(rows)

    def _found(self, find: Find, patience: timedelta) -> Sequence[EngineRow]:
        with self.store.reading() as connection:
            return find(connection, patience)

    async def _start(self, row: EngineRow) -> None:
        """An execution of this name that exists already may have ended, or be another store's."""
        if await self.engine.start(row) is Reached.EXISTS:
            await self._check(row)

    async def _nudge(self, row: EngineRow) -> None:
        if await self.engine.nudge(row) is Reached.GONE:
            await self._check(row)

    async def _lost(self) -> int:
        """Thousands of waiting runs are looked at in turn: what is well is written down together."""
        rows = await asyncio.to_thread(self._found, unchecked, self.check_every)
        well: dict[str, list[EngineRow]] = {health: [] for health in WELL}
        try:
            for row in rows:
                await self._look_at(row, well)
        finally:
            for health, seen in well.items():
                await self.engine.note(seen, health)
        return len(rows)

    async def _look_at(self, row: EngineRow, well: Mapping[str, list[EngineRow]]) -> None:
        health = await self.engine.health(row)
        if health in WELL:
            well[health].append(row)
        else:
            await self._gone(row, health)

    async def _check(self, row: EngineRow) -> None:
        health = await self.engine.health(row)
        await (self.engine.note([row], health) if health in WELL else self._gone(row, health))

    async def _gone(self, row: EngineRow, health: str) -> None:
        """Re-checked under the lock: a run that ended meanwhile stays as it is."""
        ended = health == "ended"
        with boundary("execution-gone", row.run_id):
            await asyncio.to_thread(
                self.store.write, lambda connection: execution_gone(connection, row, ended_by_somebody=ended)
            )

    async def _ended(self) -> int:
        """Executions that somebody terminated, canceled or reset away while their run was open."""
        executions = await self.engine.closed_since(CLOSED_WITHIN)
        rows = await asyncio.to_thread(
            self._found, lambda connection, _: open_runs_of(connection, executions), CLOSED_WITHIN
        )
        for row in rows:
            await self._check(row)
        return len(rows)

    async def _read_closed(self) -> int:
        closed = ClosedRequests(self.store, self.crms, self.processes)
        return await asyncio.to_thread(self._read_each, closed)

    def _read_each(self, closed: ClosedRequests) -> int:
        with self.store.reading() as connection:
            requests = unread_without_run(connection)
        for request_id in requests:
            closed.read(request_id)
        return len(requests)
