"""How an execution waits, over days of virtual time: the engine's own server with time skipping.

The activities here are not our store pretended: they are the other side of the contract that a workflow has with it
(the names, `StepCall` in, `Directive` out), with a database clock that each test sets.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from temporalio import activity
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHandle
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from activities.failures import too_slow
from domain.execution import CODE_VERSION, Directive, Start, StepCall, Then
from stack.temporal import temporal_program
from workflows.attributes import (
    BUSINESS_DEADLINE,
    BUSINESS_KEY,
    BUSINESS_STATE,
    INPUT_VERSION,
    NEXT_OWNER,
    PROCESS,
    REASON_CODE,
)
from workflows.business_run import Ending
from workflows.partner_onboarding import PartnerOnboarding
from workflows.plugin import counterfoil_plugin

DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
QUEUE = "deadlines"
Answer = Callable[[StepCall], Directive]


@pytest.fixture(scope="module")
def environment(runner: asyncio.Runner) -> Iterator[WorkflowEnvironment]:
    """A real server on which the clock of each execution can be moved."""
    made = runner.run(_started())
    yield made
    runner.run(made.shutdown())


async def _started() -> WorkflowEnvironment:
    return await WorkflowEnvironment.start_time_skipping_v2(
        dev_server_existing_path=temporal_program(),
        dev_server_extra_args=["--dynamic-config-value", "frontend.WorkflowTimeSkippingEnabled=true"],
        search_attributes=ATTRIBUTES,
        plugins=[counterfoil_plugin()],
    )


ATTRIBUTES = (PROCESS, BUSINESS_KEY, BUSINESS_STATE, REASON_CODE, NEXT_OWNER, INPUT_VERSION, BUSINESS_DEADLINE)


@dataclass
class Script:
    """The store's side: one answer after the other, the last one for ever; `calls` are the steps asked for."""

    answers: Sequence[Answer]
    calls: list[str] = field(default_factory=list)

    def activities(self) -> list[Callable[..., Any]]:
        """All four, under the names that workflows call."""
        return [self._named(name) for name in ("take-snapshot", "look-at-review", "carry-out", "compare-records")]

    def _named(self, name: str) -> Callable[[StepCall], Any]:
        @activity.defn(name=name)
        async def answer(call: StepCall) -> Directive:
            self.calls.append(name)
            return self.answers[min(len(self.calls), len(self.answers)) - 1](call)

        return answer


@dataclass(frozen=True)
class Waiting:
    """One execution over its script."""

    environment: WorkflowEnvironment
    handle: WorkflowHandle[Any, Ending]
    script: Script

    async def now(self) -> datetime:
        return await self.environment.get_current_time(self.handle)

    async def pass_by(self, duration: timedelta) -> bool:
        """Let virtual time pass; False when the execution ended meanwhile."""
        return await self.environment.fast_forward(self.handle, duration)

    async def until_asked(self, times: int) -> None:
        """Until the store was asked so many times, without any time passing."""
        async with asyncio.timeout(60):
            while len(self.script.calls) < times:
                await asyncio.sleep(0.02)


@asynccontextmanager
async def execution(environment: WorkflowEnvironment, name: str, script: Script) -> AsyncIterator[Waiting]:
    """A running execution whose clock stands still until the test moves it."""
    start = Start(f"run-{name}", 1, "partner-onboarding", name, "http://127.0.0.1/runs", 30.0, code=CODE_VERSION)
    async with Worker(
        environment.client, task_queue=QUEUE, workflows=[PartnerOnboarding], activities=script.activities()
    ):
        with environment.with_time_skipping_disabled():
            handle = await environment.client.start_workflow(PartnerOnboarding.run, start, id=name, task_queue=QUEUE)
        yield Waiting(environment, handle, script)


def told(then: Then, state: str, reason: str, until: datetime | None = None) -> Directive:
    return Directive(then, state, reason, 1, "supervisor", until, until, f"{state} ({reason})", f"**{state}**")


def waits(until: Callable[[], datetime]) -> Answer:
    return lambda call: told(Then.REVIEW, "awaiting_review", "review_opened", until())


def expires(call: StepCall) -> Directive:
    return told(Then.ENDED, "expired", "review_expired")


def test_a_review_of_days_ends_when_the_database_says_that_its_deadline_has_passed(
    environment: WorkflowEnvironment, runner: asyncio.Runner
) -> None:
    async def scenario() -> None:
        deadline: list[datetime] = []
        script = Script([waits(lambda: deadline[0]), expires])
        deadline.append(datetime.now().astimezone() + 3 * DAY)
        async with execution(environment, "expires", script) as run:
            await run.until_asked(1)
            assert await run.pass_by(2 * DAY)
            assert script.calls == ["take-snapshot"]
            await run.pass_by(DAY + MINUTE)
            assert await run.handle.result() == Ending("expired", "review_expired")
            assert script.calls == ["take-snapshot", "look-at-review"]

    runner.run(scenario())


