"""`triggers_vs_bare`: accepted triggers/s of the gateway against an endpoint that calls `start_workflow` itself."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg

from bench.ground import APP, PORTAL, SECRET, Ground, answers, gateway, program, until
from bench.load import load, prepared
from gateway.signatures import sign_hubspot_v3
from stack.ports import free_port
from stack.postgres_binaries import binaries

CLIENTS = 16
STARTED_WITHIN = 300.0
_ids = itertools.count(50_000_000_000)


def _body() -> bytes:
    number = next(_ids)
    event: dict[str, Any] = {
        "eventId": number,
        "subscriptionId": 550011,
        "portalId": int(PORTAL),
        "appId": int(APP),
        "occurredAt": int(time.time() * 1000),
        "subscriptionType": "object.propertyChange",
        "attemptNumber": 0,
        "objectId": number,
        "objectTypeId": "0-2",
        "propertyName": "onboarding_stage",
        "propertyValue": "submitted",
        "changeSource": "CRM_UI",
        "sourceId": "userId:61000001",
    }
    return json.dumps([event]).encode()


def _signed(ground: Ground) -> bytes:
    url, body = f"{ground.gateway_url}/triggers/hubspot", _body()
    return prepared(url, body, sign_hubspot_v3(SECRET, url, int(time.time() * 1000), body))


@contextmanager
def _bare(ground: Ground) -> Iterator[str]:
    port = free_port()
    with program(["bench.bare_gateway", str(port)], ground.environment, ground.folder / "bare_gateway.log"):
        until(lambda: answers(f"http://127.0.0.1:{port}/health/live"))
        yield f"http://127.0.0.1:{port}/trigger"


def measure(ground: Ground, rounds: int, size: int) -> list[tuple[float, float]]:
    """(ours, bare) in accepted triggers/s per round; both start what they accepted, and ours is waited for before the
    other side has its turn."""
    figures = []
    with ExitStack() as stack:
        stack.enter_context(gateway(ground))
        url, bare = f"{ground.gateway_url}/triggers/hubspot", stack.enter_context(_bare(ground))
        for number in range(rounds + 1):
            count = size if number else size // 5
            ours = _rate(url, [_signed(ground) for _ in range(count)])
            until(lambda: _unstarted(ground) == 0, STARTED_WITHIN)
            other = _rate(bare, [prepared(bare, _body(), {}) for _ in range(count)])
            print(f"bench: round {number} of {rounds}", file=sys.stderr, flush=True)
            if number:
                figures.append((ours, other))
    return figures


def _unstarted(ground: Ground) -> int:
    with psycopg.connect(ground.superuser_dsn) as connection:
        row = connection.execute("SELECT count(*) FROM run WHERE engine_health = 'not_started'").fetchone()
    return row[0] if row else 0


def _rate(url: str, requests: list[bytes]) -> float:
    loaded = asyncio.run(load(url, requests, CLIENTS))
    if set(loaded.statuses) != {202}:
        raise RuntimeError(f"not all were accepted: {dict(loaded.statuses)}")
    return len(requests) / loaded.seconds


def commits_per_second(ground: Ground, seconds: int = 5) -> float:
    """Single-row commits/s of Postgres itself at the same number of clients, by pgbench."""
    script = ground.folder / "insert.sql"
    script.write_text("INSERT INTO bench_row (filler) VALUES ('x');\n")
    found = binaries(None)
    _run([str(found / "psql"), ground.superuser_dsn, "-qc", "CREATE TABLE IF NOT EXISTS bench_row (filler text)"])
    said = _run(
        [str(found / "pgbench"), "-n", "-c", str(CLIENTS), "-T", str(seconds), "-f", str(script), ground.superuser_dsn]
    )
    line = next(line for line in said.splitlines() if line.startswith("tps"))
    return float(line.split("=")[1].split()[0])


def _run(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
