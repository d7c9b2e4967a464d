"""The engine away, wiped, reset, terminated or broken: no business truth is lost and no effect happens twice."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import httpx
import pytest
from databases import fresh_database
from engine_view import EngineView
from eventually import ANSWER_SECONDS, eventually
from sandboxes import sandbox_process
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.exceptions import WorkflowAlreadyStartedError
from world import PORTAL, TOKEN, Program, World, world

from business_store.requests import Asked, start_run
from business_store.sweeping import engine_row
from domain.identity import SubjectRef
from domain.partner_onboarding import ONBOARDING
from stack.child import Command, Files
from stack.ports import free_port
from stack.postgres import EmbeddedPostgres
from stack.temporal import EmbeddedTemporal, TemporalSettings

RUNNING, TERMINATED = WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.TERMINATED
COMPLETED = WorkflowExecutionStatus.COMPLETED
pytestmark = pytest.mark.timeout(900)
ACCOUNTS = {"method": "POST", "path_prefix": "/v1/accounts"}
BROKEN_WORKER = Path(__file__).parents[1] / "support" / "broken_worker.py"


class QuickToReport(EmbeddedTemporal):
    """Says after two failed tasks, not five, that an execution has problems; the report is the same."""

    def _prepare(self) -> Command:
        command = super()._prepare()
        report = "system.numConsecutiveWorkflowTaskProblemsToTriggerSearchAttribute=2"
        return replace(command, argv=(*command.argv, "--dynamic-config-value", report))


@pytest.fixture(scope="module")
def temporal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTemporal]:
    """A Temporal of this module's own, on a file, to be killed and wiped."""
    folder = tmp_path_factory.mktemp("lost-engine")
    server = QuickToReport(
        TemporalSettings(free_port(), database=folder / "temporal.sqlite"), Files.of(folder, "temporal")
    )
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def lone(
    migrated: EmbeddedPostgres, temporal: EmbeddedTemporal, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """A world on that Temporal, impatient so that every repair comes soon, and patient with CRM and provider: what is
    under way there is still under way when the engine is told to end it."""
    folder = tmp_path_factory.mktemp("lone")
    repaired = {"sweep_patience": "0.2", "engine_check": "1", "send_timeout": "10", "read_timeout": "10"}
    with (
        sandbox_process(folder / "sandbox.db") as sandbox,
        fresh_database(migrated) as database,
        world(database, temporal.address, sandbox, folder, **repaired) as running,
    ):
        yield running


@pytest.fixture(scope="module")
def engine(lone: World, temporal: EmbeddedTemporal, runner: asyncio.Runner) -> EngineView:
    return EngineView(lone, runner.run(Client.connect(temporal.address)), runner)


def waiting_run(lone: World) -> str:
    run_id = lone.submit(lone.seed().company_id)
    lone.wait_state(run_id, "awaiting_review")
    return run_id


def runs_of(lone: World, run_id: str) -> list[str]:
    """Ids of all runs under the business key of this one."""
    key = lone.show(run_id)["business_key"]
    return [run["run"] for run in lone.http.get("/runs", params={"business_key": key}).json()]


def finish(lone: World, run_id: str) -> None:
    """Approve, and find one account, one task and four places that agree."""
    assert lone.decide(run_id).status_code == 200
    lone.wait_state(run_id, "succeeded")
    lone.agrees(run_id)


def epochs(lone: World, run_id: str) -> list[int]:
    """The epoch of every execution that ever asked for the run."""
    rows = lone.rows("SELECT epoch FROM engine_execution WHERE run_id = %s ORDER BY seen_at", run_id)
    return [row["epoch"] for row in rows]


# ── The engine away ─────────────────────────────────────────────────────────────────────────────────────────────


def test_c25_a_trigger_while_the_engine_is_away_waits_in_sight_and_starts_once(
    lone: World, temporal: EmbeddedTemporal, engine: EngineView
) -> None:
    temporal.kill()
    try:
        run_id = lone.submit(lone.seed().company_id)
        pending = lone.show(run_id)
        assert (pending["state"], pending["engine"]["health"]) == ("queued", "not_started")
        assert datetime.fromisoformat(pending["engine"]["created_at"]) <= datetime.now(UTC)
        listed = lone.http.get("/runs", params={"state": "queued"}).json()
        assert [(run["run"], run["engine_health"]) for run in listed] == [(run_id, "not_started")]
        assert [event["next"] for event in lone.events(run_id)] == ["queued"]
    finally:
        temporal.start()
    lone.wait_state(run_id, "awaiting_review", within=60)
    assert epochs(lone, run_id) == [1]
    assert [event["reason"] for event in lone.events(run_id)].count("started") == 1
    assert len(eventually(lambda: engine.executions(run_id))) == 1
    finish(lone, run_id)


def test_c25_a_process_that_died_between_commit_and_start_leaves_a_run_that_is_started_once(
    lone: World, engine: EngineView
) -> None:
    company = lone.seed()
    lone.actor("otto", "operator")
    asked = Asked(ONBOARDING, SubjectRef("hubspot", PORTAL, "0-2", company.company_id), "otto")
    run_id, made = lone.store.write(lambda connection: start_run(connection, asked))
    assert made
    lone.wait_state(run_id, "awaiting_review")
    assert epochs(lone, run_id) == [1]
    finish(lone, run_id)
    assert len(eventually(lambda: engine.executions(run_id))) == 1


def test_a_decision_recorded_while_the_engine_is_away_is_carried_out_afterwards(
    lone: World, temporal: EmbeddedTemporal
) -> None:
    run_id = waiting_run(lone)
    lone.wait_quiet(run_id)
    temporal.kill()
    try:
        assert lone.decide(run_id).status_code == 200
        assert lone.show(run_id)["engine"]["unseen_nudges"] == 1
    finally:
        temporal.start()
    lone.wait_state(run_id, "succeeded", within=60)
    lone.agrees(run_id)


# ── Executions that somebody ended ──────────────────────────────────────────────────────────────────────────────


def test_c27_a_waiting_run_that_was_terminated_goes_to_an_operator_and_only_their_word_starts_it_again(
    lone: World, engine: EngineView
) -> None:
    run_id = waiting_run(lone)
    company_id = lone.show(run_id)["subject"].rpartition(":")[2]
    engine.terminate(run_id)
    held = lone.wait_state(run_id, "needs_operator", reason="execution_lost")
    assert (held["next_owner"], held["engine"]["health"]) == ("operator", "lost")
    assert any(" retry " in action for action in held["next_actions"])

    lone.set_company(company_id, onboarding_stage="draft")
    lone.set_company(company_id, onboarding_stage="submitted")
    lone.set_company(company_id, description="changed meanwhile")
    lone.sandbox.wait_until_delivered()
    assert runs_of(lone, run_id) == [run_id]
    assert engine.status(run_id) is TERMINATED
    assert lone.show(run_id)["state"] == "needs_operator"
    refused = lone.decide(run_id)
    assert (refused.status_code, refused.json()["why"]) == (409, "not_awaiting_review")

    assert lone.resolve(run_id, "retry").status_code == 200
    again = lone.wait_version(run_id, 2)
    assert (again["engine"]["epoch"], again["engine"]["health"]) == (2, "ok")
    assert engine.status(run_id, epoch=1) is TERMINATED
    finish(lone, run_id)
    assert runs_of(lone, run_id) == [run_id]


def test_c69_an_execution_canceled_by_request_loses_nothing(lone: World, engine: EngineView) -> None:
    run_id = waiting_run(lone)
    engine.run(engine.handle(run_id).cancel())
    lone.wait_state(run_id, "needs_operator", reason="execution_lost")
    assert lone.resolve(run_id, "retry").status_code == 200
    lone.wait_state(run_id, "awaiting_review")
    finish(lone, run_id)


def test_c69_terminated_with_the_provider_call_in_flight_is_found_out(lone: World, engine: EngineView) -> None:
    run_id = waiting_run(lone)
    lone.sandbox.fault("slow_after", match=ACCOUNTS, seconds=5)
    assert lone.decide(run_id).status_code == 200
    eventually(lambda: lone.accounts(run_id))
    engine.terminate(run_id)
    lone.wait_state(run_id, "succeeded")
    assert lone.agrees(run_id)["engine"]["epoch"] == 2


def test_c69_terminated_after_the_last_effect_is_completed_from_what_the_store_knows(
    lone: World, engine: EngineView
) -> None:
    run_id = waiting_run(lone)
    lone.sandbox.fault("slow_before", match={"method": "GET", "path_prefix": "/v1/accounts/"}, seconds=5)
    assert lone.decide(run_id).status_code == 200
    eventually(lambda: [o["outcome"] for o in lone.show(run_id)["operations"]] == ["accepted", "accepted"])
    engine.terminate(run_id)
    lone.wait_state(run_id, "succeeded")
    assert lone.agrees(run_id)["engine"]["epoch"] == 2
    assert {o["attempts"] for o in lone.show(run_id)["operations"]} == {1}


def test_c69_an_execution_lost_while_an_operator_was_asked_for_another_reason_starts_at_their_word(
    lone: World, engine: EngineView
) -> None:
    run_id = waiting_run(lone)
    company_id = lone.show(run_id)["subject"].rpartition(":")[2]
    archive_company(lone, company_id)
    assert lone.decide(run_id).status_code == 200
    lone.wait_state(run_id, "needs_operator", reason="subject_gone")
    engine.terminate(run_id)
    held = eventually(lambda: (shown := lone.show(run_id))["engine"]["health"] == "lost" and shown)
    assert held["reason"] == "subject_gone"
    assert lone.resolve(run_id, "retry").status_code == 200
    looked = eventually(lambda: (shown := lone.show(run_id))["seq"] > held["seq"] + 1 and shown)
    assert (looked["state"], looked["reason"]) == ("needs_operator", "subject_gone")
    assert (looked["engine"]["epoch"], looked["engine"]["health"]) == (2, "ok")
    assert lone.resolve(run_id, "fail").status_code == 200
    assert eventually(lambda: engine.status(run_id) is COMPLETED)


def archive_company(lone: World, company_id: str) -> None:
    url = f"{lone.sandbox.base_url}/crm/v3/objects/companies/{company_id}"
    httpx.delete(url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=ANSWER_SECONDS).raise_for_status()


# ── Executions that the engine itself lost ──────────────────────────────────────────────────────────────────────


def test_a_waiting_execution_that_was_deleted_is_started_again_by_itself(lone: World, engine: EngineView) -> None:
    run_id = waiting_run(lone)
    deleted = engine.cli("workflow", "delete", "--workflow-id", engine.workflow_id(run_id), "--yes")
    assert deleted.returncode == 0, deleted.stderr
    eventually(lambda: restarted(lone, run_id), 30)
    assert lone.show(run_id)["state"] == "awaiting_review"
    finish(lone, run_id)


def test_a_wiped_engine_gets_every_open_run_back(lone: World, temporal: EmbeddedTemporal) -> None:
    over, first, second = (waiting_run(lone) for _ in range(3))
    finish(lone, over)
    before = {run_id: lone.events(run_id) for run_id in (over, first, second)}
    temporal.kill()
    wipe(temporal)
    temporal.start()
    for run_id in (first, second):
        eventually(partial(restarted, lone, run_id), 60)
    assert {run_id: lone.events(run_id) for run_id in (over, first, second)} == before
    for run_id in (first, second):
        finish(lone, run_id)
    assert epochs(lone, over) == [1]


def restarted(lone: World, run_id: str) -> bool:
    return epochs(lone, run_id) == [1, 2]


def wipe(temporal: EmbeddedTemporal) -> None:
    file = temporal.settings.database
    assert file is not None
    for part in file.parent.glob(f"{file.name}*"):
        part.unlink()


# ── Resets and double starts ────────────────────────────────────────────────────────────────────────────────────


def test_a_completed_execution_that_is_reset_ends_at_once_without_an_effect(lone: World, engine: EngineView) -> None:
    run_id = waiting_run(lone)
    finish(lone, run_id)
    events, sent = lone.events(run_id), len(lone.sandbox.requests(path_prefix="/v1/accounts"))
    new_run = engine.reset(run_id)
    handle = engine.client.get_workflow_handle(engine.workflow_id(run_id), run_id=new_run)
    assert eventually(lambda: engine.run(handle.describe()).status is COMPLETED)
    assert lone.events(run_id) == events
    assert len(lone.sandbox.requests(path_prefix="/v1/accounts")) == sent
    lone.agrees(run_id)


def test_a_waiting_execution_that_is_reset_goes_on_as_the_newest(lone: World, engine: EngineView) -> None:
    run_id = waiting_run(lone)
    new_run = engine.reset(run_id)
    eventually(lambda: lone.show(run_id)["engine"]["temporal_run_id"] == new_run)
    assert lone.show(run_id)["state"] == "awaiting_review"
    finish(lone, run_id)
    assert epochs(lone, run_id) == [1, 1]


def test_a_reset_with_the_provider_call_in_flight_makes_no_second_account(lone: World, engine: EngineView) -> None:
    run_id = waiting_run(lone)
    lone.sandbox.fault("slow_after", match=ACCOUNTS, seconds=5)
    assert lone.decide(run_id).status_code == 200
    eventually(lambda: lone.accounts(run_id))
    engine.reset(run_id)
    lone.wait_state(run_id, "succeeded")
    lone.agrees(run_id)


def test_a_second_start_under_the_same_id_is_refused_by_the_engine(lone: World, engine: EngineView) -> None:
    run_id = waiting_run(lone)
    with pytest.raises(WorkflowAlreadyStartedError):
        engine.run(start_beside(lone, engine, run_id, engine.workflow_id(run_id)))
    finish(lone, run_id)


def test_a_start_like_this_one_under_another_id_makes_no_second_effect(lone: World, engine: EngineView) -> None:
    """Temporal UI offers it: the newest execution takes over, the one before it ends, and one account is made."""
    run_id = waiting_run(lone)
    engine.run(start_beside(lone, engine, run_id, "by-hand"))
    eventually(lambda: len(epochs(lone, run_id)) == 2)
    assert lone.decide(run_id).status_code == 200
    eventually(lambda: lone.show(run_id)["state"] in ("succeeded", "needs_operator"), 30)
    if lone.show(run_id)["state"] == "needs_operator":
        assert lone.resolve(run_id, "retry").status_code == 200
    lone.wait_state(run_id, "succeeded")
    assert (len(lone.accounts(run_id)), len(lone.tasks(run_id))) == (1, 1)
    assert eventually(lambda: engine.status(run_id, epoch=1) is COMPLETED)


async def start_beside(lone: World, engine: EngineView, run_id: str, workflow_id: str) -> None:
    with lone.store.reading() as connection:
        row = engine_row(connection, run_id)
    start = {
        "run_id": run_id,
        "epoch": row.epoch,
        "process": row.process,
        "business_key": row.business_key,
        "link": "",
        "send_seconds": 30.0,
    }
    queue = lone.settings.task_queue
    await engine.client.start_workflow(row.process, start, id=workflow_id, task_queue=queue)


# ── Workers gone or broken ──────────────────────────────────────────────────────────────────────────────────────


def test_without_any_worker_a_run_shows_what_it_has_not_seen_yet(lone: World, engine: EngineView) -> None:
    run_id = waiting_run(lone)
    lone.wait_quiet(run_id)
    lone.worker.kill()
    try:
        assert lone.decide(run_id).status_code == 200
        shown = lone.show(run_id)
        assert (shown["state"], shown["engine"]["unseen_nudges"]) == ("awaiting_review", 1)
        assert engine.status(run_id) is RUNNING
    finally:
        lone.worker.start()
    lone.wait_state(run_id, "succeeded", within=40)
    lone.agrees(run_id)


def test_c67_an_execution_whose_tasks_fail_after_a_deploy_is_shown_as_stuck_and_recovers(
    lone: World, engine: EngineView
) -> None:
    run_id = waiting_run(lone)
    broken = Program(
        "broken", [sys.executable, str(BROKEN_WORKER)], lone.environment | {"PYTHONPATH": "."}, lone.worker.log
    )
    lone.worker.kill()
    broken.start()
    try:
        assert lone.decide(run_id).status_code == 200
        decided = lone.show(run_id)
        eventually(lambda: lone.show(run_id)["engine"]["health"] == "stuck", 90)
        shown = lone.show(run_id)
        assert (shown["state"], shown["decisions"]) == ("awaiting_review", decided["decisions"])
        assert lone.http.get("/runs", params={"state": "awaiting_review"}).json()[0]["engine_health"] == "stuck"
    finally:
        broken.kill()
        lone.worker.start()
    lone.wait_state(run_id, "succeeded", within=60)
    lone.agrees(run_id)
