"""Requests, their CRM subjects, and the insertion of runs."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, text

from business_store.runs import SYSTEM_ACTOR, lock_run
from domain.errors import CounterfoilError, InvalidInput, NotFound, SameKeyOtherContent
from domain.execution import CODE_VERSION
from domain.identity import SubjectRef, checked_key, short_digest, subject_key
from domain.process import Process
from domain.states import ActorKind, RunKind


@dataclass(frozen=True, slots=True)
class KnownRequest:
    """A request that a record is or was a subject of."""

    id: str
    process: str


ABOUT = text("""
    SELECT DISTINCT l.system, l.account, l.object_type, l.object_id, r.id, r.process
    FROM jsonb_to_recordset(cast(:subjects AS jsonb))
        AS given (system text, account text, object_type text, object_id text)
    JOIN subject_link l USING (system, account, object_type, object_id) JOIN request r ON r.id = l.request_id
    ORDER BY r.id
""")
LOCK = text("SELECT id FROM request WHERE id = ANY(:ids) ORDER BY id FOR UPDATE")


def _named(subject: SubjectRef) -> dict[str, str]:
    return {
        "system": subject.system,
        "account": subject.account,
        "object_type": subject.object_type,
        "object_id": subject.object_id,
    }


def requests_by_subject(
    connection: Connection, subjects: Collection[SubjectRef]
) -> dict[SubjectRef, list[KnownRequest]]:
    """The requests that these records are or were subjects of, in id order; a record without any is left out."""
    found: dict[SubjectRef, list[KnownRequest]] = {}
    if subjects:
        named = json.dumps([_named(subject) for subject in subjects])
        for *subject, request_id, process in connection.execute(ABOUT, {"subjects": named}):
            found.setdefault(SubjectRef(*subject), []).append(KnownRequest(request_id, process))
    return found


def lock_requests(connection: Connection, request_ids: Collection[str]) -> None:
    """Take the locks of these requests in id order, the one order in which anybody takes several."""
    if request_ids:
        connection.execute(LOCK, {"ids": list(request_ids)})


def requests_about(connection: Connection, subject: SubjectRef, process: str | None = None) -> list[str]:
    """Ids of the requests that this record is or was a subject of, locked in id order."""
    known = requests_by_subject(connection, [subject]).get(subject, ())
    ids = [each.id for each in known if process in (None, each.process)]
    lock_requests(connection, ids)
    return ids


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A request to be made, unless its key has one. Raises InvalidInput for a key that can be none."""

    process: Process[Any]
    key: str
    requester: str
    id: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", f"req-{short_digest(self.process.name, checked_key(self.key))}")


INSERT_REQUESTS = text("""
    INSERT INTO request (id, process, business_key, requester)
    SELECT * FROM jsonb_to_recordset(cast(:rows AS jsonb)) AS given (id text, process text, key text, requester text)
    ORDER BY id ON CONFLICT DO NOTHING RETURNING id
""")


def insert_requests(connection: Connection, requests: Sequence[NewRequest]) -> set[str]:
    """Insert those whose key has no request yet; their ids. Who inserts a request holds its lock."""
    if not requests:
        return set()
    rows = [{"id": r.id, "process": r.process.name, "key": r.key, "requester": r.requester} for r in requests]
    return set(connection.execute(INSERT_REQUESTS, {"rows": json.dumps(rows)}).scalars())


def request_for_key(connection: Connection, request: NewRequest) -> str:
    """Insert-or-get by the business key; returns the id, locked, in both cases."""
    insert_requests(connection, [request])
    lock_requests(connection, [request.id])
    return request.id


