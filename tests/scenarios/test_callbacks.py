"""Callbacks that the provider itself sends: before any look, before the answer, twice, and as the only way to know."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from callers import StripeCaller, about
from databases import Database
from eventually import eventually
from sandboxes import sandbox_process
from world import STRIPE_WEBHOOK_SECRET, World, world

ACCOUNTS = {"method": "POST", "path_prefix": "/v1/accounts"}
CALLBACK_ONLY = Path(__file__).parents[1] / "support" / "callback_only_worker.py"


@pytest.fixture
def called(database: Database, temporal_server: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    """A world of its own, whose Stripe calls back; `request.param` are settings of it."""
    settings: dict[str, str] = getattr(request, "param", {})
    with (
        sandbox_process(tmp_path / "sandbox.db") as outside,
        world(database, temporal_server, outside, tmp_path, **settings) as running,
    ):
        call_back(running)
        yield running


def call_back(world: World) -> None:
    url = f"{world.settings.public_url}/callbacks/stripe"
    world.sandbox.settings(stripe_webhook_urls=[url], stripe_webhook_secret=STRIPE_WEBHOOK_SECRET)


def dispositions(world: World) -> list[str]:
    return [row["disposition"] for row in world.rows("SELECT disposition FROM callback_delivery ORDER BY id")]


def test_c48_the_provider_drops_every_answer_and_its_callback_settles_it_before_any_look(called: World) -> None:
    called.sandbox.settings(webhook_duplicate=True)
    run_id = called.submit(called.seed().company_id)
    called.fault("drop_after_commit", match=ACCOUNTS, times=50)
    called.approve(run_id)
    called.wait_state(run_id, "succeeded", within=60)
    called.agrees(run_id)
    called.sandbox.wait_until_delivered()
    assert dispositions(called) == ["taken_up"]
    assert called.rows("SELECT FROM probe") == []


@pytest.mark.parametrize("called", [{"send_timeout": "20"}], indirect=True, ids=[""])
def test_c64_a_callback_before_the_answer_agrees_with_it(called: World) -> None:
    run_id = called.submit(called.seed().company_id)
    called.fault("slow_after", match=ACCOUNTS, seconds=5)
    called.approve(run_id)
    called.wait_state(run_id, "succeeded", within=60)
    called.agrees(run_id)
    rows = called.rows(
        "SELECT k.recorded_at < n.recorded_at AS before FROM callback k"
        " JOIN answer n ON n.operation_key = k.operation_key"
    )
    assert rows == [{"before": True}]
    assert dispositions(called) == ["taken_up"]


@pytest.fixture
def callback_only(called: World, request: pytest.FixtureRequest) -> World:
    """The same with a worker for which callbacks are the only way to know, for as many seconds as the test says."""
    called.worker.kill()
    told = {"CALLBACK_WITHIN": str(request.param), "PYTHONPATH": "."}
    called.worker.argv = [sys.executable, str(CALLBACK_ONLY)]
    called.worker.environment = {**called.worker.environment, **told}
    called.worker.start()
    return called


@pytest.mark.parametrize("callback_only", [300], indirect=True)
def test_c5_alone_waits_for_the_callback_and_is_woken_by_it(callback_only: World) -> None:
    run_id = callback_only.submit(callback_only.seed().company_id)
    callback_only.wait_state(run_id, "awaiting_review")
    callback_only.sandbox.wait_until_delivered()
    callback_only.sandbox.settings(webhook_hold=True)
    callback_only.fault("drop_after_commit", match=ACCOUNTS, times=50)
    callback_only.approve(run_id)
    shown = callback_only.wait_state(run_id, "outcome_unknown", reason="awaiting_callback")
    assert shown["operations"][0]["outcome"] == "unknown"
    callback_only.sandbox.settings(webhook_hold=False)
    callback_only.wait_state(run_id, "succeeded", within=60)
    callback_only.agrees(run_id)
    assert callback_only.rows("SELECT FROM probe") == []
    assert callback_only.rows("SELECT count(*) AS n FROM attempt")[0]["n"] == 2


@pytest.mark.parametrize("callback_only", [2], indirect=True)
def test_c5_alone_asks_a_person_after_its_deadline_and_a_later_callback_is_their_evidence(callback_only: World) -> None:
    callback_only.sandbox.settings(stripe_webhook_urls=[])
    run_id = callback_only.submit(callback_only.seed().company_id)
    callback_only.fault("drop_after_commit", match=ACCOUNTS, times=50)
    callback_only.approve(run_id)
    asked = callback_only.wait_state(run_id, "needs_operator", reason="contracts_exhausted", within=60)
    waited = [(event["next"], event["reason"]) for event in callback_only.events(run_id)]
    assert ("outcome_unknown", "awaiting_callback") in waited
    [account] = callback_only.accounts(run_id)
    [told] = StripeCaller(callback_only).send(about(account))
    assert (told["disposition"], told["run"]) == ("taken_up", run_id)
    shown = callback_only.show(run_id)
    assert (shown["state"], shown["reason"], shown["seq"]) == ("needs_operator", asked["reason"], asked["seq"] + 1)
    assert callback_only.events(run_id)[-1]["evidence"]["reference"] == account["id"]
    assert callback_only.resolve(run_id, "not_executed").status_code == 409
    eventually(lambda: callback_only.resolve(run_id, "confirm", reference=account["id"]).status_code == 200, within=30)
    callback_only.wait_state(run_id, "succeeded", within=60)
    callback_only.agrees(run_id)
