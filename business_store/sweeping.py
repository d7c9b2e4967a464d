"""What the sweep looks for: every hint that got lost, found again in the store alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row, text

from business_store.runs import Move, lock_run, move
from domain.states import ActorKind, RunState

OPEN = "state NOT IN ('succeeded', 'failed', 'canceled', 'suppressed', 'expired')"
EXECUTED = "kind IN ('original', 'rehearsal', 'repair')"
"""Revisions and reversals are recorded and queued; no workflow carries them out yet."""
PAGE = 200
SWEEPER = (ActorKind.SWEEP, "counterfoil")


@dataclass(frozen=True, slots=True)
class EngineRow:
    """How a run is known to the engine."""

    run_id: str
    number: int
    process: str
    business_key: str
    epoch: int
    state: RunState
    health: str


ENGINE = """
    SELECT run.id, run.number, run.process, request.business_key, run.engine_epoch, run.state, run.engine_health
    FROM run JOIN request ON request.id = run.request_id
"""
SOME = text(f"{ENGINE} WHERE run.id = ANY(:runs)")
UNSTARTED = text(f"""
    {ENGINE} WHERE engine_health = 'not_started' AND {OPEN} AND {EXECUTED}
    AND engine_checked_at < clock_timestamp() - cast(:patience AS interval) ORDER BY run.created_at LIMIT {PAGE}
""")
UNSEEN = text(f"""
    {ENGINE} WHERE nudge_seen < nudge AND engine_health IN ('ok', 'stuck')
    AND nudged_at < clock_timestamp() - cast(:patience AS interval) ORDER BY nudged_at LIMIT {PAGE}
""")
IDLE = text(f"""
    {ENGINE} WHERE run.state = 'awaiting_review' AND engine_health IN ('ok', 'stuck')
    AND EXISTS (SELECT FROM review w JOIN decision d ON d.review_id = w.id WHERE w.run_id = run.id
        AND w.status = 'decided' AND d.decided_at < clock_timestamp() - cast(:patience AS interval)
        AND d.decided_at > run.state_since)
    ORDER BY run.state_since LIMIT {PAGE}
""")
UNCHECKED = text(f"""
    {ENGINE} WHERE engine_health IN ('ok', 'stuck') AND {OPEN} AND {EXECUTED}
    AND engine_checked_at < clock_timestamp() - cast(:patience AS interval)
    ORDER BY engine_checked_at LIMIT {PAGE}
""")

OF_EXECUTIONS = text(f"{ENGINE} WHERE engine_run = ANY(:executions) AND engine_health <> 'lost' AND {OPEN}")


def _row(row: Row[Any]) -> EngineRow:
    names = (row.id, row.number, row.process, row.business_key, row.engine_epoch)
    return EngineRow(*names, RunState(row.state), row.engine_health)


def engine_row(connection: Connection, run_id: str) -> EngineRow:
    """One run. Raises sqlalchemy.exc.NoResultFound."""
    return _row(connection.execute(SOME, {"runs": [run_id]}).one())


def engine_rows(connection: Connection, run_ids: Sequence[str]) -> list[EngineRow]:
    """These runs, in no order; one that there is not is left out."""
    return [_row(row) for row in connection.execute(SOME, {"runs": list(run_ids)})]


def unstarted(connection: Connection, patience: timedelta) -> list[EngineRow]:
    """Open runs whose execution was never started, untouched for `patience`."""
    return [_row(row) for row in connection.execute(UNSTARTED, {"patience": patience})]


def unseen_nudges(connection: Connection, patience: timedelta) -> list[EngineRow]:
    """Runs that were to look again and have not."""
    return [_row(row) for row in connection.execute(UNSEEN, {"patience": patience})]


def approved_but_idle(connection: Connection, patience: timedelta) -> list[EngineRow]:
    """Runs still waiting for a decision that was recorded."""
    return [_row(row) for row in connection.execute(IDLE, {"patience": patience})]


def unchecked(connection: Connection, patience: timedelta) -> list[EngineRow]:
    """Open runs whose execution nobody has seen for `patience`."""
    return [_row(row) for row in connection.execute(UNCHECKED, {"patience": patience})]


def open_runs_of(connection: Connection, executions: Sequence[str]) -> list[EngineRow]:
    """Open runs among those whose owning executions (Temporal run ids) these are."""
    return [_row(row) for row in connection.execute(OF_EXECUTIONS, {"executions": list(executions)})]


HEALTH = text("""
    UPDATE run SET engine_health = :health, engine_checked_at = clock_timestamp()
    WHERE id IN (SELECT run.id FROM unnest(cast(:runs AS text[]), cast(:epochs AS integer[])) AS seen (id, epoch)
        JOIN run ON run.id = seen.id AND run.engine_epoch = seen.epoch ORDER BY run.id FOR UPDATE OF run)
""")


def set_health(connection: Connection, rows: Sequence[EngineRow], health: str) -> None:
    """Note how these executions are, where the epoch is still theirs."""
    if rows:
        seen = {"runs": [row.run_id for row in rows], "epochs": [row.epoch for row in rows]}
        connection.execute(HEALTH, {**seen, "health": health})


NEXT_EPOCH = text("""
    UPDATE run SET engine_epoch = engine_epoch + 1, engine_run = NULL, engine_health = 'not_started',
        engine_checked_at = clock_timestamp()
    WHERE id = :run AND engine_epoch = :epoch RETURNING engine_epoch
