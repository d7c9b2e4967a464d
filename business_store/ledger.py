"""The transactions of a run: one method for each thing that an activity proves and records.

Every one takes the request lock, checks that the asking execution still owns the run, and returns where the run stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import Connection

from business_store.agreement import conclude
from business_store.database import Store
from business_store.facts import owned_facts, read_facts
from business_store.late_evidence import answered_late
from business_store.limits import UNSAID, respect, respect_read, turn_of
from business_store.operations import permit, record_answer, record_probe, unsealed
from business_store.requests import relink
from business_store.reviews import ReviewTerms, ensure_review
from business_store.runs import Move, move, move_through_running, want_nudge
from business_store.settlements import Patience, apply_settlement
from business_store.versions import record_snapshot
from business_store.waiting import retry, throttled, to_operator, waits
from domain.approvals import NotCovered
from domain.boundaries import boundary
from domain.credentials import Account
from domain.errors import ReadFailed, Superseded
from domain.execution import StepCall, Then
from domain.operations import Answered, Granted, Line, Looked, PermitAsked, PermitWanted, Sendable
from domain.permits import Follow, FreshReading, Refused, Turn
from domain.process import Process
from domain.records import Compared, Facts, Run, Standing, Taken
from domain.states import ASKING, HELD, RunKind, RunState

T = TypeVar("T")
S = RunState
Kept: TypeAlias = tuple[Facts, Standing]
"""What was known in the transaction, and where the run stands after it."""


class Ledger:
    """The store as the activities of one worker use it."""

    def __init__(
        self, store: Store, terms: Callable[[Process[Any]], ReviewTerms], patience: Callable[[Process[Any]], Patience]
    ) -> None:
        self._store = store
        self._terms = terms
        self._patience = patience

    def facts(self, run_id: str) -> Facts:
        """What is known now, without a lock: for deciding what to read outside."""
        with boundary("facts", run_id):
            return self._store.ask(lambda connection: read_facts(connection, run_id))

    def _owned(self, call: StepCall, work: Callable[[Connection, Facts], T], *, keyed: bool = True) -> T:
        """`keyed`: the same work again finds what it has done; where it cannot, a lost commit is looked up."""

        def transaction(connection: Connection) -> T:
            facts, owned = owned_facts(connection, call.run_id, call.execution)
            if not owned:
                raise Superseded("a newer execution owns this run", run=call.run_id)
            return work(connection, facts)

        return self._store.write(transaction) if keyed else self._store.once(transaction)

    def look(self, call: StepCall) -> Kept:
        """Only look: the run waits for a person."""
        with boundary("look", call.run_id):
            return self._owned(call, lambda connection, facts: (facts, _held(facts.run)))

    def begin(self, call: StepCall, process: Process[Any], taken: Taken | None) -> Kept:
        """Take the run up: record the snapshot, ask for the decision that its newest version needs."""

        def work(connection: Connection, before: Facts) -> tuple[Facts, Standing]:
            facts = before
            if not facts.run.is_open or facts.run.state in HELD:
                return facts, _held(facts.run)
            if facts.run.state is S.QUEUED:
                started = move(connection, facts.run, Move(S.RUNNING, "started", call.step))
                facts = replace(facts, run=started)
            facts = unsealed(connection, _noted(connection, facts, process, taken))
            return facts, self._asked(connection, facts, process, (call, before))

        with boundary("begin", call.run_id):
            return self._owned(call, work, keyed=not call.woken)

    def _asked(
        self, connection: Connection, facts: Facts, process: Process[Any], call: tuple[StepCall, Facts]
    ) -> Standing:
        """Where the reviews leave the run. A hint with nothing behind it is told from what this call found at first."""
        (step, before), rehearsal = call, facts.run.kind is RunKind.REHEARSAL
        if facts.subjects_collide and not rehearsal:
            return to_operator(connection, facts.run, process, (step.step, "subjects_merged"))
        standing = ensure_review(connection, facts, process, self._terms(process))
        unmatched = step.woken and not before.hints and standing.run.seq == before.run.seq
        return _unmatched(connection, standing) if unmatched else standing

    def permit(
        self, call: StepCall, process: Process[Any], taken: Taken | None, asked: PermitWanted
    ) -> tuple[Facts, Granted | Standing]:
        """Ask for the right to send, after recording what the CRM says now and finding the decision that covers it."""

        def work(connection: Connection, before: Facts) -> tuple[Facts, Granted | Standing]:
            facts = before
            if not facts.run.is_open or facts.run.state in HELD:
                return facts, _held(facts.run)
            facts = unsealed(connection, _noted(connection, facts, process, taken))
            if facts.run.state in ASKING:
                standing = self._asked(connection, facts, process, (call, before))
                if standing.then is not Then.GO_ON:
                    return facts, replace(standing, refused=_withdrawn(before, facts))
                facts = replace(facts, run=standing.run)
            sendable = asked.rendered(facts)
            reading = None if taken is None else FreshReading(taken.read_at, taken.snapshot.fingerprint)
            asking = PermitAsked(sendable, reading, asked.timing, call.execution, asked.token)
            given = permit(connection, facts, asking)
            if isinstance(given, Refused):
                standing = self._refused(connection, facts, (process, sendable), given)
                return facts, replace(standing, refused=given.code)
            return facts, Granted(given, sendable)

        with boundary("permit", call.run_id):
            return self._owned(call, work, keyed=not call.woken)

    def _refused(
        self, connection: Connection, facts: Facts, about: tuple[Process[Any], Sendable], refused: Refused
    ) -> Standing:
        """The next state of every refusal."""
        process, sendable = about
        match refused.follow:
            case Follow.REVIEW:
                return self._asked_again(connection, facts, process)
            case Follow.SETTLE:
                line = facts.line(sendable.step)
                if line is None:
                    return self._asked_again(connection, facts, process)
                return apply_settlement(connection, facts, line, sendable.contracts, self._patience(process))
            case Follow.OPERATOR:
                return to_operator(connection, facts.run, process, (sendable.step, refused.code))
            case Follow.WAIT:
                made = throttled(facts, sendable, refused)
                return Standing(move_through_running(connection, facts.run, made), Then.WAIT, refused.until)
            case Follow.REREAD:
                return Standing(facts.run, Then.WAIT, facts.now)
            case Follow.CANCEL | Follow.RECORD_INTENT:
                return Standing(facts.run, Then.WAIT)

    def _asked_again(self, connection: Connection, facts: Facts, process: Process[Any]) -> Standing:
        """The question is put in the transaction that found no answer to it."""
        standing = ensure_review(connection, facts, process, self._terms(process))
        return Standing(standing.run, Then.WAIT, facts.now) if standing.then is Then.GO_ON else standing

    def save_answer(self, call: StepCall, process: Process[Any], answered: Answered, line: Line) -> Kept:
        """Record an answer and settle; it is kept even when another execution owns the run (then raises Superseded)."""

        def shared(connection: Connection) -> None:
            respect(connection, answered.account, answered.answer)

        with boundary("save-answer", call.run_id):
            return self._keep(call, process, lambda connection: record_answer(connection, answered), line, shared)

    def save_probe(self, call: StepCall, process: Process[Any], looked: Looked, line: Line) -> Kept:
        """Record a look-up and settle; kept like an answer."""

        def shared(connection: Connection) -> None:
            respect(connection, looked.account, looked.finding)

        with boundary("save-probe", call.run_id):
            return self._keep(call, process, lambda connection: record_probe(connection, looked), line, shared)

    def _keep(
        self,
        call: StepCall,
        process: Process[Any],
        record: Callable[[Connection], None],
        line: Line,
        shared: Callable[[Connection], None] = lambda connection: None,
    ) -> tuple[Facts, Standing]:
        """Evidence commits whoever owns the run by now; only the transition needs the owner.

        `shared` is what it means to all runs: under the run's own lock, since a permit takes the two in that order.
        """

        def transaction(connection: Connection) -> tuple[Facts, Standing | None]:
            record(connection)
            facts, owned = owned_facts(connection, call.run_id, call.execution)
            shared(connection)
            if owned:
                return facts, self._settled(connection, facts, process, line)
            if facts.run.is_open:
                want_nudge(connection, call.run_id)
            return facts, None

        facts, standing = self._store.write(transaction)
        if not facts.run.is_open:
            self._store.write(lambda connection: answered_late(connection, facts.run, line.key, process))
        if standing is None:
            raise Superseded("a newer execution owns this run", run=call.run_id)
        return facts, standing

    def settle(self, call: StepCall, process: Process[Any], line: Line) -> Kept:
        """Settle on what is recorded already."""
        with boundary("settle", call.run_id):
            return self._owned(call, lambda connection, facts: (facts, self._settled(connection, facts, process, line)))

    def _settled(self, connection: Connection, facts: Facts, process: Process[Any], line: Line) -> Standing:
        if not facts.run.is_open or facts.run.state in HELD:
            return _held(facts.run)
        operation = next(op for op in facts.operations if op.key == line.key)
        return apply_settlement(connection, facts, operation, line.contracts, self._patience(process))

    def rehearse(self, call: StepCall, evidence: dict[str, Any]) -> Kept:
        """A rehearsal notes what it would have done."""

        def work(connection: Connection, facts: Facts) -> tuple[Facts, Standing]:
            made = Move(S.RUNNING, "intent_recorded", call.step, evidence=evidence)
            return facts, Standing(move_through_running(connection, facts.run, made), Then.GO_ON)

        with boundary("rehearse", call.run_id):
            return self._owned(call, work)

    def conclude(
        self, call: StepCall, process: Process[Any], taken: Taken | None, compared: Sequence[Compared]
    ) -> Kept:
        """Store the readings; succeed if all agree."""

        def work(connection: Connection, facts: Facts) -> tuple[Facts, Standing]:
            if not facts.run.is_open or facts.run.state in HELD:
                return facts, _held(facts.run)
            facts = _noted(connection, facts, process, taken)
            return facts, conclude(connection, facts, process, compared)

        with boundary("conclude", call.run_id):
            return self._owned(call, work)

    def turn(self, call: StepCall, process: Process[Any], account: Account) -> Kept | None:
        """Before a read: wait for this run's turn where the system asked all runs for a pause, else None."""

        def work(connection: Connection, facts: Facts) -> Kept | None:
            if not facts.run.is_open or facts.run.state in HELD:
                return facts, _held(facts.run)
            turn = turn_of(connection, account, call.run_id, facts.now, use=call.quick_reads)
            if turn is None:
                return None
            facts = self._taken_up(connection, facts, process)
            return facts, waits(connection, facts.run, call.step, turn)

        with boundary("turn", call.run_id):
            return self._owned(call, work)

    def read_refused(self, call: StepCall, process: Process[Any], account: Account, refused: ReadFailed) -> Kept:
        """A limit or a credential was met by a read: every run respects it, and this one waits for its turn."""

        def work(connection: Connection, facts: Facts) -> Kept:
            respect_read(connection, account, refused)
            if not facts.run.is_open or facts.run.state in HELD:
                return facts, _held(facts.run)
            turn = turn_of(connection, account, call.run_id, facts.now, use=False)
            facts = self._taken_up(connection, facts, process)
            return facts, waits(connection, facts.run, call.step, turn or Turn(facts.now + UNSAID, refused.code))

        with boundary("read-refused", call.run_id):
            return self._owned(call, work)

    def retry_later(self, call: StepCall, process: Process[Any], code: str) -> Kept:
        """Something outside cannot be read: show it, come back later, ask a person after the last try."""

        def work(connection: Connection, facts: Facts) -> tuple[Facts, Standing]:
            if not facts.run.is_open or facts.run.state in HELD:
                return facts, _held(facts.run)
            facts = self._taken_up(connection, facts, process)
            return facts, retry(connection, facts, (process, call.step, code), self._patience(process))

        with boundary("retry-later", call.run_id):
            return self._owned(call, work, keyed=False)

    def _taken_up(self, connection: Connection, facts: Facts, process: Process[Any]) -> Facts:
        """An approval that is there is not left lying while something outside cannot be read."""
        if facts.run.state not in ASKING or not facts.covered():
            return facts
        return replace(facts, run=ensure_review(connection, facts, process, self._terms(process)).run)

    def ask_operator(self, call: StepCall, process: Process[Any], reason: str) -> Kept:
        """Automation cannot go on, for this reason."""

        def work(connection: Connection, facts: Facts) -> tuple[Facts, Standing]:
            if not facts.run.is_open or facts.run.state in HELD:
                return facts, _held(facts.run)
            return facts, to_operator(connection, facts.run, process, (call.step, reason))

        with boundary("ask-operator", call.run_id):
            return self._owned(call, work)


def _withdrawn(before: Facts, after: Facts) -> str:
    """Why an approval that was there permits nothing any more; empty where there was none."""
    found = after.coverage()
    return str(found) if before.covered() and isinstance(found, NotCovered) else ""


def _unmatched(connection: Connection, standing: Standing) -> Standing:
    """Somebody signaled the execution and nothing in the store stands behind it: an event notes it, nothing follows."""
    run = standing.run
    noted = Move(
        run.state, run.reason, "review", 0, run.next_owner, run.deadline, {"unmatched_signal": True}, run.tries
    )
    return replace(standing, run=move(connection, run, noted))


def _held(run: Run) -> Standing:
    return Standing(run, Then.WAIT if run.is_open else Then.ENDED)


def _noted(connection: Connection, facts: Facts, process: Process[Any], taken: Taken | None) -> Facts:
    """Record what was read, and follow the record to where a merge took it."""
    if taken is None:
        return facts
    if taken.live != facts.subject:
        relink(connection, facts.run.request_id, taken.live)
        facts = replace(facts, subject=taken.live)
    return record_snapshot(connection, facts, process, taken)
