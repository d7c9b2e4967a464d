"""The process that runs workflows, activities and sweeps."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from temporalio.client import Client
from temporalio.worker import Worker

from composition import Parts
from settings import Settings, SettingsError, load_settings
from sweep.engine import connect
from workflows.partner_onboarding import PartnerOnboarding

log = logging.getLogger("worker")
EXIT_PAUSE = 0.3
"""The interpreter may crash when it ends right after a worker did; the SDK's threads need this moment."""


async def run(parts: Parts, stopping: asyncio.Event) -> None:
    """Sweep at once, work as soon as the engine is there, drain when told to stop."""
    sweeping = await connect(lazy=True)
    loops = [asyncio.create_task(loop.forever(stopping)) for loop in parts.loops(sweeping)]
    client = await _connected(stopping)
    if client is not None:
        async with _worker(client, parts):
            log.info("worker ready on task queue %s", parts.settings.task_queue)
            await stopping.wait()
    await asyncio.gather(*loops)


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
        workflows=[PartnerOnboarding],
        activities=[steps.take_snapshot, steps.look_at_review, steps.carry_out, steps.compare_records],
        activity_executor=ThreadPoolExecutor(threads, "activity"),
        max_concurrent_activities=threads,
        graceful_shutdown_timeout=timedelta(seconds=settings.send_before + 2 * settings.send_timeout),
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


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        asyncio.run(main(load_settings()))
    except SettingsError as missing:
        sys.exit(f"worker: {missing}")
    time.sleep(EXIT_PAUSE)