LINK = text("""
    INSERT INTO subject_link (request_id, system, account, object_type, object_id, live)
    SELECT request, system, account, object_type, object_id, :live AND NOT EXISTS (
        SELECT FROM subject_link WHERE request_id = request AND live)
    FROM jsonb_to_recordset(cast(:links AS jsonb))
        AS given (request text, system text, account text, object_type text, object_id text)
    ON CONFLICT (request_id, system, account, object_type, object_id) DO NOTHING
""")
ABOUT_ANOTHER = text("""
    SELECT count(*) > 0 AND NOT coalesce(bool_or(
        (system, account, object_type, object_id) = (:system, :account, :object_type, :object_id)), false)
    FROM subject_link WHERE request_id = :request
""")
RELEASE = text("UPDATE subject_link SET live = false WHERE request_id = :request AND live")
REVIVE = text("""
    UPDATE subject_link SET live = true WHERE request_id = :request
    AND (system, account, object_type, object_id) = (:system, :account, :object_type, :object_id)
""")


def link_subjects(connection: Connection, links: Sequence[tuple[str, SubjectRef]], live: bool = True) -> None:
    """Say that each request is about the record beside it; a linked record (a contact) is never the live one."""
    rows = [{"request": request_id, **_named(subject)} for request_id, subject in links]
    if rows:
        connection.execute(LINK, {"links": json.dumps(rows), "live": live})


def relink(connection: Connection, request_id: str, survivor: SubjectRef) -> None:
    """After a merge the request keeps its key and is about the survivor."""
    link_subjects(connection, [(request_id, survivor)], live=False)
    connection.execute(RELEASE, {"request": request_id})
    connection.execute(REVIVE, {"request": request_id, **_named(survivor)})


LIVE_RUN = text("""
    SELECT id, state NOT IN ('succeeded', 'failed', 'canceled', 'suppressed', 'expired') AS open FROM run
    WHERE request_id = :request AND kind <> 'rehearsal' ORDER BY number DESC LIMIT 1
""")


def live_run(connection: Connection, request_id: str) -> tuple[str, bool] | None:
    """The newest run of the request that is no rehearsal, and whether it is open."""
    row = connection.execute(LIVE_RUN, {"request": request_id}).first()
    return (row.id, row.open) if row else None


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to be queued. `number` counts the runs of a request."""

    request_id: str
    process: Process[Any]
    kind: RunKind
    correlation: str
    number: int
    from_run: str | None = None

    @property
    def id(self) -> str:
        return f"run-{short_digest(self.request_id, str(self.number))}"

    @property
    def reason(self) -> str:
        """The reason code of the first event."""
        return "accepted" if self.kind in (RunKind.ORIGINAL, RunKind.REHEARSAL) else f"{self.kind}_opened"


INSERT_RUNS = text("""
    WITH made AS (
        INSERT INTO run (id, request_id, number, kind, from_run, process, policy_version, correlation_id, state, seq,
            reason, state_since)
        SELECT id, request, number, kind, from_run, process, policy, correlation, 'queued', 1, reason, clock_timestamp()
        FROM jsonb_to_recordset(cast(:rows AS jsonb)) AS given (id text, request text, number integer, kind text,
            from_run text, process text, policy text, correlation text, reason text)
        ON CONFLICT DO NOTHING RETURNING id, request_id, policy_version, correlation_id, reason
    ), written AS (
        INSERT INTO event (run_id, seq, request_id, step, previous, next, reason, actor_kind, actor_id, at,
            workflow_version, policy_version, correlation_id, evidence, previous_hash, hash)
        SELECT id, 1, request_id, 'intake', NULL, 'queued', reason, :actor_kind, :actor_id, clock_timestamp(),
            :code_version, policy_version, correlation_id, '{}', '', '' FROM made
    )
    SELECT id FROM made
