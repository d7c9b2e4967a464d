"""A stop lets what is in hand finish: requests are answered, answers of providers are saved, the exit code is 0."""

from __future__ import annotations

import json
import signal
import socket
import time

import httpx
import pytest
from eventually import ANSWER_SECONDS, eventually
from inbound_samples import batch, hubspot_element
from watching import Watched
from world import CONTACT, PARTNER, SECRET

from gateway.signatures import sign_hubspot_v3

ACCOUNTS = {"method": "POST", "path_prefix": "/v1/accounts"}
SECRETS = [*(value for value in PARTNER.values() if len(value) > 4), *CONTACT.values(), "DE8937040044"]


def test_a_stop_while_the_provider_is_called_saves_its_answer(own: Watched) -> None:
    world = own.world
    run_id = world.submit(world.seed().company_id)
    world.wait_state(run_id, "awaiting_review")
    world.sandbox.fault("slow_after", match=ACCOUNTS, seconds=3)
    assert world.decide(run_id).is_success
    eventually(lambda: world.accounts(run_id), 20)

    assert world.worker.signal(signal.SIGTERM) == 0

    operation = world.show(run_id)["operations"][0]
    assert (operation["outcome"], operation["attempts"], operation["in_flight_until"]) == ("accepted", 1, None)
    assert own.lines("worker")[-1]["message"] == "drained"
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
    with socket.create_connection(("127.0.0.1", int(own.setting("GATEWAY_PORT"))), timeout=ANSWER_SECONDS) as client:
        client.sendall(head.encode() + b"\r\n\r\n" + body[:10])
        assert world.gateway.process is not None
        # A connection of its own: it is accepted after the one above.
        eventually(lambda: httpx.get(f"{own.setting('PUBLIC_URL')}/health/live", timeout=ANSWER_SECONDS).is_success)
        world.gateway.process.send_signal(signal.SIGTERM)
        eventually(lambda: "Shutting down" in (own.folder / "gateway.log").read_text())
        client.sendall(body[10:])
        answer = client.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 202")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["elements"][0]["disposition"] == "irrelevant"
    assert world.gateway.process.wait(ANSWER_SECONDS) == 0
    assert world.rows("SELECT FROM delivery")
