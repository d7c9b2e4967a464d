"""`decision_to_step_vs_bare`: from a decision accepted to the next step scheduled, against a bare signal."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio.client import WorkflowHandle

from bench.bare import QUEUE, BareOnboarding
from bench.ground import Ground, program
from bench.onboarding import COMPANY, Onboardings, prepared
from business_store.decisions import DecisionAsked, decide
from domain.approvals import Outcome

SCHEDULED, SIGNALED, MARKED = 10, 26, 25
"""Event types of the engine's history."""


@dataclass(frozen=True, slots=True)
class Decided:
    """(ours, bare) in seconds, one pair per onboarding, taken in turn; and the seconds that each decision took."""

    pairs: list[tuple[float, float]]
    accepting: list[float]


async def measure(ground: Ground, runs: int) -> Decided:
    """One decision and one signal after the other; the first two of each warm up and are not counted."""
    both = await prepared(ground)
    with (
        program(["worker.py"], ground.environment, ground.folder / "worker.log"),
        program(["bench.bare"], ground.environment, ground.folder / "bare.log"),
    ):
        pairs, accepting = [], []
        for _ in range(runs + 2):
            first, second = (ground.sandbox.seed(COMPANY, actor="userId:61000001").company_id for _ in range(2))
            ours, took = await _ours(both, first)
            pairs.append((ours, await _bare(both, second)))
            accepting.append(took)
        return Decided(pairs[2:], accepting[2:])


async def _ours(both: Onboardings, company: str) -> tuple[float, float]:
    """Seconds from the accepted decision to the step that rests on it, and seconds that accepting it took."""
    run_id = await asyncio.to_thread(both.accept, company)
    row = await asyncio.to_thread(both.row, run_id)
    await both.engine.start(row)
    while not (opened := await asyncio.to_thread(both.open)):
        await asyncio.sleep(0.02)
    _, version, fingerprint = opened[0]
    asked = DecisionAsked(run_id, Outcome.APPROVED, version, fingerprint)
    asking = time.time()
    await asyncio.to_thread(decide, both.store, both.approver, asked, timedelta(days=1))
    accepted = time.time()
    await both.engine.nudge(row)
    handle = both.client.get_workflow_handle(both.engine.startable(row).workflow_id)
    await handle.result()
    return await _next_step_within(handle, "carry-out") - accepted, accepted - asking


async def _bare(both: Onboardings, company: str) -> float:
    handle = await both.client.start_workflow(BareOnboarding.run, company, id=f"bare-{company}", task_queue=QUEUE)
    while not await _waits(handle):
        await asyncio.sleep(0.02)
    started = time.time()
    await handle.signal(BareOnboarding.approve)
    await handle.result()
    return await _next_step(handle, "bare-check") - started


async def _waits(handle: WorkflowHandle[Any, Any]) -> bool:
    """Whether the first activity's result has been worked in."""
    return (await handle.describe()).history_length >= 10


async def _next_step(handle: WorkflowHandle[Any, Any], activity: str) -> float:
    scheduled = next(
        event
        for event in await _since_signal(handle)
        if event.event_type == SCHEDULED
        and event.activity_task_scheduled_event_attributes.activity_type.name == activity
    )
    return float(scheduled.event_time.ToNanoseconds()) / 1e9


async def _next_step_within(handle: WorkflowHandle[Any, Any], activity: str) -> float:
    """The same of a step within the workflow task, whose marker says by the worker's clock when it was scheduled."""
    marks = [
        json.loads(event.marker_recorded_event_attributes.details["data"].payloads[0].data)
        for event in await _since_signal(handle)
        if event.event_type == MARKED
    ]
    at = next(mark["original_schedule_time"] for mark in marks if mark["activity_type"] == activity)
    return float(at["seconds"]) + float(at["nanos"]) / 1e9


async def _since_signal(handle: WorkflowHandle[Any, Any]) -> list[Any]:
    events = list((await handle.fetch_history()).events)
    signaled = next(event.event_id for event in events if event.event_type == SIGNALED)
    return [event for event in events if event.event_id > signaled]