""")
INTAKE = {"actor_kind": ActorKind.INTAKE, "actor_id": SYSTEM_ACTOR, "code_version": CODE_VERSION}


def insert_runs(connection: Connection, runs: Sequence[NewRun]) -> set[str]:
    """Insert queued runs, except where the request has its original or an open run already; the ids of those made.

    The unique keys decide.
    """
    if not runs:
        return set()
    rows = json.dumps([_columns(run) for run in runs])
    return set(connection.execute(INSERT_RUNS, {"rows": rows, **INTAKE}).scalars())


def _columns(run: NewRun) -> dict[str, Any]:
    return {
        "id": run.id,
        "request": run.request_id,
        "number": run.number,
        "kind": run.kind,
        "from_run": run.from_run,
        "process": run.process.name,
        "policy": run.process.policy,
        "correlation": run.correlation,
        "reason": run.reason,
    }


NEXT_NUMBER = text("SELECT coalesce(max(number), 0) + 1 FROM run WHERE request_id = :request")


def next_number(connection: Connection, request_id: str) -> int:
    """The number of the request's next run, to be read under its lock."""
    return int(connection.execute(NEXT_NUMBER, {"request": request_id}).scalar_one())


def insert_run(
    connection: Connection,
    request_id: str,
    process: Process[Any],
    kind: RunKind,
    correlation: str,
    from_run: str | None = None,
) -> str | None:
    """Insert a queued run under the request lock, or None when the request has its original or an open run already."""
    run = NewRun(request_id, process, kind, correlation, next_number(connection, request_id), from_run)
    return run.id if insert_runs(connection, [run]) else None


class AlreadyExists(CounterfoilError):
    """The request has its original run; `run` names it."""

    code = "already_exists"


@dataclass(frozen=True, slots=True)
class Asked:
    """A run asked for by an operator rather than by a CRM event."""

    process: Process[Any]
    subject: SubjectRef
    requester: str
    rehearsal: bool = False
    key: str | None = None


def start_run(connection: Connection, asked: Asked) -> tuple[str, bool]:
    """Start a run by hand: (run id, made now). A rehearsal occupies nothing and may always be made.

    Raises InvalidInput for a record that the process cannot read, and SameKeyOtherContent for a key under which
    another record was asked for.
    """
    key = subject_key(asked.subject) if asked.key is None else checked_key(asked.key)
    known = requests_about(connection, asked.subject, asked.process.name)
    _refuse_unreadable(asked, known)
    request_id = known[0] if known else request_for_key(connection, NewRequest(asked.process, key, asked.requester))
    if connection.execute(ABOUT_ANOTHER, {"request": request_id, **_named(asked.subject)}).scalar_one():
        raise SameKeyOtherContent("this business key belongs to a request about another record", business_key=key)
    link_subjects(connection, [(request_id, asked.subject)])
    kind = RunKind.REHEARSAL if asked.rehearsal else RunKind.ORIGINAL
    made = insert_run(connection, request_id, asked.process, kind, f"cor-{short_digest(request_id, asked.requester)}")
    if made is not None:
        return made, True
    existing = live_run(connection, request_id)
    if existing is None:
        raise NotFound("run of request", request_id)
    return existing[0], False


def _refuse_unreadable(asked: Asked, known: Sequence[str]) -> None:
    """Another spelling of the type would make two requests of a record; of another system only a trigger can tell."""
    subject, trigger = asked.subject, asked.process.trigger
    elsewhere = subject.system != trigger.system
    if not known if elsewhere else subject.object_type != trigger.object_type:
        raise InvalidInput("subject", f"of type {trigger.object_type} in {trigger.system}")


def open_repair(connection: Connection, run_id: str, process: Process[Any], kind: RunKind) -> str:
    """A linked run of a terminal one, queued. Raises AlreadyExists when the request has an open run."""
    former = lock_run(connection, run_id)
    if former.is_open or former.kind is RunKind.REHEARSAL:
        raise InvalidInput("run", "a terminal run that is no rehearsal")
    made = insert_run(connection, former.request_id, process, kind, former.correlation_id, run_id)
    if made is None:
        existing = live_run(connection, former.request_id)
        raise AlreadyExists("the request has an open run", run=existing[0] if existing else None)
    return made
