"""Every metric moves when what it counts happens, read where Prometheus would read it."""

from __future__ import annotations

import re
import time
from typing import Any

import httpx
import pytest
from eventually import eventually
from inbound_samples import batch, hubspot_element
from sandboxes import ROOT
from watching import Watched, store_away
from world import AMENDER, PARTNER, SECRET

from gateway.signatures import sign_hubspot_v3
from operating.store_gauges import BACKLOGS
from stack.postgres import EmbeddedPostgres

ACCOUNTS = {"method": "POST", "path_prefix": "/v1/accounts"}
HUBSPOT = {"source": "hubspot"}


def deliver(watched: Watched, *elements: Any) -> httpx.Response:  # noqa: ANN401 (any JSON)
    body = batch(*elements)
    signed = sign_hubspot_v3(SECRET, watched.setting("HUBSPOT_PUBLIC_URL"), int(time.time() * 1000), body)
    return watched.world.http.post("/triggers/hubspot", content=body, headers=signed)


def test_requests_are_counted_by_route_and_status_never_by_path(watched: Watched, approved: str) -> None:
    """The count comes after the answer's last byte: of a run that nobody else asks about."""
    labels = {"route": "/runs/{run_id}", "method": "GET", "status": "404"}
    before = watched.gateway("counterfoil_gateway_requests_total", **labels)
    assert watched.world.http.get("/runs/run-unheard-of").status_code == 404
    eventually(lambda: watched.gateway("counterfoil_gateway_requests_total", **labels) == before + 1)
    text = watched.get("GATEWAY_METRICS_PORT", "/metrics").text
    assert [each for each in (approved, "run-unheard-of") if each in text] == []


def test_unknown_paths_and_methods_share_one_label(watched: Watched) -> None:
    watched.world.http.request("PROPFIND", "/a-path-that-nobody-has")
    labels = {"route": "unmatched", "method": "other", "status": "404"}
    eventually(lambda: watched.gateway("counterfoil_gateway_requests_total", **labels) >= 1)


def test_elements_are_counted_by_what_became_of_them(watched: Watched) -> None:
    """What the CRM echoes of other tests comes in between: what is counted is what the store has by then."""
    duplicates = elements(watched, "duplicate")
    good = hubspot_element(eventId=time.time_ns(), propertyName="nobody_listens_to_this")
    assert deliver(watched, good, {"objectId": "none"}).status_code == 202
    assert deliver(watched, good).status_code == 202
    eventually(lambda: elements(watched, "duplicate") > duplicates)
    for disposition in ("irrelevant", "quarantined"):
        eventually(lambda: elements(watched, disposition) == kept(watched, disposition) > 0)  # noqa: B023 (used at once)


def elements(watched: Watched, disposition: str) -> float:
    return watched.gateway("counterfoil_trigger_elements_total", **HUBSPOT, disposition=disposition)


def kept(watched: Watched, disposition: str) -> int:
    """The store's own count: a duplicate has no row of its own, every other element has."""
    rows = watched.world.rows("SELECT count(*) FROM delivery WHERE disposition = %s", disposition)
    return int(rows[0]["count"])


def test_starts_are_counted(watched: Watched, approved: str) -> None:
    assert watched.gateway("counterfoil_trigger_elements_total", **HUBSPOT, disposition="started") >= 1


@pytest.mark.parametrize(
    ("body", "headers", "verdict", "status"),
    [
        (b"[]", {"X-HubSpot-Signature-v3": "bm8=", "X-HubSpot-Request-Timestamp": "now"}, "bad_signature", 401),
        (b"[" + b" " * 2_000_000 + b"]", {}, "body_too_large", 413),
    ],
)
def test_refused_bodies_are_counted_by_reason(
    watched: Watched, body: bytes, headers: dict[str, str], verdict: str, status: int
) -> None:
    headers = {name: text.replace("now", str(int(time.time() * 1000))) for name, text in headers.items()}
    before = watched.gateway("counterfoil_trigger_receipts_total", **HUBSPOT, verdict=verdict)
    assert watched.world.http.post("/triggers/hubspot", content=body, headers=headers).status_code == status
    assert watched.gateway("counterfoil_trigger_receipts_total", **HUBSPOT, verdict=verdict) == before + 1


def test_intake_latency_is_measured(watched: Watched) -> None:
    route = {"route": "/triggers/hubspot"}
    before = watched.gateway("counterfoil_gateway_request_seconds_count", **route)
    deliver(watched, hubspot_element(eventId=time.time_ns(), propertyName="nobody_listens_to_this"))
    eventually(lambda: watched.gateway("counterfoil_gateway_request_seconds_count", **route) >= before + 1)
    assert watched.gateway("counterfoil_gateway_request_seconds_sum", **route) > 0


def test_sends_are_counted_by_signal(watched: Watched, approved: str) -> None:
    labels = {"system": "stripe", "operation": "create_account"}
    assert watched.worker("counterfoil_sends_total", **labels, signal="accepted") >= 1
    assert watched.worker("counterfoil_send_seconds_count", **labels) >= 1


def test_the_engines_own_metrics_are_there(watched: Watched, approved: str) -> None:
    text = watched.get("ENGINE_METRICS_PORT", "/metrics").text
    assert "temporal_local_activity_execution_latency" in text
    assert "temporal_workflow_task_schedule_to_start_latency" in text
    assert "temporal_worker_task_slots_available" in text


