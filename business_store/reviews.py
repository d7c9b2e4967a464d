"""Reviews: the question about one input version, asked once, answered once, and what its answer does to the run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, text

from business_store.runs import Move, move_through_running
from domain.approvals import Decision, NotCovered, Outcome, covering
from domain.execution import Then
from domain.identity import short_digest
from domain.process import Process
from domain.records import Facts, Review, Run, Standing
from domain.states import RunKind, RunState

S = RunState
STEP = "review"


@dataclass(frozen=True, slots=True)
class ReviewTerms:
    """How long a question stays open and how long its answer permits sends."""

    deadline: timedelta
    valid_for: timedelta


OPEN = text("""
    INSERT INTO review (id, run_id, request_id, version, fingerprint, role, opened_at, deadline)
    VALUES (:id, :run, :request, :version, :fingerprint, :role, :now, :deadline)
""")
CLOSE = text("UPDATE review SET status = :status, closed_at = clock_timestamp() WHERE id = :id AND status = 'open'")


def ensure_review(connection: Connection, facts: Facts, process: Process[Any], terms: ReviewTerms) -> Standing:
    """Under the request lock: bring the run to where its reviews say it stands."""
    return _Asking(connection, facts, process, terms).stand()


@dataclass(frozen=True, slots=True)
class _Asking:
    connection: Connection
    facts: Facts
    process: Process[Any]
    terms: ReviewTerms

    def stand(self) -> Standing:
        target = self.facts.target
        if target is None:
            raise AssertionError("a review needs a version: the snapshot step comes first")
        if target.canonical is None:
            return self._erased()
        if self.facts.run.kind is RunKind.REHEARSAL:
            return self._rehearsed()
        if target.problems:
            return self._incomplete(target.problems)
        covered = covering(self.facts.decisions, target.version, self.facts.now)
        if isinstance(covered, Decision):
            return self._approved(covered)
        return self._undecided(covered)

    def _erased(self) -> Standing:
        """Nobody can decide about bytes that are gone: they have to be sent or read anew."""
        made = Move(S.NEEDS_OPERATOR, "inputs_erased", STEP, next_owner=self.process.operator_role)
        return Standing(self._move(made), Then.WAIT)

    def _rehearsed(self) -> Standing:
        """A rehearsal records that it would ask, and asks nobody."""
        problems = self.facts.target.problems if self.facts.target else ()
        evidence = {"would_ask": self.process.review.role, "problems": list(problems)}
        return self._go_on(Move(S.RUNNING, "review_rehearsed", STEP, evidence=evidence))

    def _go_on(self, made: Move) -> Standing:
        return Standing(self._move(made), Then.GO_ON)

    def _approved(self, decision: Decision) -> Standing:
        run = self.facts.run
        if run.state not in (S.AWAITING_REVIEW, S.WAITING):
            return Standing(run, Then.GO_ON)
        evidence = {"decision": decision.id, "version": decision.version, "fingerprint": decision.fingerprint}
        return self._go_on(Move(S.RUNNING, "approved", STEP, evidence=evidence))

    def _incomplete(self, problems: tuple[str, ...]) -> Standing:
        """The inputs cannot be approved as they are: wait for an amendment, with a budget."""
        self._close_open("superseded")
        return self._await_amendment("inputs_incomplete", {"problems": list(problems)})

    def _await_amendment(self, reason: str, evidence: dict[str, Any]) -> Standing:
        run = self.facts.run
        if run.state is S.WAITING and run.reason == reason and run.deadline is not None:
            return self._budget(run, run.deadline)
        deadline = self.facts.now + self.process.amend_budget
        made = Move(S.WAITING, reason, STEP, next_owner="requester", deadline=deadline, evidence=evidence)
        return Standing(self._move(made), Then.REVIEW, deadline)

    def _budget(self, run: Run, deadline: datetime) -> Standing:
        if self.facts.now < deadline:
            return Standing(run, Then.REVIEW, deadline)
        return self._over(S.EXPIRED, "amendment_not_made")

    def _over(self, state: RunState, reason: str) -> Standing:
        """The end, unless an effect is still in doubt: then a person has to settle that first."""
        if self.facts.unsettled():
            owner = self.process.operator_role
            made = Move(S.NEEDS_OPERATOR, f"{reason}_in_doubt", STEP, next_owner=owner)
            return Standing(self._move(made), Then.WAIT)
        return Standing(self._move(Move(state, reason, STEP)), Then.ENDED)

    def _move(self, made: Move) -> Run:
        return move_through_running(self.connection, self.facts.run, made)

    def _undecided(self, why: NotCovered) -> Standing:
        review = self._latest()
        if review is None or review.status == "superseded":
            return self._ask("review_opened")
        if review.status == "open":
            return self._still_open(review)
        if review.status == "expired":
            return self._over(S.EXPIRED, "review_expired")
        return self._decided(review, why)

    def _latest(self) -> Review | None:
        target = self.facts.target
        about = [r for r in self.facts.reviews if target is not None and r.version == target.version.number]
        return about[-1] if about else None

    def _still_open(self, review: Review) -> Standing:
        if self.facts.now >= review.deadline:
            self.connection.execute(CLOSE, {"id": review.id, "status": "expired"})
            return self._over(S.EXPIRED, "review_expired")
        run = self.facts.run
        if run.state is S.AWAITING_REVIEW:
            return Standing(run, Then.REVIEW, review.deadline)
        return self._wait_for(review, "review_opened")

    def _decided(self, review: Review, why: NotCovered) -> Standing:
        decision = next(d for d in reversed(self.facts.decisions) if d.version == review.version)
        if decision.outcome is Outcome.REJECTED:
            return self._over(S.FAILED, "rejected")
        if decision.outcome is Outcome.CHANGES_REQUESTED:
            return self._await_amendment("changes_requested", {"decision": decision.id})
        return self._ask(str(why))

    def _close_open(self, status: str) -> None:
        for review in self.facts.reviews:
            if review.status == "open":
                self.connection.execute(CLOSE, {"id": review.id, "status": status})

    def _ask(self, reason: str) -> Standing:
        self._close_open("superseded")
        facts, target = self.facts, self.facts.target
        assert target is not None
        review = Review(
            id=f"rev-{short_digest(facts.run.id, str(len(facts.reviews) + 1))}",
            version=target.version.number,
            fingerprint=target.version.fingerprint,
            role=self.process.review.role,
            deadline=facts.now + self.terms.deadline,
            status="open",
        )
        named = {"run": facts.run.id, "request": facts.run.request_id, "now": facts.now}
        columns = ("id", "version", "fingerprint", "role", "deadline")
        self.connection.execute(OPEN, {**named, **{name: getattr(review, name) for name in columns}})
        return self._wait_for(review, reason)

    def _wait_for(self, review: Review, reason: str) -> Standing:
        done = [op.step for op in self.facts.operations if op.outcome in ("accepted", "unknown")]
        evidence = {"review": review.id, "version": review.version, "fingerprint": review.fingerprint, "done": done}
        made = Move(S.AWAITING_REVIEW, reason, STEP, 0, review.role, review.deadline, evidence)
        return Standing(self._move(made), Then.REVIEW, review.deadline)
