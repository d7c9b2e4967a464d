"""Reading the subject: one untorn snapshot with its makers, or the inputs that a trigger carried itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from domain.boundaries import boundary
from domain.identity import SubjectRef
from domain.ports import Crm
from domain.process import Process, crm_names, snapshot_of
from domain.records import Facts, Taken


@dataclass(frozen=True)
class Snapshots:
    """Takes snapshots through the CRM that holds the subject."""

    crms: Mapping[str, Crm]

    def take(self, facts: Facts, process: Process[Any]) -> Taken | None:
        """What the subject says now; None where nobody can be asked and nothing new was sent.

        The read counts from the database clock before it. Raises ReadFailed, SubjectGone.
        """
        if facts.inline is not None:
            return _carried(facts, process, facts.inline)
        crm = self.crms.get(facts.subject.system)
        return None if crm is None else _read(crm, facts, process)


def _read(crm: Crm, facts: Facts, process: Process[Any]) -> Taken:
    with boundary("read-subject", facts.run.id):
        reading = crm.read_subject(facts.subject, process.wanted)
    linked_id = reading.values.get("linked.id")
    linked = _linked(facts.subject, process, linked_id) if linked_id else None
    return Taken(
        snapshot=snapshot_of(process.inputs, reading.values),
        marker=reading.marker,
        read_at=facts.now,
        makers=frozenset(reading.makers.values()),
        owner=reading.owner,
        upto=facts.unread,
        live=reading.live,
        linked=linked,
    )


def _linked(subject: SubjectRef, process: Process[Any], object_id: str) -> SubjectRef:
    return SubjectRef(subject.system, subject.account, process.linked_object_type, object_id)


def _carried(facts: Facts, process: Process[Any], inline: Mapping[str, Any]) -> Taken:
    values = {**_former(facts, process), **json.loads(bytes.fromhex(inline["inputs"]))}
    return Taken(
        snapshot=snapshot_of(process.inputs, values),
        marker=inline["marker"],
        read_at=datetime.fromisoformat(inline["occurred_at"]),
        makers=frozenset(inline["makers"] or ()),
        owner=None,
        upto=facts.unread,
        live=facts.subject,
    )


def _former(facts: Facts, process: Process[Any]) -> dict[str, str | None]:
    """The values that an amendment leaves as they were by not naming them; of an erased version there are none."""
    if facts.newest is None or facts.newest.canonical is None:
        return {}
    former = json.loads(facts.newest.canonical)
    return {prop: former.get(name) for name, prop in crm_names(process.inputs).items()}
