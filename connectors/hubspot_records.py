"""HubSpot's CRM records: paths, requests, and their JSON as text values. Pure.

Paths and fields: HubSpot's public OpenAPI collection, CRM objects, version 2026-09.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from connectors.classify import Object, child, children, text
from connectors.transport import Request, segment
from domain.canonical import Json, number_text

SYSTEM = "hubspot"
OBJECTS = "/crm/objects/2026-09"
OBJECT_ID = "hs_object_id"
REPLACED = "unstorable_characters_replaced"
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class HubSpotSchema:
    """Names that depend on the account. The association type id task to company is HubSpot's own, from memory."""

    operation_key: str = "operation_key"
    company_key: str = "partner_key"
    company_properties: tuple[str, ...] = ("name", "country", "domain", "phone", "onboarding_stage", "description")
    task_to_company: int = 192


def get_record(kind: str, record_id: str, **query: Iterable[str]) -> Request:
    """GET of one record; each keyword is a query parameter with its comma-separated values."""
    pairs = tuple((name, ",".join(values)) for name, values in query.items() if values)
    return Request("GET", f"{OBJECTS}/{segment(kind)}/{segment(record_id)}", pairs)


def json_request(method: str, path: str, value: Mapping[str, object]) -> Request:
    """A request with a JSON body."""
    return Request(method, path, body=json_bytes(value), headers={"Content-Type": "application/json"})


def json_bytes(value: Mapping[str, object]) -> bytes:
    """One spelling: the names in the order given, no blanks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class Search:
    """Records whose property `name` has this value, according to the lagging index."""

    kind: str
    name: str
    value: str
    operator: str = "EQ"

    def request(self, after: str | None) -> Request:
        """The first page, or the one that begins at this cursor."""
        condition = {"propertyName": self.name, "operator": self.operator, "value": self.value}
        body = {"filterGroups": [{"filters": [condition]}], "properties": [self.name], "limit": 100}
        cursor = {"after": after} if after else {}
        return json_request("POST", f"{OBJECTS}/{segment(self.kind)}/search", {**body, **cursor})


@dataclass(frozen=True, slots=True)
class Walk:
    """Every record with a value in the property `name` whose `moment` is not before `since`, by rising id.

    A search ends at ten thousand hits however it is paged, so each page is a search of its own that begins after the
    last id.
    """

    kind: str
    name: str
    moment: str
    since: datetime

    def request(self, after: str | None) -> Request:
        """The page after the record with this id."""
        filters = [
            {"propertyName": self.name, "operator": "HAS_PROPERTY"},
            {"propertyName": self.moment, "operator": "GTE", "value": str(int(self.since.timestamp() * 1000))},
            *([{"propertyName": OBJECT_ID, "operator": "GT", "value": after}] if after else []),
        ]
        sorts = [{"propertyName": OBJECT_ID, "direction": "ASCENDING"}]
        body = {"filterGroups": [{"filters": filters}], "sorts": sorts, "properties": [self.name], "limit": 100}
        return json_request("POST", f"{OBJECTS}/{segment(self.kind)}/search", body)


def record_id(record: Object) -> str | None:
    """The id with every digit, however it was written."""
    return as_text(record.get("id"))


def properties(record: Object) -> dict[str, str | None]:
    """Property values as text; absent, null and empty are None."""
    return {name: as_text(value) for name, value in child(record, "properties").items()}


def as_text(value: Json) -> str | None:
    """A property value as the text that HubSpot means by it."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | Decimal):
        return number_text(value)
    return value if isinstance(value, str) else json.dumps(value, default=str)


def storable(value: str | None) -> str | None:
    """The value with U+FFFD for NUL and lone surrogates, which neither Postgres nor UTF-8 can hold."""
    return value and _UNSTORABLE.sub("\ufffd", value)


def associated(record: Object, kind: str) -> tuple[tuple[str, str], ...]:
    """(id, association type name) of the linked records of one kind."""
    links = children(child(child(record, "associations"), kind), "results")
    found = ((record_id(link), text(link, "type") or "") for link in links)
    return tuple((linked, name) for linked, name in found if linked)


def first_linked(record: Object, kind: str) -> str | None:
    """Id of the primary linked record, else of the one with the smallest id.

    HubSpot names a primary association `company_to_contact` and a plain one `company_to_contact_unlabeled`. Several
    contacts may have the company as their primary one: the smallest id decides, so that every read picks the same.
    """
    links = associated(record, kind)
    primary = [linked for linked, name in links if re.fullmatch(r"[a-z]+_to_[a-z]+", name)]
    candidates = primary or [linked for linked, _ in links]
    return min(candidates, key=lambda linked: (len(linked), linked), default=None)
