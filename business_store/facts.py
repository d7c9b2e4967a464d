"""Everything that a decision about one run rests on, read in one statement under the request lock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, text

from domain.approvals import Decision, Outcome, Version
from domain.identity import SubjectRef
from domain.records import Facts, Operation, Review, Run, StoredVersion
from domain.signals import (
    Answer,
    Attempt,
    Doubt,
    Evidence,
    Finding,
    Found,
    Probe,
    RecordedAnswer,
    Signal,
)

LOAD = text("""
    SELECT clock_timestamp() AS now,
    (SELECT to_jsonb(l) FROM subject_link l WHERE l.request_id = r.id AND l.live) AS subject,
    (SELECT jsonb_agg(jsonb_build_object('number', v.number, 'fingerprint', v.fingerprint, 'read_at', v.read_at,
        'canonical', encode(v.canonical, 'hex'), 'problems', v.problems, 'owner', v.owner,
        'makers', (SELECT jsonb_agg(person_behind(m.actor_id)) FROM version_maker m
                   WHERE m.request_id = r.id AND m.number = v.number) || to_jsonb(person_behind(r.requester)))
        ORDER BY v.number) FROM input_version v WHERE v.request_id = r.id) AS versions,
    (SELECT jsonb_agg(to_jsonb(w) ORDER BY w.opened_at, w.id) FROM review w WHERE w.run_id = :run) AS reviews,
    (SELECT jsonb_agg(to_jsonb(d) - 'comment' || jsonb_build_object('person', person_behind(d.actor_id),
        'revoked', EXISTS (SELECT FROM revocation x WHERE x.decision_id = d.id),
        'carried_to', (SELECT jsonb_agg(c.version) FROM carry_over c WHERE c.decision_id = d.id))
        ORDER BY d.decided_at) FROM decision d WHERE d.run_id = :run) AS decisions,
    (SELECT jsonb_agg(to_jsonb(o) || jsonb_build_object('content', encode(o.content, 'hex'),
        'attempts', (SELECT jsonb_agg(to_jsonb(a) ORDER BY a.number) FROM attempt a WHERE a.operation_key = o.key),
        'answers', (SELECT jsonb_agg(to_jsonb(n) || jsonb_build_object('wait', extract(epoch FROM n.retry_after))
                    ORDER BY n.recorded_at) FROM answer n WHERE n.operation_key = o.key),
        'probes', (SELECT jsonb_agg(to_jsonb(p) ORDER BY p.began_at) FROM probe p WHERE p.operation_key = o.key))
        ORDER BY o.step, o.item, o.generation) FROM operation o WHERE o.request_id = r.id) AS operations,
    (SELECT coalesce(max(d.id), 0) FROM delivery d WHERE d.request_id = r.id AND d.disposition = 'pending_read')
        AS unread,
    (SELECT jsonb_build_object('inputs', encode(d.inputs, 'hex'), 'marker', d.marker, 'occurred_at', d.occurred_at,
        'makers', CASE WHEN d.made_by IS NULL THEN NULL ELSE jsonb_build_array(d.made_by) END)
        FROM delivery d WHERE d.request_id = r.id AND d.inputs IS NOT NULL AND d.disposition = 'pending_read'
        ORDER BY d.occurred_at DESC, d.id DESC LIMIT 1) AS inline,
    (SELECT jsonb_object_agg(t.system, t.until) FROM throttle t) AS throttles,
    EXISTS (SELECT FROM subject_link mine JOIN subject_link other
        USING (system, account, object_type, object_id) JOIN run ON run.request_id = other.request_id
        JOIN request x ON x.id = other.request_id
        WHERE mine.request_id = r.id AND mine.live AND other.live AND other.request_id <> r.id
        AND x.process = r.process AND run.kind <> 'rehearsal'
        AND run.state NOT IN ('succeeded', 'failed', 'canceled', 'suppressed', 'expired')) AS subjects_collide
    FROM request r WHERE r.id = :request
""")


def load_facts(connection: Connection, run: Run) -> Facts:
    """All facts about `run`; call it under the lock when anything is to be written."""
    row = connection.execute(LOAD, {"run": run.id, "request": run.request_id}).mappings().one()
    return Facts(
        run=run,
        now=row["now"],
        subject=SubjectRef(*(row["subject"][part] for part in ("system", "account", "object_type", "object_id"))),
        versions=tuple(map(_version, row["versions"] or ())),
        reviews=tuple(map(_review, row["reviews"] or ())),
        decisions=tuple(map(_decision, row["decisions"] or ())),
        operations=tuple(map(as_operation, row["operations"] or ())),
        unread=row["unread"],
        inline=row["inline"],
        throttles={system: _time(until) for system, until in (row["throttles"] or {}).items()},
        subjects_collide=row["subjects_collide"],
    )


Json = Mapping[str, Any]


def _time(text_: str) -> datetime:
    return datetime.fromisoformat(text_)


def _version(row: Json) -> StoredVersion:
    return StoredVersion(
        Version(row["number"], row["fingerprint"], frozenset(row["makers"] or ())),
        bytes.fromhex(row["canonical"]),
        tuple(row["problems"]),
        _time(row["read_at"]),
        row["owner"],
    )


def _review(row: Json) -> Review:
    names = ("id", "version", "fingerprint", "role")
    return Review(**{name: row[name] for name in names}, deadline=_time(row["deadline"]), status=row["status"])


def _decision(row: Json) -> Decision:
    return Decision(
        row["id"],
        Outcome(row["outcome"]),
        row["version"],
        row["fingerprint"],
        row["person"],
        _time(row["valid_until"]),
        row["revoked"],
        frozenset(row["carried_to"] or ()),
    )


def as_operation(row: Json) -> Operation:
    """An operation row joined with its attempts, answers and probes as JSON."""
    names = ("key", "run_id", "step", "item", "generation", "input_version", "system", "kind")
    return Operation(
        **{name: row[name] for name in names},
        content=bytes.fromhex(row["content"]),
        outcome=row["outcome"],
        settled_by=row["settled_by"],
        reference=row["reference"],
        in_flight_until=_time(row["in_flight_until"]) if row["in_flight_until"] else None,
        evidence=Evidence(_attempts(row["attempts"] or (), row["answers"] or ()), _probes(row["probes"] or ())),
    )


def _attempts(attempts: Sequence[Json], answers: Sequence[Json]) -> tuple[Attempt, ...]:
    by_number: dict[int, list[RecordedAnswer]] = {}
    for row in answers:
        by_number.setdefault(row["attempt"], []).append(RecordedAnswer(_answer(row), _time(row["recorded_at"])))
    return tuple(
        Attempt(
            row["number"],
            _time(row["permitted_at"]),
            _time(row["lease_until"]),
            tuple(by_number.get(row["number"], ())),
        )
        for row in attempts
    )


def _answer(row: Json) -> Answer:
    return Answer(
        Signal(row["signal"]),
        row["code"],
        row["reference"],
        Doubt(row["doubt"]) if row["doubt"] else None,
        None if row["wait"] is None else timedelta(seconds=float(row["wait"])),
        row["refused"],
        row["http_status"],
        row["excerpt"],
    )


def _probes(rows: Sequence[Json]) -> tuple[Probe, ...]:
    return tuple(
        Probe(_time(row["began_at"]), Finding(Found(row["found"]), row["code"], row["reference"])) for row in rows
    )