def test_a_timer_before_the_database_deadline_is_armed_again(
    environment: WorkflowEnvironment, runner: asyncio.Runner
) -> None:
    """The engine's clock is an hour ahead of the database's: nothing ends on the engine's word."""

    async def scenario() -> None:
        engine_sees = datetime.now().astimezone() + 3 * DAY
        script = Script([waits(lambda: engine_sees), waits(lambda: engine_sees + HOUR), expires])
        async with execution(environment, "re-armed", script) as run:
            await run.until_asked(1)
            assert await run.pass_by(3 * DAY + MINUTE)
            await run.until_asked(2)
            assert await run.pass_by(50 * MINUTE)
            assert script.calls == ["take-snapshot", "look-at-review"]
            await run.pass_by(20 * MINUTE)
            assert await run.handle.result() == Ending("expired", "review_expired")
            assert script.calls == ["take-snapshot", "look-at-review", "look-at-review"]

    runner.run(scenario())


def test_a_wait_is_measured_by_the_clock_that_set_it(environment: WorkflowEnvironment, runner: asyncio.Runner) -> None:
    """By an engine's clock that is ahead every deadline has passed: the store would be asked again without a pause."""

    async def scenario() -> None:
        database_sees = datetime.now().astimezone() - 2 * DAY
        asked = waits(lambda: database_sees + 2 * HOUR)
        script = Script([lambda call: replace(asked(call), at=database_sees), expires])
        async with execution(environment, "behind", script) as run:
            await run.until_asked(1)
            assert await run.pass_by(110 * MINUTE)
            assert script.calls == ["take-snapshot"]
            await run.pass_by(20 * MINUTE)
            assert await run.handle.result() == Ending("expired", "review_expired")

    runner.run(scenario())


def test_a_nudge_shortens_the_wait_and_one_without_news_only_waits_again(
    environment: WorkflowEnvironment, runner: asyncio.Runner
) -> None:
    async def scenario() -> None:
        deadline = datetime.now().astimezone() + 3 * DAY
        rejected = told(Then.ENDED, "failed", "rejected")
        script = Script([waits(lambda: deadline), waits(lambda: deadline), lambda call: rejected])
        async with execution(environment, "nudged", script) as run:
            await run.until_asked(1)
            assert await run.pass_by(10 * HOUR)
            for asked in (2, 3):
                await run.handle.signal("nudge")
                await run.until_asked(asked)
            assert await run.handle.result() == Ending("failed", "rejected")
            assert script.calls == ["take-snapshot", "carry-out", "carry-out"]
            assert await run.now() < deadline

    runner.run(scenario())


def test_a_step_that_keeps_failing_is_asked_again_with_growing_pauses(
    environment: WorkflowEnvironment, runner: asyncio.Runner
) -> None:
    def fails(call: StepCall) -> Directive:
        raise ApplicationError("store_away", type="Defect", non_retryable=True)

    async def scenario() -> None:
        async with execution(environment, "failing", Script([fails] * 5 + [expires])) as run:
            await run.pass_by(2 * MINUTE)
            assert await run.handle.result() == Ending("expired", "review_expired")
            events = (await run.handle.fetch_history()).events
            timers = [e.timer_started_event_attributes for e in events if e.HasField("timer_started_event_attributes")]
            assert [timer.start_to_fire_timeout.ToSeconds() for timer in timers] == [2, 4, 8, 16]

    runner.run(scenario())


def test_a_send_that_is_too_slow_for_a_workflow_task_is_an_activity_at_once(
    environment: WorkflowEnvironment, runner: asyncio.Runner
) -> None:
    def slow(call: StepCall) -> Directive:
        raise too_slow()

    async def scenario() -> None:
        accepted = told(Then.GO_ON, "running", "accepted")
        script = Script([lambda call: accepted, slow, lambda call: accepted, lambda call: accepted, expires])
        async with execution(environment, "too-slow", script) as run:
            assert await run.handle.result() == Ending("expired", "review_expired")
            events = (await run.handle.fetch_history()).events
            scheduled = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
            asked = [e.activity_task_scheduled_event_attributes for e in events if e.event_type == scheduled]
            assert [each.activity_type.name for each in asked] == ["carry-out"]
            assert script.calls == ["take-snapshot", *["carry-out"] * 3, "compare-records"]
            assert not [e for e in events if e.HasField("timer_started_event_attributes")]

    runner.run(scenario())


def test_an_effect_without_a_holding_approval_leads_back_to_review_and_on(
    environment: WorkflowEnvironment, runner: asyncio.Runner
) -> None:
    """The decision expired before the send: the question is put again, and waited for."""

    async def scenario() -> None:
        deadline = datetime.now().astimezone() + 3 * DAY
        script = Script(
            [
                lambda call: told(Then.GO_ON, "running", "approved"),
                lambda call: told(Then.REVIEW, "awaiting_review", "decision_expired", deadline),
                lambda call: told(Then.GO_ON, "running", "accepted"),
                lambda call: told(Then.GO_ON, "running", "accepted"),
                lambda call: told(Then.ENDED, "succeeded", "records_agree"),
            ]
        )
        async with execution(environment, "asked-again", script) as run:
            await run.until_asked(2)
            await run.handle.signal("nudge")
            assert await run.handle.result() == Ending("succeeded", "records_agree")
            assert script.calls == ["take-snapshot", *["carry-out"] * 3, "compare-records"]

    runner.run(scenario())
