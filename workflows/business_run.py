"""The kernel below every process: steps, waits, nudges, and the way back to review, written once.

The store decides; an execution calls one step, waits as it is told, and calls again. Messages only shorten a wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.exceptions import TimeoutError as TooLate
from temporalio.workflow import ActivityCancellationType

with workflow.unsafe.imports_passed_through():
    from domain.boundaries import boundary
    from domain.execution import FIRST, SECOND, Directive, Execution, Start, StepCall, Then
    from workflows.attributes import updates
    from workflows.policies import (
        AFTER_FAILED_STEP,
        LOCAL_SECONDS,
        LONGEST_FAILED_PAUSE,
        ONE_ATTEMPT,
        READ_RETRIES,
    )

SNAPSHOT, REVIEW, CARRY_OUT, COMPARE = "take-snapshot", "look-at-review", "carry-out", "compare-records"
TITLES = {
    SNAPSHOT: "Read the CRM record",
    REVIEW: "Look for a decision",
    COMPARE: "Compare the records with what was approved",
}
"""Of the activities that every process has; an effect brings its own."""
NUDGE = "nudge"


class _Over(Exception):
    """The store says that this execution has nothing left to do."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The one result of every process workflow. The truth about the run is in the store."""

    state: str
    reason: str


class BusinessRun:
    """One execution of one run. Use as `async with BusinessRun(start) as run:` around the steps of a process."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self._nudges = 0
        self._seen = 0
        self._woken = False
        self._failed = False
        """Whether the last step within a workflow task failed and none has been had since."""
        self._told: Directive | None = None
        workflow.set_signal_handler(NUDGE, self._nudge)
        workflow.set_dynamic_signal_handler(self._unknown_signal)

    async def __aenter__(self) -> BusinessRun:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """A run that ended early is no failure of the workflow."""
        return isinstance(problem, _Over)

    @property
    def ending(self) -> Ending:
        """Where the store says the run stands."""
        return Ending(self._told.state, self._told.reason) if self._told else Ending("queued", "accepted")

    @property
    def _asks(self) -> bool:
        """Whether the run waited for the answer to a review when last heard of."""
        return self._told is not None and self._told.then is Then.REVIEW

    def _nudge(self, *payload: object) -> None:
        """Whatever it carries, it says only: look again."""
        self._nudges += 1

    def _unknown_signal(self, name: str, arguments: Sequence[RawValue]) -> None:
        """A signal of any name is a hint at most."""
        self._nudges += 1

    async def snapshot(self) -> None:
        """Read the subject, store version 1, and ask for a decision."""
        await self._settled(SNAPSHOT, "snapshot")

    async def reviewed(self) -> None:
        """Wait until somebody may have decided. Whether a decision holds is proved by the step that rests on it."""
        while self._told is not None and self._asks:
            await self._wait(self._told)
            if self._woken:
                return
            await self._settled(REVIEW, "review")

    async def carried_out(self, step: str, title: str) -> None:
        """Make one effect exactly as approved, or find out what became of it; back to review when no approval holds."""
        while (await self._settled(CARRY_OUT, step, title)).then is Then.REVIEW:
            await self.reviewed()

    async def agreed(self) -> None:
        """Read the mandatory records back and end the run if they agree."""
        while (await self._settled(COMPARE, "agree")).then is Then.REVIEW:
            await self.reviewed()

    async def _settled(self, activity: str, step: str, title: str = "") -> Directive:
        """Call one step until it has nothing of its own to wait for."""
        while (told := await self._call(activity, step, title)).then is Then.WAIT:
            await self._wait(told)
        return told

    async def _call(self, activity: str, step: str, title: str = "") -> Directive:
        """Call one step until it answers. A step that failed told nothing; the store knows what it did."""
        pause = AFTER_FAILED_STEP
        if title and self._asks:
            title = f"{title}, if approved"
        while True:
            self._seen = self._nudges
            try:
                return self._heard(await self._answer(activity, step, title))
            except ActivityError:
                await workflow.sleep(pause, summary=f"Step failed, read the store again: {title or TITLES[activity]}")
                pause = min(pause * 2, LONGEST_FAILED_PAUSE)

    async def _answer(self, activity: str, step: str, title: str) -> Directive:
        """Asked for within the workflow task; where it cannot be had so, by an activity."""
        if self._within_task(activity) and not self._failed:
            try:
                return await self._execute_within(activity, step, title)
            except (ApplicationError, TooLate):
                self._failed = True
        told = await self._execute(activity, step, title)
        self._failed = False
        return told

    def _within_task(self, activity: str) -> bool:
        """What an execution began with it keeps to."""
        return self._start.code not in ((FIRST, SECOND) if activity == CARRY_OUT else (FIRST,))

    async def _execute_within(self, activity: str, step: str, title: str) -> Directive:
        """Once: its answer is the only event. A send may take as long as it may elsewhere: its answer must be saved."""
        sends = activity == CARRY_OUT
        seconds = self._start.send_seconds if sends else min(self._start.read_seconds, LOCAL_SECONDS)
        told: Directive = await workflow.execute_local_activity(
            activity,
            self._step_call(step, quick_reads=not sends),
            result_type=Directive,
            start_to_close_timeout=timedelta(seconds=seconds),
            retry_policy=ONE_ATTEMPT,
            summary=title or TITLES[activity],
        )
        return told

    async def _execute(self, activity: str, step: str, title: str) -> Directive:
        sends = activity == CARRY_OUT
        seconds = self._start.send_seconds if sends else self._start.read_seconds
        told: Directive = await workflow.execute_activity(
            activity,
            self._step_call(step, quick_reads=not sends),
            result_type=Directive,
            start_to_close_timeout=timedelta(seconds=seconds),
            retry_policy=ONE_ATTEMPT if sends else READ_RETRIES,
            cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=title or TITLES[activity],
        )
        return told

    def _step_call(self, step: str, *, quick_reads: bool = True) -> StepCall:
        execution = Execution(self._start.epoch, workflow.info().run_id)
        woken = self._woken and self._asks
        return StepCall(self._start.run_id, execution, step, quick_reads=quick_reads, woken=woken)

    def _heard(self, told: Directive) -> Directive:
        """Show the answer in Temporal UI, and stop where the store says so."""
        before, self._told = self._told, told
        if before is None or _listed(before) != _listed(told):
            workflow.upsert_search_attributes(updates(told))
        workflow.set_current_details(told.details)
        if told.then is Then.ENDED:
            raise _Over
        return told

    async def _wait(self, told: Directive) -> None:
        """Until a nudge or the time that the store named, whichever is first; a nudge during the call counts too."""
        seen = self._seen
        seconds = (told.until - (told.at or workflow.now())).total_seconds() if told.until else None
        with boundary("wait", self._start.run_id):
            self._woken = await self._nudged(told.summary, seen, seconds)

    async def _nudged(self, summary: str, seen: int, seconds: float | None) -> bool:
        try:
            await workflow.wait_condition(
                lambda: self._nudges > seen,
                timeout=None if seconds is None else timedelta(seconds=max(seconds, 0.05)),
                timeout_summary=summary,
            )
        except TimeoutError:
            return False
        return True


def _listed(told: Directive) -> tuple[object, ...]:
    return told.state, told.reason, told.input_version, told.next_owner, told.deadline
