"""HubSpot companies by a unique business key: created or updated by one batch upsert with one input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from connectors.classify import Object, accepted, child, children, doubtful
from connectors.fields import Fields, present
from connectors.hubspot_answers import classified, refused
from connectors.hubspot_contracts import HubSpotTimes, of_companies
from connectors.hubspot_history import values, values_since
from connectors.hubspot_reading import read_record
from connectors.hubspot_records import (
    OBJECTS,
    HubSpotSchema,
    Walk,
    as_text,
    get_record,
    json_bytes,
    properties,
    record_id,
)
from connectors.reading import Reader
from connectors.transport import Reply, Request
from domain.canonical import parse
from domain.contracts import Contract
from domain.errors import InvalidInput
from domain.ports import Send, Sought
from domain.signals import Answer, Finding, Found

KIND = "companies"
CLOCK_SKEW = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Companies:
    """The operation `upsert_company`."""

    reader: Reader
    schema: HubSpotSchema

    def contracts(self, times: HubSpotTimes) -> tuple[Contract, ...]:
        return of_companies(times, self.schema)

    def render(self, key: str, fields: Fields) -> bytes:
        """Fields: the unique key property, and any of `company_properties`; None clears. Raises InvalidInput."""
        unique = self.schema.company_key
        identity = present(fields, unique)[unique]
        others = {name: value or "" for name, value in fields.items() if name != unique}
        unknown = sorted(others.keys() - set(self.schema.company_properties))
        if unknown:
            raise InvalidInput(unknown[0], f"one of {', '.join(self.schema.company_properties)}")
        written = {unique: identity, self.schema.operation_key: key, **dict(sorted(others.items()))}
        # the trace id marks the errors of a multi-status answer; it de-duplicates nothing
        entry = {"idProperty": unique, "id": identity, "objectWriteTraceId": key, "properties": written}
        return json_bytes({"inputs": [entry]})

    def send(self, request: Send) -> Answer:
        """One POST of batch/upsert."""
        headers = {"Content-Type": "application/json"}
        post = Request("POST", f"{OBJECTS}/{KIND}/batch/upsert", body=request.content, headers=headers)
        reply = self.reader.transport.write(post, request.within)
        return classified(reply, datetime.now(UTC), lambda reply, value: self._upserted(reply, value, request))

    def _upserted(self, reply: Reply, value: Object, request: Send) -> Answer:
        """The result or the error of our one input, found by key and never by position."""
        identity = as_text(_input(request.content).get("id"))
        results = [one for one in children(value, "results") if self._is_ours(one, identity, request.key)]
        errors = [one for one in children(value, "errors") if request.key in _trace_ids(one)]
        ids = {record_id(one) for one in results}
        if len(errors) == 1 and not results:
            return refused(reply, errors[0])
        if errors or len(ids) != 1 or None in ids:
            return doubtful(reply, "not_in_answer" if not results and not errors else "contradictory_answer")
        return accepted(reply, str(ids.pop()))

    def _is_ours(self, result: Object, identity: str | None, key: str) -> bool:
        given = properties(result)
        return given.get(self.schema.company_key) == identity and given.get(self.schema.operation_key) in (key, None)

    def find(self, sought: Sought) -> Finding:
        """The named company, else the one under the unique key, judged by its history. Raises ReadFailed."""
        named = self._read(sought.reference) if sought.reference else None
        record = named or self._read_by_key(as_text(_input(sought.content).get("id")) or "")
        return self._judged(record, sought) if record else Finding(Found.NONE, "absent")

    def read_back(self, reference: str) -> Mapping[str, str | None]:
        """The key property, `company_properties` and operation_key of a company. Raises ReadFailed."""
        record = self._read(reference)
        if record is None:
            raise self.reader.failed("absent")
        given = properties(record)
        names = (self.schema.company_key, *self.schema.company_properties)
        return {**{name: given.get(name) for name in names}, "operation_key": given.get(self.schema.operation_key)}

    def walk(self, since: datetime) -> Walk:
        """A company may have been there before it was written."""
        return Walk(KIND, self.schema.operation_key, "hs_lastmodifieddate", since)

    def _read(self, reference: str) -> Object | None:
        return read_record(self.reader, get_record(KIND, reference, **self._query()))

    def _read_by_key(self, value: str) -> Object | None:
        query = self._query() | {"idProperty": (self.schema.company_key,)}
        return read_record(self.reader, get_record(KIND, value, **query))

    def _query(self) -> dict[str, tuple[str, ...]]:
        names = (self.schema.company_key, self.schema.operation_key, *self.schema.company_properties)
        return {"properties": names, "propertiesWithHistory": (self.schema.operation_key,)}

    def _judged(self, record: Object, sought: Sought) -> Finding:
        """The company may well have existed before: only the history of our key tells whether this write happened."""
        reference, entry = record_id(record), _input(sought.content)
        if properties(record).get(self.schema.company_key) != entry.get("id"):
            return Finding(Found.FOREIGN, "other_key", reference)
        if sought.key not in values(record, self.schema.operation_key):
            return self._not_written(record, sought, reference)
        differing = [name for name, value in _asked(entry).items() if properties(record).get(name) != value]
        if differing:
            return Finding(Found.FOREIGN, f"other_{differing[0]}", reference)
        return Finding(Found.ONE, "found", reference)

    def _not_written(self, record: Object, sought: Sought, reference: str | None) -> Finding:
        """Absent, unless another operation wrote since: a resend would put older state over newer."""
        since = (sought.since - CLOCK_SKEW).astimezone(UTC).isoformat()[:19]
        newer = values_since(record, self.schema.operation_key, since)
        return Finding(Found.FOREIGN, "newer_write", reference) if newer else Finding(Found.NONE, "absent")


def _input(content: bytes) -> Object:
    body = parse(content)
    return children(body, "inputs")[0] if isinstance(body, Mapping) else {}


def _asked(entry: Object) -> dict[str, str | None]:
    return {name: as_text(value) for name, value in child(entry, "properties").items()}


def _trace_ids(error: Object) -> tuple[object, ...]:
    ids = child(error, "context").get("objectWriteTraceId")
    return tuple(ids) if isinstance(ids, list) else (ids,)
