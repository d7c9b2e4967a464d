"""Memory and idle CPU with thousands of runs that wait for a person."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import psutil
from sqlalchemy import text

from bench.ground import Ground, program
from bench.onboarding import COMPANY, Onboardings, prepared

WAITING = text("SELECT count(*) FROM run WHERE state = 'awaiting_review'")
BATCH = 200
QUIET_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Waited:
    """Peak memory of the worker in MB, and percent of one core that worker and Postgres use while all wait."""

    worker_mb: float
    idle_cpu_percent: float


def measure(ground: Ground, runs: int) -> Waited:
    """Bring `runs` runs to their review and leave them there."""
    with program(["worker.py"], ground.environment, ground.folder / "worker.log") as process:
        asyncio.run(_fill(ground, runs))
        worker = psutil.Process(process.pid)
        busy = [worker, *(p for p in psutil.process_iter(["name"]) if p.info["name"] == "postgres")]
        before = _cpu_seconds(busy)
        time.sleep(QUIET_SECONDS)
        idle = (_cpu_seconds(busy) - before) / QUIET_SECONDS * 100
        return Waited(_peak_mb(process.pid), idle)


async def _fill(ground: Ground, runs: int) -> None:
    both = await prepared(ground)
    while (waiting := await asyncio.to_thread(_waiting, both)) < runs:
        await asyncio.gather(*(_start(both) for _ in range(min(BATCH, runs - waiting))))
        while await asyncio.to_thread(_waiting, both) < min(waiting + BATCH, runs):
            await asyncio.sleep(0.2)


def _waiting(both: Onboardings) -> int:
    with both.store.reading() as connection:
        return int(connection.execute(WAITING).scalar_one())


async def _start(both: Onboardings) -> None:
    seeded = await asyncio.to_thread(both.ground.sandbox.seed, COMPANY, actor="userId:61000001")
    run_id = await asyncio.to_thread(both.accept, seeded.company_id)
    await both.engine.start(await asyncio.to_thread(both.row, run_id))


def _cpu_seconds(processes: list[psutil.Process]) -> float:
    """Of those that still run."""
    times = [process.cpu_times() for process in processes if process.is_running()]
    return float(sum(each.user + each.system for each in times))


def _peak_mb(pid: int) -> float:
    """VmHWM: the most memory that the process ever held."""
    with open(f"/proc/{pid}/status") as status:
        line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024
