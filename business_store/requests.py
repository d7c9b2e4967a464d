"""Requests, their CRM subjects, and the insertion of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, text

from business_store.runs import SYSTEM_ACTOR, lock_run
from domain.errors import CounterfoilError, InvalidInput, NotFound, SameKeyOtherContent
from domain.execution import CODE_VERSION
from domain.identity import SubjectRef, checked_key, short_digest, subject_key
from domain.process import Process
from domain.states import ActorKind, RunKind

ABOUT = text("""
    SELECT DISTINCT r.id FROM subject_link l JOIN request r ON r.id = l.request_id
    WHERE (l.system, l.account, l.object_type, l.object_id) = (:system, :account, :object_type, :object_id)
    AND (cast(:process AS text) IS NULL OR r.process = :process) ORDER BY r.id
""")
LOCK = text("SELECT id FROM request WHERE id = :id FOR UPDATE")


def _named(subject: SubjectRef) -> dict[str, str]:
    return {
        "system": subject.system,
        "account": subject.account,
        "object_type": subject.object_type,
        "object_id": subject.object_id,
    }


def requests_about(connection: Connection, subject: SubjectRef, process: str | None = None) -> list[str]:
    """Ids of the requests that this record is or was a subject of, locked in id order."""
    rows = connection.execute(ABOUT, {**_named(subject), "process": process}).scalars().all()
    for request_id in rows:
        connection.execute(LOCK, {"id": request_id})
    return list(rows)


INSERT_REQUEST = text("""
    INSERT INTO request (id, process, business_key, requester) VALUES (:id, :process, :key, :requester)
    ON CONFLICT DO NOTHING
""")


def request_for_key(connection: Connection, process: str, key: str, requester: str) -> str:
    """Insert-or-get by the business key; returns the id, locked, in both cases."""
    request_id = f"req-{short_digest(process, checked_key(key))}"
    named = {"id": request_id, "process": process, "key": key, "requester": requester}
    connection.execute(INSERT_REQUEST, named)
    connection.execute(LOCK, named)
    return request_id


LINK = text("""
    INSERT INTO subject_link (request_id, system, account, object_type, object_id, live)
    VALUES (:request, :system, :account, :object_type, :object_id, :live AND NOT EXISTS (
        SELECT FROM subject_link WHERE request_id = :request AND live))
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


def link_subject(connection: Connection, request_id: str, subject: SubjectRef, live: bool = True) -> None:
    """Say that the request is about this record; a linked record (a contact) is never the live one."""
    connection.execute(LINK, {"request": request_id, "live": live, **_named(subject)})


def relink(connection: Connection, request_id: str, survivor: SubjectRef) -> None:
    """After a merge the request keeps its key and is about the survivor."""
    link_subject(connection, request_id, survivor, live=False)
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


INSERT_RUN = text("""
    WITH made AS (
        INSERT INTO run (id, request_id, number, kind, from_run, process, policy_version, correlation_id, state, seq,
            reason, state_since)
        SELECT :id, :request, :number, :kind, :from_run, :process, :policy, :correlation, 'queued', 1, :reason,
            clock_timestamp()
        ON CONFLICT DO NOTHING RETURNING id
    ), written AS (
        INSERT INTO event (run_id, seq, request_id, step, previous, next, reason, actor_kind, actor_id, at,
            workflow_version, policy_version, correlation_id, evidence, previous_hash, hash)
        SELECT id, 1, :request, 'intake', NULL, 'queued', :reason, :actor_kind, :actor_id, clock_timestamp(),
            :code_version, :policy, :correlation, '{}', '', '' FROM made
    )
    SELECT id FROM made
""")
NEXT_NUMBER = text("SELECT coalesce(max(number), 0) + 1 FROM run WHERE request_id = :request")


def insert_run(
    connection: Connection,
    request_id: str,
    process: Process[Any],
    kind: RunKind,
    correlation: str,
    from_run: str | None = None,
) -> str | None:
    """Insert a queued run under the request lock, or None when the request has its original or an open run already.

    The unique keys decide; the number is read under the lock.
    """
    number = connection.execute(NEXT_NUMBER, {"request": request_id}).scalar_one()
    row = connection.execute(
        INSERT_RUN,
        {
            "id": f"run-{short_digest(request_id, str(number))}",
            "request": request_id,
            "number": number,
            "kind": kind,
            "from_run": from_run,
            "process": process.name,
            "policy": process.policy,
            "correlation": correlation,
            "reason": "accepted" if kind in (RunKind.ORIGINAL, RunKind.REHEARSAL) else f"{kind}_opened",
            "actor_kind": ActorKind.INTAKE,
            "actor_id": SYSTEM_ACTOR,
            "code_version": CODE_VERSION,
        },
    ).first()
    return row.id if row else None


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
    request_id = known[0] if known else request_for_key(connection, asked.process.name, key, asked.requester)
    if connection.execute(ABOUT_ANOTHER, {"request": request_id, **_named(asked.subject)}).scalar_one():
        raise SameKeyOtherContent("this business key belongs to a request about another record", business_key=key)
    link_subject(connection, request_id, asked.subject)
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
