"""Run rows: locking, fencing, and the one statement that moves a run and writes its event."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, RowMapping, TextClause, text

from domain.errors import NotFound, RaceLost
from domain.execution import CODE_VERSION
from domain.records import Run
from domain.states import MOVES, ActorKind, RunKind, RunState, check_move

SYSTEM_ACTOR = "counterfoil"


COLUMNS = """
    run.id, run.request_id, run.number, run.kind, run.process, run.policy_version, request.business_key,
    run.correlation_id, run.state, run.seq, run.reason, run.state_since, run.deadline, run.next_owner,
    run.sealed_version, run.tries, run.cancel_requested_at, run.engine_epoch, run.engine_run
"""
LOAD = text(f"SELECT {COLUMNS} FROM run JOIN request ON request.id = run.request_id WHERE run.id = :run")
LOCK = text(f"""
    SELECT {COLUMNS} FROM request JOIN run ON request.id = run.request_id WHERE run.id = :run
    FOR UPDATE OF request, run
""")


def as_run(row: RowMapping) -> Run:
    """The row as a value with its enumerations."""
    return Run(**{**row, "kind": RunKind(row["kind"]), "state": RunState(row["state"])})


def load_run(connection: Connection, run_id: str) -> Run:
    """The run without a lock: for deciding what to read outside, never for deciding what to write. Raises NotFound."""
    return _found(connection.execute(LOAD, {"run": run_id}).mappings().first(), run_id)


def lock_run(connection: Connection, run_id: str) -> Run:
    """The run under the request lock, the one lock of the store. Raises NotFound."""
    return _found(connection.execute(LOCK, {"run": run_id}).mappings().first(), run_id)


def _found(row: RowMapping | None, run_id: str) -> Run:
    if row is None:
        raise NotFound("run", run_id)
    return as_run(row)


@dataclass(frozen=True, slots=True)
class Rider:
    """A statement that is written in the very statement of a transition, as a common table expression."""

    sql: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Move:
    """One transition to record. `changes` are further columns of the run row that ride in the same statement."""

    to: RunState
    reason: str
    step: str = ""
    attempt: int = 0
    next_owner: str | None = None
    deadline: datetime | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    tries: int = 0
    seal: int | None = None
    unseal: bool = False
    riders: tuple[Rider, ...] = ()


MOVED = """
    moved AS (
        UPDATE run SET state = :next, seq = seq + 1, reason = :reason, deadline = :deadline, next_owner = :next_owner,
            state_since = CASE WHEN state = :next THEN state_since ELSE clock_timestamp() END, tries = :tries,
            sealed_version = CASE WHEN :unseal THEN NULL ELSE coalesce(:seal, sealed_version) END
        WHERE id = :run AND state = :previous AND seq = :seq
        RETURNING id, seq, request_id, policy_version, correlation_id, state_since, sealed_version
    ), written AS (
        INSERT INTO event (run_id, seq, request_id, step, attempt, previous, next, reason, actor_kind, actor_id, at,
            workflow_version, policy_version, correlation_id, next_owner, deadline, evidence, previous_hash, hash)
        SELECT id, seq, request_id, :step, :attempt, :previous, :next, :reason, :actor_kind, :actor_id,
            clock_timestamp(), :code_version, policy_version, correlation_id, :next_owner,
            cast(:deadline AS timestamptz), cast(:evidence AS jsonb), '', ''
        FROM moved
    )
    SELECT seq, state_since, sealed_version FROM moved
"""


@cache
def _moving(riders: tuple[str, ...]) -> TextClause:
    """The one statement: what rides along, the conditional update of the run, and its event."""
    return text("WITH " + ",".join([*riders, MOVED]))


SAID = text("""
    SELECT step = :step AND evidence = cast(:evidence AS jsonb) FROM event WHERE run_id = :run AND seq = :seq
""")


def move(
    connection: Connection, run: Run, made: Move, by: tuple[ActorKind, str] = (ActorKind.WORKER, SYSTEM_ACTOR)
) -> Run:
    """Record one transition; return the run after it.

    The same state, reason, owner and deadline on the same evidence adds nothing. Raises MoveNotPermitted, or RaceLost
    when the row is not as it was loaded.
    """
    check_move(by[0], run.state, made.to)
    parameters = _parameters(run, made, by)
    repeated = not made.riders and _same_as_now(run, made)
    if repeated and (not made.evidence or connection.execute(SAID, parameters).scalar()):
        return run
    statement = _moving(tuple(rider.sql for rider in made.riders))
    row = connection.execute(statement, parameters).first()
    if row is None:
        raise RaceLost("the run moved meanwhile", run=run.id, next_actions=["read it again"])
    return Run(
        **{
            **{name: getattr(run, name) for name in Run.__dataclass_fields__},
            "state": made.to,
            "reason": made.reason,
            "deadline": made.deadline,
            "next_owner": made.next_owner,
            "tries": made.tries,
            "seq": row.seq,
            "state_since": row.state_since,
            "sealed_version": row.sealed_version,
        }
    )


def move_through_running(connection: Connection, run: Run, made: Move) -> Run:
    """Move there, by way of `running` where the table has no direct way for a worker."""
    if (ActorKind.WORKER, run.state, made.to) not in MOVES:
        run = move(connection, run, Move(RunState.RUNNING, "looking_again", made.step, evidence={"from": run.reason}))
    return move(connection, run, made)


def _same_as_now(run: Run, made: Move) -> bool:
    """Apart from the evidence."""
    now = (run.state, run.reason, run.next_owner, run.deadline, run.tries)
    return now == (made.to, made.reason, made.next_owner, made.deadline, made.tries) and not _changes_seal(run, made)


def _changes_seal(run: Run, made: Move) -> bool:
    return made.unseal or made.seal not in (None, run.sealed_version)


def _parameters(run: Run, made: Move, by: tuple[ActorKind, str]) -> dict[str, Any]:
    return {
        "run": run.id,
        "previous": run.state,
        "next": made.to,
        "seq": run.seq,
        "reason": made.reason,
        "step": made.step,
        "attempt": made.attempt,
        "next_owner": made.next_owner,
        "deadline": made.deadline,
        "evidence": json.dumps(dict(made.evidence), default=str),
        "tries": made.tries,
        "seal": made.seal,
        "unseal": made.unseal,
        "actor_kind": by[0],
        "actor_id": by[1],
        "code_version": CODE_VERSION,
        **{name: value for rider in made.riders for name, value in rider.parameters.items()},
    }


NUDGE = text("UPDATE run SET nudge = nudge + 1, nudged_at = clock_timestamp() WHERE id = :run")


def want_nudge(connection: Connection, run_id: str) -> None:
    """Record that the run's execution should look again; the sweep repeats the hint until it has."""
    connection.execute(NUDGE, {"run": run_id})