def test_a_refused_permit_is_counted_by_its_code(watched: Watched) -> None:
    """The record changes unseen between approval and permit: the approved version may not be sent."""
    world, name = watched.world, "counterfoil_permits_refused_total"
    before = watched.worker(name)
    company = world.seed().company_id
    run_id = world.submit(company)
    world.wait_state(run_id, "awaiting_review")
    world.sandbox.settings(webhook_hold=True)
    try:
        world.set_company(company, AMENDER, iban="FR1420041010050500013M02606")
        assert world.decide(run_id).is_success
        eventually(lambda: watched.worker(name) > before, 30)
    finally:
        world.sandbox.settings(webhook_hold=False)
    world.wait_version(run_id, 2)


def test_open_runs_are_counted_by_state_and_age(watched: Watched) -> None:
    world = watched.world
    labels = {"process": "partner-onboarding", "state": "awaiting_review"}
    world.wait_state(world.submit(world.seed().company_id), "awaiting_review")
    there = "SELECT FROM run WHERE process = 'partner-onboarding' AND state = 'awaiting_review'"
    eventually(lambda: watched.gateway("counterfoil_open_runs", **labels, age="1h") == len(world.rows(there)) > 0)
    assert watched.gateway("counterfoil_oldest_open_run_seconds", **labels) > 0
    assert watched.gateway("counterfoil_open_runs", **labels, age="older") == 0


def test_loops_say_when_they_last_finished(watched: Watched) -> None:
    def lags() -> bool:
        return 0 < watched.gateway("counterfoil_loop_lag_seconds", loop="sweep") < 60

    eventually(lags, 20)
    eventually(lambda: watched.gateway("counterfoil_loop_lag_seconds", loop="projection") > 0, 20)


def test_a_quiet_store_has_no_backlog(watched: Watched, approved: str) -> None:
    names = [f"counterfoil_{name}" for name in ("unstarted", "unseen", "unread", "unprojected")]
    assert watched.gateway("counterfoil_store_up") == 1
    eventually(lambda: [watched.gateway(name) for name in names] == [0, 0, 0, 0], 20)


def test_a_crm_that_cannot_be_written_shows_as_projection_lag(watched: Watched) -> None:
    world = watched.world
    run_id = world.submit(world.seed().company_id)
    world.wait_state(run_id, "awaiting_review")
    eventually(lambda: watched.gateway("counterfoil_unprojected") == 0)
    failed = watched.worker("counterfoil_reads_failed_total", system="hubspot")
    world.sandbox.fault("refuse", times=1000, match={"method": "PATCH", "path_prefix": "/crm"})
    try:
        assert world.decide(run_id, "rejected").is_success
        eventually(lambda: watched.worker("counterfoil_reads_failed_total", system="hubspot") > failed, 20)
        eventually(lambda: watched.gateway("counterfoil_unprojected") >= 1)
        assert watched.gateway("counterfoil_unprojected_oldest_seconds") > 0
    finally:
        world.sandbox.clear_faults()


def test_a_doubt_shows_with_its_window_until_it_is_settled(watched: Watched) -> None:
    world, labels = watched.world, {"system": "stripe", "operation": "create_account"}
    run_id = world.submit(world.seed().company_id)
    world.wait_state(run_id, "awaiting_review")
    world.sandbox.fault("drop_before", times=100, match=ACCOUNTS)
    try:
        assert world.decide(run_id).is_success
        world.wait_state(run_id, "outcome_unknown")
        eventually(lambda: watched.gateway("counterfoil_operations_unknown", **labels) == 1, 20)
        assert 0 < watched.gateway("counterfoil_resend_window_seconds", **labels) < 86_400
        assert watched.worker("counterfoil_sends_total", **labels, signal="unknown") >= 1
    finally:
        world.sandbox.clear_faults()
    world.wait_state(run_id, "succeeded")
    eventually(lambda: watched.gateway("counterfoil_operations_unknown", **labels) == 0)


def test_an_answer_that_could_not_be_saved_at_once_is_counted_and_kept(
    own: Watched, migrated: EmbeddedPostgres
) -> None:
    world = own.world
    run_id = world.submit(world.seed().company_id)
    world.wait_state(run_id, "awaiting_review")
    world.sandbox.fault("slow_after", match=ACCOUNTS, seconds=5)
    assert world.decide(run_id).is_success
    eventually(lambda: world.accounts(run_id), 20)
    with store_away(migrated, world.database):
        eventually(lambda: own.worker("counterfoil_saves_retried_total") > 0)
        eventually(lambda: own.gateway("counterfoil_store_up") == 0)
    world.wait_state(run_id, "succeeded")
    assert len(world.accounts(run_id)) == 1


def test_the_documented_metrics_are_those_that_exist(watched: Watched, approved: str) -> None:
    scraped = [watched.get(port, "/metrics").text for port in ("GATEWAY_METRICS_PORT", "WORKER_HEALTH_PORT")]
    existing = {name for text in scraped for name in re.findall(r"# TYPE (counterfoil_\w+)", text)}
    documented = set(re.findall(r"`(counterfoil_\w+)", (ROOT / "docs" / "operating.md").read_text()))
    aged = {f"counterfoil_{name}_oldest_seconds" for name in BACKLOGS}
    assert {name for name in existing if not name.endswith("_created")} == documented | aged


def test_no_metric_names_a_partner(watched: Watched, approved: str) -> None:
    for port in ("GATEWAY_METRICS_PORT", "WORKER_HEALTH_PORT", "ENGINE_METRICS_PORT"):
        text = watched.get(port, "/metrics").text
        assert not [value for value in PARTNER.values() if value in text and value != "DE"]