""")


def raise_epoch(connection: Connection, run_id: str, epoch: int) -> bool:
    """Let a new execution be started; whatever still runs under the old epoch is superseded from this commit on."""
    return connection.execute(NEXT_EPOCH, {"run": run_id, "epoch": epoch}).first() is not None


RESTART_IF_LOST = text("""
    UPDATE run SET engine_epoch = engine_epoch + 1, engine_run = NULL, engine_health = 'not_started',
        engine_checked_at = clock_timestamp()
    WHERE id = :run AND engine_health = 'lost'
""")


def restart_if_lost(connection: Connection, run_id: str) -> None:
    """Let a run whose execution somebody ended be started again, whatever it waited for meanwhile."""
    connection.execute(RESTART_IF_LOST, {"run": run_id})


RESTARTED_BY_ITSELF = frozenset({RunState.RUNNING, RunState.OUTCOME_UNKNOWN, RunState.RETRYING, RunState.CANCELING})
"""States in which something may have happened outside: it is found out without asking anybody first."""


def execution_gone(connection: Connection, row: EngineRow, *, ended_by_somebody: bool) -> str:
    """The engine has no running execution of an open run: restart where that only finds out, else ask an operator.

    An execution that somebody ended while the run waited for a person is not started again behind their back. One that
    the engine itself lost is. Returns what was done: `restarted`, `needs_operator` or `nothing`.
    """
    run = lock_run(connection, row.run_id)
    if not run.is_open or run.engine_epoch != row.epoch:
        return "nothing"
    if run.state in RESTARTED_BY_ITSELF or not ended_by_somebody:
        raise_epoch(connection, run.id, row.epoch)
        return "restarted"
    set_health(connection, [row], "lost")
    if run.state is not RunState.NEEDS_OPERATOR:
        evidence = {"epoch": row.epoch, "state": run.state}
        made = Move(RunState.NEEDS_OPERATOR, "execution_lost", "sweep", next_owner="operator", evidence=evidence)
        move(connection, run, made, SWEEPER)
    return "needs_operator"


LEASE = text("""
    INSERT INTO lease (name, holder, until) VALUES (:name, :holder, clock_timestamp() + cast(:length AS interval))
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
    WHERE lease.until < clock_timestamp() OR lease.holder = excluded.holder
    RETURNING name
""")


def take_lease(connection: Connection, name: str, holder: str, length: timedelta) -> bool:
    """Take or prolong a lease. One holder at a time; one that died keeps others out until it ends."""
    return connection.execute(LEASE, {"name": name, "holder": holder, "length": length}).first() is not None


FINISHED = text("UPDATE lease SET finished_at = clock_timestamp() WHERE name = :name AND holder = :holder")


def turn_finished(connection: Connection, name: str, holder: str) -> None:
    """Note that the holder's turn came to its end: what lags is measured from here."""
    connection.execute(FINISHED, {"name": name, "holder": holder})


BACK = text("UPDATE lease SET until = clock_timestamp() WHERE name = :name AND holder = :holder")


def give_back(connection: Connection, name: str, holder: str) -> None:
    """Whoever stops in good order keeps nobody out."""
    connection.execute(BACK, {"name": name, "holder": holder})


UNREAD = text("""
    SELECT DISTINCT d.request_id FROM delivery d WHERE d.disposition = 'pending_read'
    AND NOT EXISTS (SELECT FROM run WHERE run.request_id = d.request_id AND run.kind <> 'rehearsal'
        AND run.state NOT IN ('succeeded', 'failed', 'canceled', 'suppressed', 'expired'))
    LIMIT 50
""")


def unread_without_run(connection: Connection) -> list[str]:
    """Requests that were changed in the CRM while nothing of theirs is under way."""
    return list(connection.execute(UNREAD).scalars())


@dataclass(frozen=True, slots=True)
class Unprojected:
    """A run whose state the CRM does not show yet."""

    run_id: str
    request_id: str
    seq: int
    state: RunState
    reason: str
    newest: bool


UNPROJECTED = text(f"""
    SELECT run.id, run.request_id, run.seq, run.state, run.reason, NOT EXISTS (
        SELECT FROM run later WHERE later.request_id = run.request_id AND later.number > run.number
        AND later.kind <> 'rehearsal') AS newest
    FROM run WHERE projected_seq < seq AND kind <> 'rehearsal' AND projection_due <= clock_timestamp()
    ORDER BY projection_due LIMIT {PAGE}
""")
PROJECTED = text("UPDATE run SET projected_seq = greatest(projected_seq, :seq) WHERE id = :run")
POSTPONE = text("""
    UPDATE run SET projection_due = clock_timestamp() + cast(:pause AS interval) WHERE id = :run
""")


def unprojected(connection: Connection) -> list[Unprojected]:
    """Runs to be mirrored in the CRM, the longest due first."""
    rows = connection.execute(UNPROJECTED)
    return [Unprojected(r.id, r.request_id, r.seq, RunState(r.state), r.reason, r.newest) for r in rows]


def projected(connection: Connection, run_id: str, seq: int) -> None:
    """The CRM shows the run as of this event."""
    connection.execute(PROJECTED, {"run": run_id, "seq": seq})


def postpone_projection(connection: Connection, run_id: str, pause: timedelta) -> None:
    """The CRM could not be written: later again, without harm to the run."""
    connection.execute(POSTPONE, {"run": run_id, "pause": pause})
