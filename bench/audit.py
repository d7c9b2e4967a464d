"""The audit over 10^5 finished runs: one real run, copied set-based with its own hash chains."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from dataclasses import dataclass

import psycopg
from psycopg import sql

from bench.ground import ROOT, Ground, program
from bench.onboarding import COMPANY, prepared

COPIED: dict[str, tuple[str, ...]] = {
    "request": ("id", "business_key"),
    "input_version": ("request_id",),
    "version_maker": ("request_id",),
    "run": ("id", "request_id"),
    "review": ("id", "run_id", "request_id"),
    "decision": ("id", "review_id", "run_id", "request_id"),
    "operation": ("key", "request_id", "run_id"),
    "dispatch": ("id",),
    "attempt": ("operation_key", "run_id", "decision_id", "token", "dispatch_id"),
    "answer": ("id", "operation_key"),
}
"""Tables of a finished run, parents first, with the columns that carry its identity."""


@dataclass(frozen=True, slots=True)
class Audited:
    """Seconds of one `counterfoil audit`, and the peak memory of its process in MB."""

    seconds: float
    megabytes: float


def measure(ground: Ground, runs: int) -> Audited:
    """Audit a store of this many finished runs. Raises RuntimeError when the copies are not sound."""
    asyncio.run(_one_run(ground))
    with psycopg.connect(ground.superuser_dsn) as connection:
        _copy(connection, runs - 1)
    print("bench: the runs are there, their audit begins", file=sys.stderr, flush=True)
    started = time.monotonic()
    command = [sys.executable, "-m", "cli.main", "audit"]
    with subprocess.Popen(command, cwd=ROOT, env=dict(ground.environment), stdout=sys.stderr) as asking:
        _, asking.returncode, used = os.wait4(asking.pid, 0)
    if asking.returncode:
        raise RuntimeError("the copies are not sound, or were not audited")
    return Audited(time.monotonic() - started, used.ru_maxrss / 1024)


async def _one_run(ground: Ground) -> None:
    both = await prepared(ground)
    with program(["worker.py"], ground.environment, ground.folder / "worker.log"):
        await both.ours([ground.sandbox.seed(COMPANY, actor="userId:61000001").company_id])


def _copy(connection: psycopg.Connection, copies: int) -> None:
    """Every table by one statement; events by sequence number, since each row is chained to the one before."""
    connection.execute("SET LOCAL session_replication_role = replica")
    for table, identity in COPIED.items():
        _copy_table(connection, table, identity, copies)
    _copy_generated(connection, "subject_link", ("request_id",), copies)
    _copy_generated(connection, "reading", ("run_id", "request_id"), copies)
    connection.execute("ALTER TABLE event ENABLE ALWAYS TRIGGER event_chain")
    (last,) = connection.execute("SELECT max(seq) FROM event").fetchone() or (0,)
    for seq in range(1, last + 1):
        _copy_table(connection, "event", ("run_id", "request_id"), copies, seq)
    connection.execute("ALTER TABLE event ENABLE TRIGGER event_chain")
    connection.commit()
    connection.autocommit = True
    connection.execute("ANALYZE")


def _columns(connection: psycopg.Connection, table: str, *, generated: bool) -> list[str]:
    rows = connection.execute(
        "SELECT column_name, is_identity FROM information_schema.columns WHERE table_name = %s", [table]
    )
    return [name for name, identity in rows if generated or identity == "NO"]


def _copy_generated(connection: psycopg.Connection, table: str, identity: tuple[str, ...], copies: int) -> None:
    _copy_table(connection, table, identity, copies, columns=_columns(connection, table, generated=False))


def _copy_table(
    connection: psycopg.Connection,
    table: str,
    identity: tuple[str, ...],
    copies: int,
    seq: int | None = None,
    columns: list[str] | None = None,
) -> None:
    names = columns or _columns(connection, table, generated=True)
    chosen = [
        sql.SQL("{} || '-' || n").format(sql.Identifier(name)) if name in identity else sql.Identifier(name)
        for name in names
    ]
    original = sql.SQL("(SELECT * FROM {} {} ) one").format(
        sql.Identifier(table),
        sql.SQL("") if seq is None else sql.SQL("WHERE seq = {} AND run_id NOT LIKE '%-%-%'").format(seq),
    )
    connection.execute(
        sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {}, generate_series(1, {}) n").format(
            sql.Identifier(table),
            sql.SQL(", ").join(map(sql.Identifier, names)),
            sql.SQL(", ").join(chosen),
            original,
            copies,
        )
    )
