"""The activities. Each takes one step of one run as far as it can go, and says what to wait for."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from temporalio import activity

from activities.agreement import Agreement, intent
from activities.directives import SUPERSEDED, directive
from activities.effects import Effects, Kept
from activities.failures import QUICK_READS, defect, store_gone, try_again
from activities.pace import Pace
from activities.questions import Questions
from activities.snapshots import Snapshots
from activities.tools import Tools
from activities.turns import Turns
from domain.boundaries import boundary
from domain.errors import CredentialRefused, ReadFailed, SubjectGone, Superseded, Throttled
from domain.execution import Directive, StepCall, Then
from domain.process import Process
from domain.records import Facts, Standing
from domain.states import HELD, RunKind
from operating.joining import joined

log = logging.getLogger(__name__)
Work = Callable[[Facts, Process[Any]], Kept]


class Steps:
    """The four things a process workflow can ask for. Dependencies come by constructor from worker.py."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._pace = Pace()
        snapshots, self._turns = Snapshots(tools.crms), Turns(tools)
        self._questions = Questions(tools, snapshots)
        self._effects = Effects(tools, snapshots, self._questions)
        self._agreement = Agreement(tools, snapshots)

    @activity.defn(name="take-snapshot", no_thread_cancel_exception=True)
    def take_snapshot(self, call: StepCall) -> Directive:
        """Read the subject, store the version, and ask for the decision that it needs."""
        return self._advance(call, lambda facts, process: self._questions.look(call, facts, process, always=True))

    @activity.defn(name="look-at-review", no_thread_cancel_exception=True)
    def look_at_review(self, call: StepCall) -> Directive:
        """Load the review and believe only that; read the subject again where it was changed meanwhile."""
        return self._advance(call, lambda facts, process: self._questions.look(call, facts, process))

    @activity.defn(name="carry-out", no_thread_cancel_exception=True)
    def carry_out(self, call: StepCall) -> Directive:
        """Make one effect if a decision covers it, or find out what became of it."""
        with self._pace.quick(call.step) if activity.info().is_local else nullcontext():
            return self._advance(call, lambda facts, process: self._carry_out(call, facts, process))

    @activity.defn(name="compare-records", no_thread_cancel_exception=True)
    def compare_records(self, call: StepCall) -> Directive:
        """Read the mandatory records back; end the run if they agree."""
        return self._advance(call, lambda facts, process: self._compare(call, facts, process))

    def _carry_out(self, call: StepCall, facts: Facts, process: Process[Any]) -> Kept:
        if facts.run.kind is RunKind.REHEARSAL:
            return self._tools.ledger.rehearse(call, dict(intent(process, call.step, facts)))
        return self._effects.carry_out(call, facts, process)

    def _compare(self, call: StepCall, facts: Facts, process: Process[Any]) -> Kept:
        if facts.run.kind is RunKind.REHEARSAL:
            return self._tools.ledger.conclude(call, process, None, ())
        facts, standing = self._questions.answered(call, facts, process)
        if standing.then is not Then.GO_ON:
            return facts, standing
        systems = {facts.subject.system, *(effect.system for effect in process.effects)}
        waiting = self._turns.not_yet(call, facts, systems)
        if waiting is not None:
            return waiting
        taken, compared = self._agreement.compare(facts, process)
        return self._tools.ledger.conclude(call, process, taken, compared)

    def _advance(self, call: StepCall, work: Work) -> Directive:
        """One step with everything it logs joined to its run."""
        try:
            with boundary("step", call.run_id):
                return self._logged(call, work)
        except self._tools.store_away as away:
            raise store_gone(away) from None

    def _logged(self, call: StepCall, work: Work) -> Directive:
        facts = self._tools.ledger.facts(call.run_id)
        run = facts.run
        with joined(run=run.id, subject=str(facts.subject), correlation=run.correlation_id):
            told = self._taken(call, facts, work)
            log.info("step %s: %s (%s)", call.step, told.state, told.reason)
        return told

    def _taken(self, call: StepCall, facts: Facts, work: Work) -> Directive:
        process = self._tools.processes[facts.run.process]
        try:
            return self._told(*self._unless_held(call, facts, process, work))
        except Superseded:
            return SUPERSEDED
        except SubjectGone:
            return self._told(*self._tools.ledger.ask_operator(call, process, "subject_gone"))
        except ReadFailed as refused:
            return self._read_failed(call, facts, process, refused)
        except self._tools.store_away:
            raise
        except Exception as problem:
            return self._defect(call, process, problem)

    def _unless_held(self, call: StepCall, facts: Facts, process: Process[Any], work: Work) -> Kept:
        """A run that waits for a person, or is over, is not worked on."""
        if not facts.run.is_open or facts.run.state in HELD:
            return self._tools.ledger.look(call)
        return work(facts, process)

    def _read_failed(self, call: StepCall, facts: Facts, process: Process[Any], refused: ReadFailed) -> Directive:
        if isinstance(refused, CredentialRefused | Throttled):
            account = self._turns.refused(str(refused.fields.get("system") or facts.subject.system))
            return self._told(*self._tools.ledger.read_refused(call, process, account, refused))
        if activity.info().attempt < QUICK_READS and call.quick_reads:
            raise try_again(refused) from None
        return self._told(*self._tools.ledger.retry_later(call, process, refused.code))

    def _defect(self, call: StepCall, process: Process[Any], problem: Exception) -> Directive:
        """A defect of ours is not retried for ever behind a green run: a person is told."""
        log.error("step %s failed: %s", call.step, type(problem).__name__, exc_info=problem)
        try:
            return self._told(*self._tools.ledger.ask_operator(call, process, "own_defect"))
        except Superseded:
            return SUPERSEDED
        except Exception:
            raise defect(problem) from None

    def _told(self, facts: Facts, standing: Standing) -> Directive:
        return directive(facts, standing, self._tools)
