"""HubSpot tasks, created once: a unique property holds our key, so a second create is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from connectors.classify import Object, accepted, child, children, doubtful
from connectors.fields import Fields, present
from connectors.hubspot_answers import classified
from connectors.hubspot_contracts import HubSpotTimes, of_tasks
from connectors.hubspot_reading import read_hits, read_record
from connectors.hubspot_records import (
    OBJECTS,
    HubSpotSchema,
    Search,
    Walk,
    associated,
    get_record,
    json_bytes,
    properties,
    record_id,
)
from connectors.reading import Reader
from connectors.transport import Reply, Request
from domain.canonical import Json, parse
from domain.contracts import Contract
from domain.ports import Send, Sought
from domain.signals import Answer, Finding, Found

KIND = "tasks"
COMPANIES = "companies"
_NAMES = {
    "title": "hs_task_subject",
    "body": "hs_task_body",
    "owner": "hubspot_owner_id",
    "due_at": "hs_timestamp",
    "status": "hs_task_status",
}


@dataclass(frozen=True, slots=True)
class Tasks:
    """The operation `create_task`."""

    reader: Reader
    schema: HubSpotSchema

    def contracts(self, times: HubSpotTimes) -> tuple[Contract, ...]:
        return of_tasks(times, self.schema)

    def render(self, key: str, fields: Fields) -> bytes:
        """Fields: title; optional body, owner, due_at (ISO 8601), subject_id (a company), run_id (in the body).

        HubSpot requires a due time: without one the task is due at the end of the day on which it is rendered.
        """
        given = present(fields, "title")
        body = _body(given)
        named = {
            self.schema.operation_key: key,
            "hs_timestamp": given.get("due_at") or _end_of_day(datetime.now(UTC)),
            "hs_task_subject": given["title"],
            "hs_task_body": body,
            "hs_task_status": "NOT_STARTED",
            "hs_task_type": "TODO",
            "hubspot_owner_id": given.get("owner"),
        }
        links = self._links(given["subject_id"]) if "subject_id" in given else {}
        return json_bytes({"properties": {name: value for name, value in named.items() if value}, **links})

    def _links(self, company_id: str) -> dict[str, object]:
        kind = {"associationCategory": "HUBSPOT_DEFINED", "associationTypeId": self.schema.task_to_company}
        return {"associations": [{"to": {"id": company_id}, "types": [kind]}]}

    def send(self, request: Send) -> Answer:
        """One POST."""
        headers = {"Content-Type": "application/json"}
        post = Request("POST", f"{OBJECTS}/{KIND}", body=request.content, headers=headers)
        reply = self.reader.transport.write(post, request.within)

        def created(reply: Reply, record: Object) -> Answer:
            if record_id(record) is None or properties(record).get(self.schema.operation_key) != request.key:
                return doubtful(reply, "no_record_with_our_key")
            return accepted(reply, record_id(record) or "")

        return classified(reply, datetime.now(UTC), created)

    def find(self, sought: Sought) -> Finding:
        """The named task, else the one under our unique key, else what the search index shows. Raises ReadFailed."""
        named = self._read(sought.reference) if sought.reference else None
        record = named or self._read(sought.key, idProperty=(self.schema.operation_key,))
        return self._compared(record, sought) if record else self._searched(sought)

    def read_back(self, reference: str) -> Mapping[str, str | None]:
        """title, body, owner, due_at, status, subject_id and operation_key of a task. Raises ReadFailed."""
        record = self._read(reference)
        if record is None:
            raise self.reader.failed("absent")
        given = properties(record)
        companies = [company for company, _ in associated(record, COMPANIES)]
        named = {name: given.get(prop) for name, prop in _NAMES.items()}
        subject = min(companies, key=lambda one: (len(one), one), default=None)
        return {**named, "subject_id": subject, "operation_key": given.get(self.schema.operation_key)}

    def walk(self, since: datetime) -> Walk:
        return Walk(KIND, self.schema.operation_key, "hs_createdate", since)

    def _read(self, value: str, **query: tuple[str, ...]) -> Object | None:
        names = (self.schema.operation_key, *_NAMES.values())
        return read_record(self.reader, get_record(KIND, value, properties=names, associations=(COMPANIES,), **query))

    def _searched(self, sought: Sought) -> Finding:
        name = self.schema.operation_key
        hits = read_hits(self.reader, Search(KIND, name, sought.key))
        ours = {record_id(hit) for hit in hits if properties(hit).get(name) == sought.key}
        if len(ours) > 1:
            return Finding(Found.MANY, "several_tasks")
        record = self._read(ours.pop() or "") if ours else None
        return self._compared(record, sought) if record else Finding(Found.NONE, "absent")

    def _compared(self, record: Object, sought: Sought) -> Finding:
        reference, given = record_id(record), properties(record)
        if given.get(self.schema.operation_key) != sought.key:
            return Finding(Found.FOREIGN, "other_key", reference)
        differing = _differences(parse(sought.content), record, given)
        if differing:
            return Finding(Found.FOREIGN, f"other_{differing[0]}", reference)
        return Finding(Found.ONE, "found", reference)


def _end_of_day(now: datetime) -> str:
    return f"{now.astimezone(UTC):%Y-%m-%d}T23:59:00.000Z"


def _body(given: dict[str, str]) -> str:
    """The text of the task; it names the run, so that a person who opens the task finds it."""
    body, run = given.get("body", ""), given.get("run_id", "")
    return body if run in body else f"{body}\nRun {run}".strip()


def _differences(content: Json, record: Object, given: Mapping[str, str | None]) -> list[str]:
    """Title, text and company; owner, status and due time belong to the people who work with the task."""
    sent = content if isinstance(content, Mapping) else {}
    asked = child(sent, "properties")
    differing = [name for name in ("title", "body") if not _alike(asked.get(_NAMES[name]), given.get(_NAMES[name]))]
    wanted = {record_id(child(link, "to")) for link in children(sent, "associations")}
    shown = {company for company, _ in associated(record, COMPANIES)}
    return differing + (["subject"] if shown and not wanted <= shown else [])


def _alike(asked: Json, shown: str | None) -> bool:
    return " ".join(str(asked or "").split()) == " ".join((shown or "").split())
