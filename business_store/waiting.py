"""Where a run stands while it waits for its turn, for another try, or for a person: transitions and nothing else."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from business_store.limits import CREDENTIAL_REFUSED
from business_store.runs import Move, move, move_through_running
from business_store.settlements import Patience
from domain.execution import Then
from domain.operations import Sendable, evidence_of
from domain.permits import Refused, Turn
from domain.process import Process
from domain.records import Facts, Run, Standing
from domain.recovery import window_end
from domain.states import RunState

S = RunState
PATIENT = frozenset({S.AWAITING_REVIEW, S.WAITING, S.OUTCOME_UNKNOWN})
"""States that already wait for a person or a provider: that something cannot be read takes nothing away from them."""


def throttled(facts: Facts, sendable: Sendable, refused: Refused) -> Move:
    """The system asked for a pause. An operation in doubt stays shown as such: the pause tells nothing about it."""
    line = facts.line(sendable.step)
    if line is None or line.outcome != "unknown":
        return Move(S.RETRYING, refused.code, sendable.step, deadline=_shown(refused.code, refused.until))
    attempts = line.evidence.attempts
    end = window_end(sendable.contracts, attempts)
    look = _shown(refused.code, refused.until)
    evidence = {**evidence_of(line), "next_look": look and look.isoformat()}
    return Move(S.OUTCOME_UNKNOWN, refused.code, sendable.step, len(attempts), deadline=end, evidence=evidence)


def _shown(code: str, until: datetime | None) -> datetime | None:
    """A hold has no end that is known: looking again at the same hold is no event."""
    return None if code == CREDENTIAL_REFUSED else until


def to_operator(connection: Connection, run: Run, process: Process[Any], why: tuple[str, str]) -> Standing:
    """Automation cannot go on at this step, for this reason."""
    step, reason = why
    made = Move(S.NEEDS_OPERATOR, reason, step, next_owner=process.operator_role)
    return Standing(move_through_running(connection, run, made), Then.WAIT)


def waits(connection: Connection, run: Run, step: str, turn: Turn) -> Standing:
    """Waiting for one's turn is no failed try, and takes no wait for a person or a provider away."""
    if run.state in PATIENT:
        return Standing(run, Then.WAIT, turn.at)
    if run.state is S.QUEUED:
        run = move(connection, run, Move(S.RUNNING, "started", step))
    made = Move(S.RETRYING, turn.why, step, deadline=_shown(turn.why, turn.at), tries=run.tries)
    return Standing(move_through_running(connection, run, made), Then.WAIT, turn.at)


def retry(connection: Connection, facts: Facts, about: tuple[Process[Any], str, str], patience: Patience) -> Standing:
    """One more failed try is over; the last one ends before a person."""
    process, step, code = about
    run, until = facts.run, facts.now + patience.pause
    if run.state in PATIENT:
        return Standing(run, Then.WAIT, until)
    if run.tries + 1 > patience.sends:
        return to_operator(connection, run, process, (step, code))
    if run.state is S.QUEUED:
        run = move(connection, run, Move(S.RUNNING, "started", step))
    evidence = {"n": run.tries + 1, "m": patience.sends, "next": until.isoformat()}
    made = Move(S.RETRYING, code, step, deadline=until, evidence=evidence, tries=run.tries + 1)
    return Standing(move_through_running(connection, run, made), Then.WAIT, until)
