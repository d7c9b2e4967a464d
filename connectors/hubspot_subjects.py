"""Reading a HubSpot record with its linked record as they stood together, and writing declared state back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from connectors.classify import Object, text
from connectors.hubspot_history import makers
from connectors.hubspot_reading import read_hits, read_record
from connectors.hubspot_records import (
    OBJECTS,
    REPLACED,
    SYSTEM,
    Search,
    first_linked,
    get_record,
    json_request,
    properties,
    record_id,
    storable,
)
from connectors.reading import Reader
from connectors.transport import segment
from domain.errors import SubjectGone
from domain.identity import SubjectRef
from domain.ports import SubjectReading, Wanted

TRIES = 3
OWNER = "hubspot_owner_id"


@dataclass(frozen=True, slots=True)
class Subjects:
    """Records of one HubSpot account (portal)."""

    reader: Reader
    portal_id: str
    app_id: str
    write_within: timedelta

    def read(self, subject: SubjectRef, wanted: Wanted) -> SubjectReading:
        """The record is read again after its linked record; if it moved, all of it is read again, three times at most.

        Raises SubjectGone, Throttled, or ReadFailed (`torn_read`, `other_account`, ...).
        """
        self._check(subject)
        for _ in range(TRIES):
            reading = self._read_once(subject, wanted)
            if reading is not None:
                return reading
        raise self.reader.failed("torn_read")

    def project(self, subject: SubjectRef, changes: Mapping[str, str | None]) -> None:
        """PATCH of these properties alone; None clears. Raises SubjectGone, Throttled or ReadFailed."""
        self._check(subject)
        if not changes:
            return
        body = {"properties": {name: value or "" for name, value in changes.items()}}
        path = f"{OBJECTS}/{segment(subject.object_type)}/{segment(subject.object_id)}"
        reply = self.reader.transport.write(json_request("PATCH", path, body), self.write_within)
        if self.reader.understood(reply) is None:
            raise _gone(subject)

    def successor(self, subject: SubjectRef) -> SubjectRef | None:
        """The record that a vanished one was merged into, according to the lagging index; None if there is none.

        HubSpot lists the ids merged into a record in its `hs_merged_object_ids`. Raises ReadFailed.
        """
        self._check(subject)
        name = "hs_merged_object_ids"
        search = Search(subject.object_type, name, subject.object_id, "CONTAINS_TOKEN")
        merged = [hit for hit in read_hits(self.reader, search) if subject.object_id in _merged_ids(hit, name)]
        if len(merged) > 1:
            raise self.reader.failed("several_successors")
        return self._live(subject, merged[0]) if merged else None

    def _check(self, subject: SubjectRef) -> None:
        if (subject.system, subject.account) != (SYSTEM, self.portal_id):
            raise self.reader.failed("other_account")

    def _read_once(self, subject: SubjectRef, wanted: Wanted) -> SubjectReading | None:
        """None if the record or its link changed while the linked record was read."""
        names = tuple(dict.fromkeys((*wanted.properties, OWNER)))
        record = self._record(subject, names, wanted)
        if not wanted.linked_type:
            return self._reading(subject, record, wanted)
        linked = self._linked(record, wanted)
        after = self._record(subject, (), wanted)
        same = _marker(after) == _marker(record) and _link(after, wanted) == _link(record, wanted)
        if not same or (linked is None and _link(record, wanted) is not None):
            return None
        return self._reading(subject, record, wanted, linked or {})

    def _record(self, subject: SubjectRef, names: tuple[str, ...], wanted: Wanted) -> Object:
        links = (wanted.linked_type,) if wanted.linked_type else ()
        request = get_record(
            subject.object_type,
            subject.object_id,
            properties=names,
            propertiesWithHistory=names,
            associations=links,
        )
        record = read_record(self.reader, request)
        if record is None:
            raise _gone(subject)
        if not _marker(record):
            raise self.reader.failed("unreadable_record")
        return record

    def _linked(self, record: Object, wanted: Wanted) -> Object | None:
        linked_id = _link(record, wanted)
        if linked_id is None:
            return None
        names = wanted.linked_properties
        request = get_record(wanted.linked_type, linked_id, properties=names, propertiesWithHistory=names)
        return read_record(self.reader, request)

    def _reading(
        self, subject: SubjectRef, record: Object, wanted: Wanted, linked: Object | None = None
    ) -> SubjectReading:
        gathered = _Gathered()
        gathered.add(record, (*wanted.properties, OWNER), self.app_id)
        if linked is not None:
            gathered.values["linked.id"] = record_id(linked)
            gathered.add(linked, wanted.linked_properties, self.app_id, "linked.")
        owner = gathered.values[OWNER]
        if OWNER not in wanted.properties:
            gathered.drop(OWNER)
        live = self._live(subject, record)
        return SubjectReading(live, gathered.values, _marker(record), gathered.makers, owner, gathered.notes)

    def _live(self, subject: SubjectRef, record: Object) -> SubjectRef:
        return SubjectRef(SYSTEM, self.portal_id, subject.object_type, record_id(record) or subject.object_id)


@dataclass(slots=True)
class _Gathered:
    """Values, makers and notes of a record and its linked record under one naming."""

    values: dict[str, str | None] = field(default_factory=dict)
    makers: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def add(self, record: Object, names: tuple[str, ...], own_app: str, prefix: str = "") -> None:
        given, made_by = properties(record), makers(record, own_app)
        for name in names:
            raw = given.get(name)
            self.values[prefix + name] = storable(raw)
            if storable(raw) != raw:
                self.notes[prefix + name] = REPLACED
            if name in made_by:
                self.makers[prefix + name] = made_by[name]

    def drop(self, name: str) -> None:
        for part in (self.values, self.makers, self.notes):
            part.pop(name, None)


def _marker(record: Object) -> str:
    return text(record, "updatedAt") or ""


def _link(record: Object, wanted: Wanted) -> str | None:
    return first_linked(record, wanted.linked_type)


def _merged_ids(record: Object, name: str) -> list[str]:
    return (properties(record).get(name) or "").split(";")


def _gone(subject: SubjectRef) -> SubjectGone:
    return SubjectGone("the CRM record is archived, deleted or merged away", subject=str(subject))
