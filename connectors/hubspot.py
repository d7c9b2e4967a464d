"""HubSpot: subjects, tasks and companies of one account (portal)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from connectors.classify import Object
from connectors.fields import Fields, fitting
from connectors.hubspot_companies import Companies
from connectors.hubspot_contracts import HubSpotTimes
from connectors.hubspot_limits import pause_of
from connectors.hubspot_reading import read_carriers
from connectors.hubspot_records import SYSTEM, HubSpotSchema, Walk, as_text
from connectors.hubspot_subjects import Subjects
from connectors.hubspot_tasks import Tasks
from connectors.reading import Reader, unseen
from connectors.transport import Request, Transport, segment
from domain.contracts import Contract
from domain.credentials import Credential
from domain.errors import InvalidInput, ReadFailed
from domain.identity import SubjectRef
from domain.ports import Carrier, Send, Sought, SubjectReading, Wanted
from domain.signals import Answer, Finding

CREATE_TASK = "create_task"
UPSERT_COMPANY = "upsert_company"


class _Effect(Protocol):
    def contracts(self, times: HubSpotTimes) -> tuple[Contract, ...]: ...
    def render(self, key: str, fields: Fields) -> bytes: ...
    def send(self, request: Send) -> Answer: ...
    def find(self, sought: Sought) -> Finding: ...
    def read_back(self, reference: str) -> Mapping[str, str | None]: ...
    def walk(self, since: datetime) -> Walk: ...


class HubSpot:
    """One private app in one portal. `token` is sent to `base_url` and nowhere else; `app_id` tells our own writes."""

    system = SYSTEM

    def __init__(
        self,
        base_url: str,
        token: str | Credential,
        *,
        portal_id: str,
        app_id: str,
        times: HubSpotTimes | None = None,
        schema: HubSpotSchema | None = None,
    ) -> None:
        self._times = times or HubSpotTimes()
        self._schema = schema or HubSpotSchema()
        self._portal_id = self.scope = portal_id
        self._transport = Transport(base_url, token)
        self._reader = Reader(SYSTEM, self._transport, self._times.read_within, pause_of=pause_of)
        self._subjects = Subjects(self._reader, portal_id, app_id, self._times.write_within)
        self._effects: dict[str, _Effect] = {
            CREATE_TASK: Tasks(self._reader, self._schema),
            UPSERT_COMPANY: Companies(self._reader, self._schema),
        }

    def close(self) -> None:
        self._transport.close()

    def credential_mark(self) -> str:
        return self._transport.credential_mark()

    def contracts(self, operation: str) -> tuple[Contract, ...]:
        """C2 by the unique property, then C4: see connectors.hubspot_contracts."""
        return self._effect(operation).contracts(self._times)

    def render(self, operation: str, key: str, fields: Fields) -> bytes:
        """Raises InvalidInput. Fields: see Tasks.render and Companies.render."""
        return self._effect(operation).render(fitting(key, self.contracts(operation)), fields)

    def send(self, request: Send) -> Answer:
        """One POST."""
        return self._effect(request.operation).send(request)

    def probe(self, sought: Sought) -> Finding:
        """Look by the named record, our key, and the index."""
        try:
            return self._effect(sought.operation).find(sought)
        except ReadFailed as failure:
            return unseen(failure)

    def read_back(self, operation: str, reference: str) -> Mapping[str, str | None]:
        """Raises ReadFailed. Fields: see Tasks.read_back and Companies.read_back."""
        return self._effect(operation).read_back(reference)

    def carriers(self, operation: str, since: datetime) -> Iterator[Carrier]:
        """As the search index shows them, which lags. Raises ReadFailed, or Throttled."""
        return read_carriers(self._reader, self._effect(operation).walk(since))

    def read_subject(self, subject: SubjectRef, wanted: Wanted) -> SubjectReading:
        """Raises SubjectGone, Throttled or ReadFailed."""
        return self._subjects.read(subject, wanted)

    def successor(self, subject: SubjectRef) -> SubjectRef | None:
        """Where a vanished record was merged into, if the index knows. Raises ReadFailed."""
        return self._subjects.successor(subject)

    def project(self, subject: SubjectRef, properties: Mapping[str, str | None]) -> None:
        """Raises SubjectGone, Throttled or ReadFailed."""
        self._subjects.project(subject, properties)

    def check(self) -> Sequence[str]:
        """Portal of the token, and whether the key properties are unique as C2 needs. Raises ReadFailed."""
        details = self._reader.required(Request("GET", "/account-info/v3/details"))
        portal = as_text(details.get("portalId"))
        if portal != self._portal_id:
            raise self._reader.failed("other_account")
        keys = (("tasks", self._schema.operation_key), ("companies", self._schema.company_key))
        return (f"hubspot: portal {portal}", *(self._key_property(kind, name) for kind, name in keys))

    def _key_property(self, kind: str, name: str) -> str:
        found = self._reader.found(Request("GET", f"/crm/v3/properties/{segment(kind)}/{segment(name)}"))
        return f"hubspot: property {kind}.{name} {_uniqueness(found)}"

    def _effect(self, operation: str) -> _Effect:
        if operation not in self._effects:
            raise InvalidInput("operation", f"one of {', '.join(self._effects)}")
        return self._effects[operation]


def _uniqueness(found: Object | None) -> str:
    if found is None:
        return "is missing"
    return "is unique" if found.get("hasUniqueValue") is True else "is NOT unique: a repeated create would duplicate"
