"""What the settle function's answer does to the operation's row and to the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from business_store.operations import land, settled
from business_store.runs import Move, Rider, move_through_running
from domain.contracts import Accept, AskOperator, AwaitCallback, Contract, ProbeAt, Reject, Resend
from domain.execution import Then
from domain.operations import evidence_of
from domain.records import Facts, Operation, Run, Standing
from domain.recovery import proved_unexecuted, settle, window_end
from domain.states import RunState

S = RunState


@dataclass(frozen=True, slots=True)
class Patience:
    """When a wait is shown as `retrying`, the pause between tries, and after how many a person is asked."""

    quick: timedelta
    pause: timedelta
    sends: int
    operator_role: str


def apply_settlement(
    connection: Connection, facts: Facts, operation: Operation, contracts: Sequence[Contract], patience: Patience
) -> Standing:
    """Under the request lock: settle one operation and bring the run to where that leaves it."""
    return _Settling(connection, facts, operation, tuple(contracts), patience).stand()


@dataclass(frozen=True, slots=True)
class _Settling:
    connection: Connection
    facts: Facts
    operation: Operation
    contracts: tuple[Contract, ...]
    patience: Patience

    def stand(self) -> Standing:
        if self.operation.outcome in ("accepted", "rejected", "written_off") or self._declared():
            return self._already_definite()
        match settle(self.contracts, self.operation.evidence, self.facts.now):
            case Accept(reference):
                return self._accepted(reference)
            case Reject(code):
                return self._rejected(code)
            case Resend(not_before):
                return self._resend(not_before)
            case ProbeAt(at):
                return self._unknown("provider_outcome_unknown", at)
            case AwaitCallback(until):
                return self._unknown("awaiting_callback", until)
            case AskOperator(reason):
                return self._operator(reason)

    def _declared(self) -> bool:
        return self.operation.outcome == "not_sent" and self.operation.settled_by.startswith("operator")

    def _already_definite(self) -> Standing:
        """Late evidence against what was settled is for a person; otherwise the outcome stands."""
        if self.operation.outcome != "accepted" and self.operation.evidence.effect_seen:
            return self._operator("contradicting_evidence")
        return Standing(self.facts.run, Then.GO_ON)

    def _accepted(self, reference: str) -> Standing:
        outcome = settled(self.operation.key, "accepted", "evidence", reference)
        made = self._made(S.RUNNING, "accepted", None, {"reference": reference})
        return Standing(self._moved(made, outcome), Then.GO_ON)

    def _rejected(self, code: str) -> Standing:
        outcome = settled(self.operation.key, "rejected", f"answer:{code}"[:200])
        made = self._made(S.NEEDS_OPERATOR, "provider_rejected", None, {"code": code})
        return Standing(self._moved(made, outcome), Then.WAIT, settled=self.operation.key)

    def _resend(self, not_before: datetime) -> Standing:
        attempts = self.operation.evidence.attempts
        if not all(proved_unexecuted(attempt, attempts) for attempt in attempts):
            return self._unknown("provider_outcome_unknown", not_before)
        made = self._retry(not_before)
        run = self._moved(made, settled(self.operation.key, "not_sent", "answer"))
        until = None if made.to is S.NEEDS_OPERATOR else not_before
        return Standing(run, Then.WAIT, until, settled=self.operation.key)

    def _retry(self, not_before: datetime) -> Move:
        """Quietly when it is soon, shown as `retrying` when it is not, and by a person after the last try."""
        count, code = len(self.operation.evidence.attempts), self._last_code()
        if count >= self.patience.sends:
            return self._made(S.NEEDS_OPERATOR, "provider_unreachable", None, {"code": code})
        if not_before - self.facts.now <= self.patience.quick:
            return self._made(S.RUNNING, "not_sent", None, {"code": code})
        of = {"code": code, "n": count, "m": self.patience.sends, "next": not_before.isoformat()}
        return self._made(S.RETRYING, "not_sent", not_before, of)

    def _moved(self, made: Move, outcome: Rider) -> Run:
        return move_through_running(self.connection, self.facts.run, replace(made, riders=(outcome,)))

    def _last_code(self) -> str:
        answers = self.operation.evidence.attempts[-1].answers
        return answers[-1].answer.code if answers else "no_answer"

    def _unknown(self, reason: str, next_look: datetime) -> Standing:
        if self.operation.evidence.attempts[-1].answers:
            land(self.connection, self.operation.key)
        end = window_end(self.contracts, self.operation.evidence.attempts)
        evidence = {"next_look": next_look.isoformat(), "code": self._last_code()}
        return Standing(self._move(S.OUTCOME_UNKNOWN, reason, end, **evidence), Then.WAIT, next_look)

    def _operator(self, reason: str) -> Standing:
        if self.operation.evidence.attempts[-1].answers:
            land(self.connection, self.operation.key)
        return self._needs_operator(reason, code=self._last_code())

    def _needs_operator(self, reason: str, **evidence: Any) -> Standing:  # noqa: ANN401 (goes into JSON as it is)
        made = self._made(S.NEEDS_OPERATOR, reason, None, evidence)
        return Standing(move_through_running(self.connection, self.facts.run, made), Then.WAIT)

    def _move(self, to: RunState, reason: str, deadline: datetime | None, **evidence: Any) -> Run:  # noqa: ANN401
        return move_through_running(self.connection, self.facts.run, self._made(to, reason, deadline, evidence))

    def _made(self, to: RunState, reason: str, deadline: datetime | None, evidence: dict[str, Any]) -> Move:
        owner = self.patience.operator_role if to is S.NEEDS_OPERATOR else None
        attempt = len(self.operation.evidence.attempts)
        named = {**evidence_of(self.operation), **evidence}
        return Move(to, reason, self.operation.step, attempt, owner, deadline, named)
