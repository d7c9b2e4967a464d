"""Starting and nudging runs in the engine from what the store says, for gateway, sweep and CLI alike."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.envconfig import ClientConfig
from temporalio.service import RPCError, RPCStatusCode

from business_store.database import Store
from business_store.sweeping import EngineRow, engine_rows, set_health
from domain.boundaries import boundary
from domain.execution import CODE_VERSION, Start
from operating.joining import joined
from operating.traces import tracing_plugins
from workflows.plugin import counterfoil_plugin
from workflows.starting import Reached, Startable, nudge_execution, start_execution

log = logging.getLogger(__name__)
T = TypeVar("T")
ENDED_BY_SOMEBODY = "'Terminated', 'Canceled', 'Failed', 'TimedOut'"
"""How an execution closes whose run may still be open: ours complete when the store says that the run is over."""

REACHED_WITHIN = 1.0
"""Seconds in which an engine that is there answers a health check."""


async def connect(lazy: bool = False) -> Client:
    """A client by the SDK's own profiles (TEMPORAL_ADDRESS, TEMPORAL_PROFILE, TEMPORAL_CONFIG_FILE …)."""
    profile: dict[str, Any] = {**ClientConfig.load_client_connect_config()}
    profile.setdefault("target_host", "localhost:7233")
    return await Client.connect(**profile, plugins=[counterfoil_plugin(), *tracing_plugins()], lazy=lazy)


@dataclass(frozen=True, slots=True)
class Hint:
    """A run that the engine is to be told of, and in what context that was wanted: its trace goes on from there."""

    run_id: str
    context: Context = field(default_factory=copy_context)

    def followed(self, telling: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """`telling`, in that context."""
        return asyncio.create_task(telling, context=self.context)


@dataclass(frozen=True, slots=True)
class EngineTerms:
    """What a start carries besides the run itself."""

    task_queue: str
    send_seconds: float
    read_seconds: float
    run_link: Callable[[str], str]


class Engine:
    """The engine as the store's servant: every call begins and ends with a row."""

    def __init__(self, client: Client, store: Store, terms: EngineTerms) -> None:
        self._client = client
        self._store = store
        self._terms = terms

    def startable(self, row: EngineRow) -> Startable:
        """How this run's execution is named and what it is told."""
        link = self._terms.run_link(row.run_id)
        times = (self._terms.send_seconds, self._terms.read_seconds)
        start = Start(row.run_id, row.epoch, row.process, row.business_key, link, *times, CODE_VERSION)
        return Startable(start, row.number)

    async def start(self, row: EngineRow) -> Reached:
        """Start the execution once, and note that it runs. Raises RPCError when the engine is away."""
        reached = await self._start(row)
        await self.note([row], "ok")
        return reached

    async def _start(self, row: EngineRow) -> Reached:
        with boundary("start-execution", row.run_id):
            return await start_execution(self._client, self.startable(row), self._terms.task_queue)

    async def nudge(self, row: EngineRow) -> Reached:
        """Say "look again". Raises RPCError when the engine is away."""
        with boundary("nudge-execution", row.run_id):
            return await nudge_execution(self._client, self.startable(row))

    async def note(self, rows: Sequence[EngineRow], health: str) -> None:
        """Write the health of these executions down, in one transaction."""
        if not rows:
            return
        with boundary("note-health", rows[0].run_id if len(rows) == 1 else ""):
            await asyncio.to_thread(self._store.write, lambda connection: set_health(connection, rows, health))

    async def health(self, row: EngineRow) -> str:
        """`ok`, `stuck` (its tasks fail), `ended` (closed by somebody) or `missing`. Raises RPCError when away."""
        try:
            described = await self._client.get_workflow_handle(self.startable(row).workflow_id).describe()
        except RPCError as refused:
            if refused.status is RPCStatusCode.NOT_FOUND:
                return "missing"
            raise
        if described.status is not WorkflowExecutionStatus.RUNNING:
            return "ended"
        return "stuck" if "TemporalReportedProblems" in described.search_attributes else "ok"

    async def closed_since(self, age: timedelta) -> list[str]:
        """Temporal run ids of executions that closed within `age`. Raises RPCError when the engine is away.

        One query finds what somebody ended, whatever the number of waiting runs.
        """
        since = (datetime.now(UTC) - age).isoformat()
        query = f"CloseTime > '{since}' AND ExecutionStatus IN ({ENDED_BY_SOMEBODY})"
        return [found.run_id async for found in self._client.list_workflows(query)]

    async def reachable(self) -> bool:
        """Whether the engine answers at once."""
        try:
            return await asyncio.wait_for(self._client.service_client.check_health(), REACHED_WITHIN)
        except (RPCError, RuntimeError, TimeoutError):
            return False

    async def soon(self, hints: Sequence[Hint]) -> None:
        """A first try right after commits, for several runs together. It may fail in any way: the sweep repeats it."""
        try:
            rows = await asyncio.to_thread(self._rows, [hint.run_id for hint in hints])
            started = await asyncio.gather(*(hint.followed(self._told(rows[hint.run_id])) for hint in hints))
            await self.note([row for row in started if row], "ok")
        except Exception as problem:
            log.warning("engine not reached for %s runs: %s", len(hints), type(problem).__name__)

    async def _told(self, row: EngineRow) -> EngineRow | None:
        """Start or nudge; the row where that started something."""
        with joined(run=row.run_id):
            try:
                if row.health != "not_started":
                    await self.nudge(row)
                    return None
                await self._start(row)
            except Exception as problem:
                log.warning("engine not reached for run %s: %s", row.run_id, type(problem).__name__)
                return None
            return row

    def _rows(self, run_ids: Sequence[str]) -> dict[str, EngineRow]:
        with self._store.reading() as connection:
            return {row.run_id: row for row in engine_rows(connection, run_ids)}
