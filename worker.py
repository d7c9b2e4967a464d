"""The process that runs workflows, activities and sweeps."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from temporalio.client import Client
from temporalio.worker import Worker

from composition import Parts
from operating.endpoints import Answered, Endpoints, Listening, PortTaken, as_json, metrics
from operating.engine_runtime import observe_engine
from operating.logs import write_logs
from operating.traces import flush_traces, trace_as
from settings import Settings, SettingsError, load_settings
from sweep.engine import Engine, connect
from workflows.registry import WORKFLOWS
from workflows.runner import Sandbox

log = logging.getLogger("worker")
SAID = {True: "ok", False: "unreachable"}
ANSWERED_WITHIN = 10.0
STICKY = timedelta(seconds=10)
"""The engine offers a run's next step this long to the worker that knows it, which may have died, before any other."""
EXIT_PAUSE = 0.3
"""The interpreter may crash when it ends right after a worker did; the SDK's threads need this moment."""


@dataclass
class Health:
    """What a worker says of itself. `loop` is where the engine's client lives."""

    parts: Parts
    engine: Engine
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    polling: bool = False

    def live(self) -> Answered:
        """The event loop turns; a process that hangs does not answer in time."""
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self.loop).result(ANSWERED_WITHIN)
        return as_json({"worker": "ok"})

    def ready(self) -> Answered:
        """Work is being taken; store and engine are told apart."""
        reached = asyncio.run_coroutine_threadsafe(self.engine.reachable(), self.loop)
        store, engine = self.parts.store.ready(), reached.result(ANSWERED_WITHIN)
        said = {"store": SAID[store], "engine": SAID[engine], "polling": self.polling}
        return as_json(said, ok=store and engine and self.polling)


@contextmanager
def _shown(health: Health) -> Iterator[None]:
    settings = health.parts.settings
    paths = {"/health/live": health.live, "/health/ready": health.ready, "/metrics": metrics}
    at = Listening(settings.operating_host, settings.worker_health_port, "COUNTERFOIL_WORKER_HEALTH_PORT")
    endpoints = Endpoints(at, paths)
    try:
        yield
    finally:
        endpoints.close()


async def run(parts: Parts, stopping: asyncio.Event) -> None:
    """Sweep at once, work as soon as the engine is there, drain when told to stop."""
    sweeping = await connect(lazy=True)
    health = Health(parts, parts.engine(sweeping))
    with _shown(health):
        loops = [asyncio.create_task(loop.forever(stopping)) for loop in parts.loops(sweeping)]
        client = await _connected(stopping)
        if client is not None:
            await _work(client, health, stopping)
        await asyncio.gather(*loops)


async def _work(client: Client, health: Health, stopping: asyncio.Event) -> None:
    """Leaving the worker's block lets activities in hand finish, up to the graceful shutdown's end."""
    settings = health.parts.settings
    async with _worker(client, health.parts):
        health.polling = True
        log.info("worker ready on task queue %s", settings.task_queue)
        await stopping.wait()
        health.polling = False
        log.info("draining: no new work is taken")
    log.info("drained")


async def _connected(stopping: asyncio.Event) -> Client | None:
    """The engine may come later than the worker: the sweep needs none."""
    while not stopping.is_set():
        try:
            return await connect()
        except RuntimeError:
            log.warning("engine not reachable yet")
            await asyncio.sleep(1)
    return None


def _worker(client: Client, parts: Parts) -> Worker:
    settings, steps = parts.settings, parts.steps()
    threads = settings.activity_threads
    return Worker(
        client,
        task_queue=settings.task_queue,
        workflows=list(WORKFLOWS.values()),
        activities=[steps.take_snapshot, steps.look_at_review, steps.carry_out, steps.compare_records],
        activity_executor=ThreadPoolExecutor(3 * threads, "activity"),
        max_concurrent_activities=threads,
        max_concurrent_local_activities=2 * threads,
        workflow_runner=Sandbox(),
        max_cached_workflows=settings.cached_runs,
        graceful_shutdown_timeout=timedelta(seconds=settings.send_before + 2 * settings.send_timeout),
        sticky_queue_schedule_to_start_timeout=min(STICKY, timedelta(seconds=settings.step_margin)),
    )


async def main(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT."""
    stopping, parts = asyncio.Event(), Parts(settings)
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stopping.set)
    try:
        await run(parts, stopping)
    finally:
        parts.close()


def start(settings: Settings) -> None:
    """Observe, work, and tell what is still to be told."""
    write_logs(settings.log_format, settings.log_level)
    observe_engine(Listening(settings.operating_host, settings.engine_metrics_port, "COUNTERFOIL_ENGINE_METRICS_PORT"))
    trace_as("counterfoil-worker")
    try:
        asyncio.run(main(settings))
    finally:
        flush_traces()


if __name__ == "__main__":
    try:
        start(load_settings())
    except (SettingsError, PortTaken) as wrong:
        sys.exit(f"worker: {wrong}")
    time.sleep(EXIT_PAUSE)
