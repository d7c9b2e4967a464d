"""The run states and the one table of permitted moves. The same table stands as rows in Postgres."""

from __future__ import annotations

from enum import StrEnum

from domain.errors import MoveNotPermitted


class RunState(StrEnum):
    """One vocabulary for the store, CRM fields, Temporal search attributes, HTTP and UI."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    AWAITING_REVIEW = "awaiting_review"
    DEFERRED = "deferred"
    RETRYING = "retrying"
    OUTCOME_UNKNOWN = "outcome_unknown"
    NEEDS_OPERATOR = "needs_operator"
    CANCELING = "canceling"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"
    SUPPRESSED = "suppressed"
    EXPIRED = "expired"


class ActorKind(StrEnum):
    """Who moves a run."""

    INTAKE = "intake"
    WORKER = "worker"
    SWEEP = "sweep"
    OPERATOR = "operator"


class RunKind(StrEnum):
    """Why a run exists."""

    ORIGINAL = "original"
    REPAIR = "repair"
    REVISION = "revision"
    REVERSAL = "reversal"
    REHEARSAL = "rehearsal"


S = RunState
TERMINAL = frozenset({S.SUCCEEDED, S.FAILED, S.CANCELED, S.SUPPRESSED, S.EXPIRED})
OPEN = frozenset(RunState) - TERMINAL
ASKING = frozenset({S.AWAITING_REVIEW, S.WAITING})
"""States in which somebody's answer or amendment comes before any send."""
HELD = frozenset({S.NEEDS_OPERATOR, S.CANCELING})
"""States in which an execution waits for a person, whatever it was about to do."""

_WORKER: dict[RunState, frozenset[RunState]] = {
    S.QUEUED: frozenset({S.RUNNING, S.DEFERRED, S.SUPPRESSED, S.EXPIRED, S.NEEDS_OPERATOR, S.FAILED}),
    S.RUNNING: frozenset(
        {
            S.WAITING,
            S.AWAITING_REVIEW,
            S.DEFERRED,
            S.RETRYING,
            S.OUTCOME_UNKNOWN,
            S.NEEDS_OPERATOR,
            S.SUCCEEDED,
            S.FAILED,
            S.SUPPRESSED,
            S.EXPIRED,
        }
    ),
    S.WAITING: frozenset({S.RUNNING, S.SUPPRESSED, S.EXPIRED, S.NEEDS_OPERATOR}),
    S.AWAITING_REVIEW: frozenset({S.RUNNING, S.FAILED, S.EXPIRED, S.NEEDS_OPERATOR}),
    S.DEFERRED: frozenset({S.RUNNING, S.SUPPRESSED, S.EXPIRED, S.NEEDS_OPERATOR}),
    S.RETRYING: frozenset({S.RUNNING, S.NEEDS_OPERATOR, S.FAILED}),
    S.OUTCOME_UNKNOWN: frozenset({S.RUNNING, S.NEEDS_OPERATOR}),
    S.NEEDS_OPERATOR: frozenset(),
    S.CANCELING: frozenset({S.CANCELED, S.NEEDS_OPERATOR, S.SUCCEEDED}),
}

_SWEEP: dict[RunState, frozenset[RunState]] = {
    state: frozenset({S.NEEDS_OPERATOR}) for state in OPEN - {S.NEEDS_OPERATOR}
}

_OPERATOR: dict[RunState, frozenset[RunState]] = {
    **{state: frozenset({S.CANCELING}) for state in OPEN - {S.CANCELING, S.NEEDS_OPERATOR}},
    S.NEEDS_OPERATOR: frozenset({S.RUNNING, S.FAILED, S.CANCELING}),
}


def _rows() -> frozenset[tuple[ActorKind, RunState, RunState]]:
    tables = ((ActorKind.WORKER, _WORKER), (ActorKind.SWEEP, _SWEEP), (ActorKind.OPERATOR, _OPERATOR))
    moves = {(kind, before, after) for kind, table in tables for before, afters in table.items() for after in afters}
    same = {(kind, state, state) for kind in ActorKind for state in OPEN}
    return frozenset(moves | same)


MOVES: frozenset[tuple[ActorKind, RunState, RunState]] = _rows()
"""Every permitted (actor kind, previous, next). A move to the same open state is an event with new evidence."""


_NOT_AFTER_CANCEL = (S.NEEDS_OPERATOR, S.RUNNING)
"""Once asked to stop, a run that needs an operator can only go on stopping, or fail."""


def next_states(state: RunState, *, cancel_requested: bool = False) -> tuple[RunState, ...]:
    """The states that any actor may move to from here, the same state left out."""
    barred = {_NOT_AFTER_CANCEL} if cancel_requested else set()
    moves = {(before, after) for _, before, after in MOVES} - barred
    return tuple(sorted({after for before, after in moves if before is state and after is not state}))


def check_move(kind: ActorKind, previous: RunState, following: RunState, *, cancel_requested: bool = False) -> None:
    """Raise MoveNotPermitted unless the table has the row, and the request to cancel leaves it open."""
    barred = cancel_requested and (previous, following) == _NOT_AFTER_CANCEL
    if (kind, previous, following) in MOVES and not barred:
        return
    raise MoveNotPermitted(
        f"{kind} may not move a run from {previous} to {following}",
        next_actions=next_states(previous, cancel_requested=cancel_requested),
        state=previous,
        asked=following,
    )
