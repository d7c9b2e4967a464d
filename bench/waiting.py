"""Memory and idle CPU with thousands of runs that wait for a person."""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass

import psutil
from sqlalchemy import TextClause, text

from bench.ground import Ground, program, until
from bench.onboarding import COMPANY, Onboardings, prepared
from stack.postgres import occupants

WAITING = text("SELECT count(*) FROM run WHERE state = 'awaiting_review'")
LEFT = text("SELECT count(*) FROM run WHERE projected_seq < seq OR nudge_seen < nudge OR engine_health = 'not_started'")
BATCH = 200
SETTLED_WITHIN = 600.0


@dataclass(frozen=True, slots=True)
class Waited:
    """Peak memory of the worker in MB, and percent of one core that worker and Postgres use while all wait."""

    worker_mb: float
    idle_cpu_percent: float


def measure(ground: Ground, runs: int, quiet: float) -> Waited:
    """Bring `runs` runs to their review, leave them there, and watch for `quiet` seconds."""
    with program(["worker.py"], ground.environment, ground.folder / "worker.log") as process:
        both = asyncio.run(_fill(ground, runs))
        until(lambda: _count(both, LEFT) == 0, SETTLED_WITHIN, pause=1)
        worker = psutil.Process(process.pid)
        busy = [worker, *occupants(ground.folder / "postgres" / "data")]
        before = _cpu_seconds(busy)
        time.sleep(quiet)
        idle = (_cpu_seconds(busy) - before) / quiet * 100
        return Waited(_peak_mb(process.pid), idle)


async def _fill(ground: Ground, runs: int) -> Onboardings:
    both = await prepared(ground)
    while (waiting := await asyncio.to_thread(_count, both, WAITING)) < runs:
        await asyncio.gather(*(_start(both) for _ in range(min(BATCH, runs - waiting))))
        while await asyncio.to_thread(_count, both, WAITING) < min(waiting + BATCH, runs):
            await asyncio.sleep(0.2)
        print(f"bench: {waiting} of {runs} wait", file=sys.stderr, flush=True)
    return both


def _count(both: Onboardings, query: TextClause) -> int:
    with both.store.reading() as connection:
        return int(connection.execute(query).scalar_one())


async def _start(both: Onboardings) -> None:
    seeded = await asyncio.to_thread(both.ground.sandbox.seed, COMPANY, actor="userId:61000001")
    run_id = await asyncio.to_thread(both.accept, seeded.company_id)
    await both.engine.start(await asyncio.to_thread(both.row, run_id))


def _cpu_seconds(processes: list[psutil.Process]) -> float:
    """Of those that still run, and of those that Postgres started and that have ended meanwhile."""
    return float(sum(sum(process.cpu_times()[:4]) for process in processes if process.is_running()))


def _peak_mb(pid: int) -> float:
    """VmHWM: the most memory that the process ever held."""
    with open(f"/proc/{pid}/status") as status:
        line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024
