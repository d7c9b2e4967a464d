"""Everything that a decision about one run rests on, read in one statement under the request lock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from sqlalchemy import Connection, text

from domain.approvals import Decision, Outcome, Version
from domain.errors import NotFound
from domain.execution import Execution
from domain.identity import SubjectRef
from domain.records import Facts, Operation, Review, Run, StoredVersion
from domain.signals import (
    Answer,
    Attempt,
    Callback,
    Doubt,
    Evidence,
    Finding,
    Found,
    Probe,
    RecordedAnswer,
    Signal,
)
from domain.states import RunKind, RunState

Json: TypeAlias = Mapping[str, Any]

READ = text("SELECT run_facts(:run)")
LOCK = text("SELECT run_facts_locked(:run, NULL, NULL)")
OWN = text("SELECT run_facts_locked(:run, :epoch, :engine_run)")


def read_facts(connection: Connection, run_id: str) -> Facts:
    """All facts about a run, without a lock. Raises NotFound."""
    return facts_of(connection.execute(READ, {"run": run_id}).scalar(), run_id)


def locked_facts(connection: Connection, run_id: str) -> Facts:
    """All facts about a run under the request lock, the one lock of the store. Raises NotFound."""
    return facts_of(connection.execute(LOCK, {"run": run_id}).scalar(), run_id)


def owned_facts(connection: Connection, run_id: str, execution: Execution) -> tuple[Facts, bool]:
    """All facts under the request lock, and whether this execution owns the run: the newest of the highest epoch does.

    An execution that was seen before and is not the owner any more is superseded; one never seen is newer than all that
    were (a reset makes a new one), so it takes over. Raises NotFound.
    """
    named = {"run": run_id, "epoch": execution.epoch, "engine_run": execution.engine_run}
    document = connection.execute(OWN, named).scalar()
    return facts_of(document, run_id), document is not None and document["owned"]


def facts_of(document: Json | None, run_id: str) -> Facts:
    """The document of `run_facts` as values."""
    if document is None:
        raise NotFound("run", run_id)
    subject = document["subject"]
    return Facts(
        run=_run(document["run"]),
        now=_time(document["now"]),
        subject=SubjectRef(*(subject[part] for part in ("system", "account", "object_type", "object_id"))),
        versions=tuple(map(_version, document["versions"] or ())),
        reviews=tuple(map(_review, document["reviews"] or ())),
        decisions=tuple(map(_decision, document["decisions"] or ())),
        operations=tuple(map(as_operation, document["operations"] or ())),
        unread=document["unread"],
        inline=document["inline"],
        throttles={system: _time(until) for system, until in (document["throttles"] or {}).items()},
        subjects_collide=document["subjects_collide"],
        hints=document.get("hints", 0),
    )


def _run(row: Json) -> Run:
    moments = ("state_since", "deadline", "cancel_requested_at")
    named = {name: row[name] for name in Run.__dataclass_fields__}
    named |= {name: _time(row[name]) if row[name] else None for name in moments}
    return Run(**{**named, "kind": RunKind(row["kind"]), "state": RunState(row["state"])})


def _time(text_: str) -> datetime:
    return datetime.fromisoformat(text_)


def _bytes(as_hex: str | None) -> bytes | None:
    """None is what was erased."""
    return None if as_hex is None else bytes.fromhex(as_hex)


def _version(row: Json) -> StoredVersion:
    return StoredVersion(
        Version(row["number"], row["fingerprint"], frozenset(row["makers"] or ())),
        _bytes(row["canonical"]),
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
    """An operation row joined with its attempts, answers, probes and callbacks as JSON."""
    names = ("key", "run_id", "step", "item", "generation", "input_version", "system", "kind")
    return Operation(
        **{name: row[name] for name in names},
        content=_bytes(row["content"]),
        outcome=row["outcome"],
        settled_by=row["settled_by"],
        reference=row["reference"],
        in_flight_until=_time(row["in_flight_until"]) if row["in_flight_until"] else None,
        evidence=Evidence(
            _attempts(row["attempts"] or (), row["answers"] or ()),
            _probes(row["probes"] or ()),
            tuple(map(_callback, row["callbacks"] or ())),
        ),
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
            row["dispatch_id"],
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


def _callback(row: Json) -> Callback:
    return Callback(_time(row["recorded_at"]), row["reference"], row["ours"])
