"""Health tells the store and the engine apart: what may be sent here, and what is wrong where."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import Any

import httpx
import pytest
from eventually import eventually
from sandboxes import ROOT
from watching import Watched, store_away
from world import AMENDER

from stack.postgres import EmbeddedPostgres

READY, LIVE = "/health/ready", "/health/live"
WORKER = "WORKER_HEALTH_PORT"
PORTS = (WORKER, "ENGINE_METRICS_PORT", "GATEWAY_METRICS_PORT")


def said(answer: httpx.Response) -> tuple[int, Any]:
    return answer.status_code, answer.json()


def gateway_says(watched: Watched, status: int, **parts: str) -> None:
    """In the end: on a busy machine a part that is there may be asked in vain once."""
    eventually(lambda: said(watched.world.http.get(READY)) == (status, parts), 20)


def worker_says(watched: Watched, status: int, **parts: object) -> None:
    eventually(lambda: said(watched.get(WORKER, READY)) == (status, parts), 20)


def test_all_is_well(watched: Watched) -> None:
    gateway_says(watched, 200, store="ok", engine="ok")
    worker_says(watched, 200, store="ok", engine="ok", polling=True)
    assert watched.world.http.get(LIVE).json() == {"gateway": "ok"}
    assert watched.get(WORKER, LIVE).json() == {"worker": "ok"}
    assert watched.get(WORKER, "/").status_code == 404


def test_without_a_store_both_are_alive_and_not_ready(watched: Watched, migrated: EmbeddedPostgres) -> None:
    with store_away(migrated, watched.world.database):
        gateway_says(watched, 503, store="unreachable", engine="ok")
        worker_says(watched, 503, store="unreachable", engine="ok", polling=True)
        assert watched.world.http.get(LIVE).is_success
        assert watched.get(WORKER, LIVE).is_success
    eventually(lambda: watched.world.http.get(READY).is_success)
    eventually(lambda: watched.get(WORKER, READY).is_success)


def test_without_an_engine_the_gateway_is_ready_and_the_worker_is_not(without_engine: Watched) -> None:
    gateway_says(without_engine, 200, store="ok", engine="unreachable")
    worker_says(without_engine, 503, store="ok", engine="unreachable", polling=False)
    assert without_engine.get(WORKER, LIVE).is_success


def test_without_an_engine_the_backlogs_grow(without_engine: Watched) -> None:
    """What is accepted and cannot go on is counted with its age, as is what the CRM does not show yet."""
    world = without_engine.world
    company = world.seed().company_id
    run_id = world.submit(company)
    world.set_company(company, AMENDER, iban="FR1420041010050500013M02606")
    for name in ("unstarted", "unread", "unseen"):
        eventually(lambda: without_engine.gateway(f"counterfoil_{name}") == 1, 20)  # noqa: B023 (used at once)
        assert without_engine.gateway(f"counterfoil_{name}_oldest_seconds") > 0
    assert world.show(run_id)["state"] == "queued"
    assert without_engine.gateway("counterfoil_open_runs", state="queued") == 1


@pytest.mark.parametrize(
    ("program", "setting"),
    [
        (["worker.py"], "WORKER_HEALTH_PORT"),
        (["worker.py"], "ENGINE_METRICS_PORT"),
        (["-m", "gateway"], "GATEWAY_METRICS_PORT"),
    ],
)
def test_a_taken_port_is_an_error_that_names_its_setting(watched: Watched, program: list[str], setting: str) -> None:
    name = f"COUNTERFOIL_{setting}"
    off = {f"COUNTERFOIL_{other}": "0" for other in PORTS}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        environment = {**watched.world.environment, **off, name: str(taken.getsockname()[1])}
        ended = subprocess.run(
            [sys.executable, *program], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
        )
    assert ended.returncode == 1
    assert f"{name}: port {environment[name]} is taken" in ended.stderr
