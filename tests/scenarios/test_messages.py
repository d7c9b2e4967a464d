"""Messages that anybody can send with Temporal's own tools: none wedges a run and none decides anything."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from engine_view import EngineView
from eventually import eventually
from temporalio.api.common.v1 import Payload, Payloads, WorkflowExecution
from temporalio.api.workflowservice.v1 import SignalWorkflowExecutionRequest
from temporalio.client import WorkflowQueryFailedError, WorkflowUpdateFailedError
from temporalio.service import RPCError
from world import World

from business_store.actors import actor
from business_store.decisions import DecisionAsked, decide
from domain.approvals import Outcome

SIGNALED = "EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED"
FAILED_TASK = "EVENT_TYPE_WORKFLOW_TASK_FAILED"
ONE_DAY = timedelta(days=1)
BY_COMMAND_LINE: dict[str, tuple[str, ...]] = {
    "no input": ("nudge",),
    "a number": ("nudge", "--input", "1"),
    "three of other types": ("nudge", "--input", "[]", "--input", "null", "--input", '{"a": {"b": []}}'),
    "huge": ("nudge", "--input", json.dumps({"filler": "x" * 100_000})),
    "an unknown name": ("approve", "--input", '{"approved": true, "version": 1}'),
    "an unknown name without input": ("decision",),
    "a name of no letters": ("\u202e / %00", "--input", '""'),
    "another shape": ("nudge", "--input", "1", "--input-meta", "encoding=json/protobuf"),
    "binary": ("nudge", "--input", "AAECAw==", "--input-base64", "--input-meta", "encoding=binary/plain"),
    "an encoding nobody knows": ("nudge", "--input", "1", "--input-meta", "encoding=binary/sealed"),
    "a reserved name": ("__temporal_workflow_metadata", "--input", "1"),
}
BY_UI: dict[str, list[Payload]] = {
    "zero payloads": [],
    "json/plain": [Payload(metadata={"encoding": b"json/plain"}, data=b'{"approved": true}')],
    "json/protobuf": [
        Payload(metadata={"encoding": b"json/protobuf", "messageType": b"counterfoil.v1.None"}, data=b"{}")
    ],
    "json/protobuf without a type": [Payload(metadata={"encoding": b"json/protobuf"}, data=b'"x"')],
    "undecodable": [Payload(metadata={"encoding": b"binary/encrypted"}, data=b"\x00\xff")],
    "no metadata": [Payload(data=b"\x80")],
    "broken JSON": [Payload(metadata={"encoding": b"json/plain"}, data=b"{")],
}


@pytest.fixture(scope="module")
def waiting(shared: World, engine: EngineView) -> str:
    """A run that waits for approval while everything is thrown at it; its first unmatched signal is noted already."""
    run_id = shared.submit(shared.seed().company_id)
    shared.wait_state(run_id, "awaiting_review")
    shared.wait_quiet(run_id)
    engine.send(run_id, "nudge")
    eventually(lambda: unmatched(shared, run_id))
    return run_id


def unmatched(shared: World, run_id: str) -> list[dict[str, Any]]:
    """Events that note a signal with nothing in the store behind it."""
    return [event for event in shared.events(run_id) if event["evidence"].get("unmatched_signal")]


def signals(engine: EngineView, run_id: str, name: str) -> int:
    """How many of this name are in the history; the sweep may nudge too."""
    told = [event["workflowExecutionSignaledEventAttributes"] for event in engine.events(run_id, SIGNALED)]
    return [each["signalName"] for each in told].count(name)


def settled(shared: World, engine: EngineView, run_id: str) -> None:
    """Until the execution has dealt with every message: a query is answered after them, and no task failed."""
    metadata = engine.run(engine.handle(run_id).query("__temporal_workflow_metadata"))
    assert "Waiting for approval" in str(metadata)
    assert engine.events(run_id, FAILED_TASK) == []


def as_stored(shared: World, run_id: str) -> dict[str, Any]:
    """The run's business rows: everything but the engine's own bookkeeping."""
    shown = shared.show(run_id)
    del shown["engine"]
    return {**shown, "events": shared.events(run_id)}


def signal_raw(engine: EngineView, run_id: str, name: str, payloads: list[Payload]) -> None:
    """A signal as Temporal UI sends it: payloads of its own making, no identity."""
    request = SignalWorkflowExecutionRequest(
        namespace=engine.client.namespace,
        workflow_execution=WorkflowExecution(workflow_id=engine.workflow_id(run_id)),
        signal_name=name,
    )
    if payloads:
        request.input.CopyFrom(Payloads(payloads=payloads))
    engine.run(engine.client.workflow_service.signal_workflow_execution(request))


def test_c39_an_unmatched_signal_is_noted_once_and_moves_nothing(
    shared: World, engine: EngineView, waiting: str
) -> None:
    (noted,) = unmatched(shared, waiting)
    assert (noted["previous"], noted["next"], noted["reason"]) == (
        "awaiting_review",
        "awaiting_review",
        "review_opened",
    )
    for _ in range(3):
        engine.send(waiting, "nudge")
    settled(shared, engine, waiting)
    assert unmatched(shared, waiting) == [noted]


@pytest.mark.parametrize("words", BY_COMMAND_LINE.values(), ids=BY_COMMAND_LINE.keys())
def test_c39_a_signal_by_the_command_line_changes_nothing(
    shared: World, engine: EngineView, waiting: str, words: tuple[str, ...]
) -> None:
    before, known = as_stored(shared, waiting), signals(engine, waiting, words[0])
    sent = engine.send(waiting, *words)
    assert sent.returncode == 0, sent.stderr
    assert signals(engine, waiting, words[0]) > known
    settled(shared, engine, waiting)
    assert as_stored(shared, waiting) == before


@pytest.mark.parametrize("name", ["nudge", "decision_recorded"])
@pytest.mark.parametrize("payloads", BY_UI.values(), ids=BY_UI.keys())
def test_c39_a_signal_of_the_web_ui_changes_nothing(
    shared: World, engine: EngineView, waiting: str, payloads: list[Payload], name: str
) -> None:
    before = as_stored(shared, waiting)
    signal_raw(engine, waiting, name, payloads)
    settled(shared, engine, waiting)
    assert as_stored(shared, waiting) == before


def test_updates_and_queries_that_nobody_declared_are_refused(shared: World, engine: EngineView, waiting: str) -> None:
    handle = engine.handle(waiting)
    for arguments in ([], ["x"], [1, {"a": None}]):
        with pytest.raises(WorkflowUpdateFailedError):
            engine.run(handle.execute_update("approve", args=arguments))
        with pytest.raises((WorkflowQueryFailedError, RPCError)):
            engine.run(handle.query("state", args=arguments))
    by_cli = engine.cli("workflow", "update", "execute", "-w", handle.id, "--name", "approve", "--input", "[")
    assert by_cli.returncode != 0
    settled(shared, engine, waiting)


def test_a_run_that_was_sent_everything_still_finishes_once(shared: World, engine: EngineView, waiting: str) -> None:
    for payloads in BY_UI.values():
        signal_raw(engine, waiting, "nudge", payloads)
    assert shared.decide(waiting).status_code == 200
    shared.wait_state(waiting, "succeeded")
    assert (len(shared.accounts(waiting)), len(shared.tasks(waiting))) == (1, 1)
    assert engine.events(waiting, FAILED_TASK) == []


def test_a_signal_to_a_run_that_is_over_is_refused_by_the_engine(
    shared: World, engine: EngineView, waiting: str
) -> None:
    before = as_stored(shared, waiting)
    sent = engine.send(waiting, "nudge")
    assert sent.returncode != 0
    assert as_stored(shared, waiting) == before


def test_c39_a_signal_beside_the_row_of_another_run_decides_nothing(shared: World, engine: EngineView) -> None:
    first, second = (shared.submit(shared.seed().company_id) for _ in range(2))
    for run_id in (first, second):
        shared.wait_state(run_id, "awaiting_review")
    decided = shared.decide(first).json()
    engine.send(second, "decision_recorded", "--input", json.dumps({"decision": decided["id"], "version": 1}))
    settled(shared, engine, second)
    shared.wait_state(first, "succeeded")
    assert shared.show(second)["state"] == "awaiting_review"
    assert shared.accounts(second) == []


def test_c38_a_decision_recorded_while_no_worker_runs_takes_effect_once(shared: World) -> None:
    run_id = shared.submit(shared.seed().company_id)
    shared.wait_state(run_id, "awaiting_review")
    shared.wait_quiet(run_id)
    shared.worker.kill()
    try:
        assert shared.decide(run_id).status_code == 200
        assert shared.decide(run_id).json()["repeated"] is True
        idle = shared.show(run_id)
        assert (idle["state"], idle["engine"]["unseen_nudges"]) == ("awaiting_review", 1)
    finally:
        shared.worker.start()
    shared.wait_state(run_id, "succeeded")
    assert [e["reason"] for e in shared.events(run_id)].count("approved") == 1
    assert len(shared.accounts(run_id)) == 1


def test_c38_before_anything_was_asked_there_is_nothing_to_decide(shared: World) -> None:
    shared.worker.kill()
    try:
        run_id = shared.submit(shared.seed().company_id)
        assert shared.show(run_id)["state"] == "queued"
        early = shared.decide(run_id, version=1, fingerprint="0" * 64)
        assert (early.status_code, early.json()["why"]) == (409, "no_review")
    finally:
        shared.worker.start()
    shared.wait_state(run_id, "awaiting_review")
    assert shared.decide(run_id).status_code == 200
    shared.wait_state(run_id, "succeeded")


def test_c38_a_decision_whose_nudge_was_lost_is_delivered_by_the_sweep(shared: World, engine: EngineView) -> None:
    run_id = shared.submit(shared.seed().company_id)
    shown = shared.wait_state(run_id, "awaiting_review")
    shared.actor("sabine", "supervisor")
    with shared.store.reading() as connection:
        sabine = actor(connection, "sabine")
    asked = DecisionAsked(run_id, Outcome.APPROVED, shown["input_version"], shown["fingerprint"])
    decide(shared.store, sabine, asked, valid_for=ONE_DAY)
    shared.wait_state(run_id, "succeeded")
    assert eventually(lambda: shared.show(run_id)["engine"]["unseen_nudges"] == 0)
    assert len(engine.events(run_id, SIGNALED)) >= 1
