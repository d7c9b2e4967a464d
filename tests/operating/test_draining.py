"""A stop lets what is in hand finish: requests are answered, answers of providers are saved, the exit code is 0."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from databases import Database
from eventually import eventually
from inbound_samples import batch, hubspot_element
from sandboxes import sandbox_process
from watching import Collector, Watched
from world import CONTACT, PARTNER, SECRET, world

from gateway.signatures import sign_hubspot_v3

ACCOUNTS = {"method": "POST", "path_prefix": "/v1/accounts"}
UNDER_WAY = "SELECT FROM operation WHERE run_id = %s AND in_flight_until IS NOT NULL"
SECRETS = [*(value for value in PARTNER.values() if len(value) > 4), *CONTACT.values(), "DE8937040044"]


@pytest.fixture
def own(
    database: Database,
    temporal_server: str,
    tmp_path: Path,
    traces: Collector,
    telling: None,
    switched_on: dict[str, str],
) -> Iterator[Watched]:
    """A world of this test's own, since its processes are stopped."""
    with (
        sandbox_process(tmp_path / "sandbox.db") as sandbox,
        world(database, temporal_server, sandbox, tmp_path, **switched_on) as running,
    ):
        yield Watched(running, tmp_path, traces)


def test_a_stop_while_the_provider_is_called_saves_its_answer(own: Watched) -> None:
    world = own.world
    run_id = world.submit(world.seed().company_id)
    world.wait_state(run_id, "awaiting_review")
    world.sandbox.fault("slow_after", match=ACCOUNTS, seconds=1.2)
    assert world.decide(run_id).is_success
    eventually(lambda: world.rows(UNDER_WAY, run_id), 20)

    assert world.worker.signal(signal.SIGTERM) == 0

    operation = world.show(run_id)["operations"][0]
    assert (operation["outcome"], operation["attempts"], operation["in_flight_until"]) == ("accepted", 1, None)
    assert [line["message"] for line in own.lines("worker")][-1] == "drained"
    assert not leaks(own, own.collector.bodies)
    world.worker.start()
    world.wait_state(run_id, "succeeded")
    assert len(world.accounts(run_id)) == 1


def leaks(own: Watched, spans: list[bytes]) -> list[str]:
    """Partner details in what was logged, counted or traced."""
    logged = "".join((own.folder / f"{program}.log").read_text() for program in ("gateway", "worker"))
    counted = own.get("GATEWAY_METRICS_PORT", "/metrics").text
    traced = b"".join(spans).decode("utf-8", "replace")
    return [secret for secret in SECRETS if secret in logged + counted + traced]


def test_an_idle_worker_stops_at_once_with_0(own: Watched) -> None:
    eventually(lambda: own.get("WORKER_HEALTH_PORT", "/health/ready").is_success, 20)
    assert own.world.worker.signal(signal.SIGTERM) == 0


def test_a_worker_that_stops_keeps_no_other_from_sweeping_and_projecting(own: Watched) -> None:
    left = "SELECT name FROM lease WHERE until > clock_timestamp() ORDER BY name"
    worker = own.world.worker
    worker.signal(signal.SIGTERM)
    worker.environment = {**worker.environment, "COUNTERFOIL_SWEEP_LEASE": "600"}
    worker.start()
    eventually(lambda: [row["name"] for row in own.world.rows(left)] == ["projection", "sweep"], 20)
    assert worker.signal(signal.SIGTERM) == 0
    assert own.world.rows(left) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_gateway_stops_at_once_with_0(own: Watched, number: signal.Signals) -> None:
    assert own.world.gateway.signal(number) == 0


def test_a_request_in_hand_is_answered_before_the_gateway_stops(own: Watched) -> None:
    """Half of the body has arrived when the stop comes; the other half is still taken, stored and answered."""
    world, body = own.world, batch(hubspot_element(eventId=time.time_ns(), propertyName="nobody_listens_to_this"))
    signed = sign_hubspot_v3(SECRET, own.setting("HUBSPOT_PUBLIC_URL"), int(time.time() * 1000), body)
    head = "\r\n".join(
        ["POST /triggers/hubspot HTTP/1.1", "Host: x", f"Content-Length: {len(body)}"]
        + [f"{name}: {text}" for name, text in signed.items()]
    )
    with socket.create_connection(("127.0.0.1", int(own.setting("GATEWAY_PORT"))), timeout=20) as client:
        client.sendall(head.encode() + b"\r\n\r\n" + body[:10])
        assert world.gateway.process is not None
        eventually(lambda: world.http.get("/health/live").is_success)
        world.gateway.process.send_signal(signal.SIGTERM)
        eventually(lambda: "Shutting down" in (own.folder / "gateway.log").read_text())
        client.sendall(body[10:])
        answer = client.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 202")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["elements"][0]["disposition"] == "irrelevant"
    assert world.gateway.process.wait(20) == 0
    assert world.rows("SELECT FROM delivery")
