"""How the store stands as a whole: what is open and how old, what is in doubt, and how far every repair lags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text

from business_store.sweeping import EXECUTED, OPEN
from domain.contracts import Contract
from domain.recovery import window_end
from domain.signals import Attempt

AGES = ("1h", "1d", "7d", "older")
"""Upper bounds of the age buckets: how long a run has been in its state."""

# One round trip; every part is a partial index scan whose size is what is open, not what has ever been.
LOOK = text(f"""
    SELECT clock_timestamp() AS now,
    (SELECT jsonb_agg(to_jsonb(o)) FROM (
        SELECT process, state, count(*) AS runs, extract(epoch FROM clock_timestamp() - min(state_since)) AS oldest,
            count(*) FILTER (WHERE age < interval '1 hour') AS "1h",
            count(*) FILTER (WHERE age >= interval '1 hour' AND age < interval '1 day') AS "1d",
            count(*) FILTER (WHERE age >= interval '1 day' AND age < interval '7 days') AS "7d",
            count(*) FILTER (WHERE age >= interval '7 days') AS older
        FROM (SELECT process, state, state_since, clock_timestamp() - state_since AS age FROM run WHERE {OPEN}) open
        GROUP BY process, state) o) AS open,
    (SELECT jsonb_agg(to_jsonb(u)) FROM (
        SELECT o.system, o.kind, coalesce(o.in_flight_until > clock_timestamp(), false) AS in_flight,
            count(*) AS operations, min(a.permitted_at) AS first_permit
        FROM operation o JOIN attempt a ON a.operation_key = o.key AND a.number = 1
        WHERE o.outcome = 'unknown' GROUP BY 1, 2, 3) u) AS unknown,
    (SELECT to_jsonb(u) FROM (
        SELECT count(*) AS waiting, extract(epoch FROM clock_timestamp() - min(created_at)) AS oldest
        FROM run WHERE engine_health = 'not_started' AND {OPEN} AND {EXECUTED}) u) AS unstarted,
    (SELECT to_jsonb(n) FROM (
        SELECT count(*) AS waiting, extract(epoch FROM clock_timestamp() - min(nudged_at)) AS oldest
        FROM run WHERE nudge_seen < nudge AND {OPEN}) n) AS unseen,
    (SELECT to_jsonb(d) FROM (
        SELECT count(*) AS waiting, extract(epoch FROM clock_timestamp() - min(received_at)) AS oldest
        FROM delivery WHERE disposition = 'pending_read') d) AS unread,
    (SELECT to_jsonb(p) FROM (
        SELECT count(*) AS waiting, extract(epoch FROM clock_timestamp() - min(e.at)) AS oldest
        FROM run JOIN event e ON e.run_id = run.id AND e.seq = run.projected_seq + 1
        WHERE projected_seq < run.seq AND kind <> 'rehearsal') p) AS unprojected,
    (SELECT jsonb_object_agg(name, extract(epoch FROM clock_timestamp() - finished_at)) FROM lease
        WHERE finished_at IS NOT NULL) AS loops,
    (SELECT jsonb_agg(to_jsonb(h)) FROM (
        SELECT system, scope, held AS reason FROM shared_limit WHERE held IS NOT NULL ORDER BY 1, 2) h) AS holds,
    (SELECT count(*) FROM run WHERE engine_health IN ('lost', 'stuck') AND {OPEN}) AS unwell
""")


@dataclass(frozen=True, slots=True)
class Backlog:
    """Something that waits to be done: how many, and seconds since the oldest came."""

    waiting: int
    oldest: float


@dataclass(frozen=True, slots=True)
class OpenRuns:
    """Open runs of one process in one state; `by_age` by the names of AGES, `oldest` in seconds."""

    process: str
    state: str
    by_age: Mapping[str, int]
    oldest: float


@dataclass(frozen=True, slots=True)
class InDoubt:
    """Operations of one kind without a definite outcome, and seconds until the first resend window closes."""

    system: str
    operation: str
    in_flight: bool
    operations: int
    window_left: float | None


@dataclass(frozen=True, slots=True)
class Gauges:
    """One look at the store. `loops`: seconds since each loop of a worker last finished a turn."""

    open_runs: Sequence[OpenRuns]
    in_doubt: Sequence[InDoubt]
    unstarted: Backlog
    unseen: Backlog
    unread: Backlog
    unprojected: Backlog
    loops: Mapping[str, float]
    unwell: int
    """Open runs whose execution is lost or stuck."""
    holds: Sequence[Mapping[str, str]] = ()
    """Accounts that every run waits for, by `system`, `scope` and `reason`."""


def look(connection: Connection, contracts: Mapping[str, Sequence[Contract]]) -> Gauges:
    """The gauges now. `contracts` by `system.operation` give the resend windows."""
    row = connection.execute(LOOK).mappings().one()
    return Gauges(
        open_runs=[_open(each) for each in row["open"] or ()],
        in_doubt=[_doubt(each, contracts, row["now"]) for each in row["unknown"] or ()],
        **{name: _backlog(row[name]) for name in ("unstarted", "unseen", "unread", "unprojected")},
        loops={name: float(seconds) for name, seconds in (row["loops"] or {}).items()},
        unwell=row["unwell"],
        holds=row["holds"] or (),
    )


def _open(row: Mapping[str, Any]) -> OpenRuns:
    return OpenRuns(row["process"], row["state"], {age: row[age] for age in AGES}, float(row["oldest"]))


def _backlog(row: Mapping[str, Any]) -> Backlog:
    return Backlog(row["waiting"], float(row["oldest"] or 0))


def _doubt(row: Mapping[str, Any], contracts: Mapping[str, Sequence[Contract]], now: datetime) -> InDoubt:
    first = datetime.fromisoformat(row["first_permit"])
    declared = contracts.get(f"{row['system']}.{row['kind']}", ())
    end = window_end(declared, (Attempt(1, first, first),))
    left = None if end is None else (end - now).total_seconds()
    return InDoubt(row["system"], row["kind"], row["in_flight"], row["operations"], left)
