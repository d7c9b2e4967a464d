"""HubSpot webhook batches: each element becomes a delivery, or is quarantined alone.

Field names: developers.hubspot.com/docs/api/webhooks. Both the generic form (`object.creation` with objectTypeId) and
the older one (`company.creation`; some documents call the field eventType) are read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from domain.canonical import Json
from domain.deliveries import Change, Delivery, Quarantined
from domain.errors import InvalidInput
from domain.identity import SubjectRef, crm_user
from gateway.elements import (
    element_digest,
    elements_of,
    exact_id,
    fields_of,
    instant,
    printable,
    storable,
    value_text,
    whole_text,
)

SYSTEM = "hubspot"

CHANGES = {
    "creation": Change.CREATED,
    "restore": Change.CREATED,
    "propertyChange": Change.PROPERTY,
    "merge": Change.MERGED,
    "deletion": Change.DELETED,
    "privacyDeletion": Change.DELETED,
}
OBJECT_TYPES = {
    "contact": "0-1",
    "company": "0-2",
    "deal": "0-3",
    "ticket": "0-5",
    "product": "0-7",
    "line_item": "0-8",
}
_TYPE_ID = re.compile(r"[0-9]{1,9}-[0-9]{1,20}\Z")
_USER = re.compile(r"userId:([0-9]{1,20})\Z")


def parse_hubspot(body: bytes, own_app_id: str) -> list[Delivery | Quarantined]:
    """One value for each element, in order. Raises NotJson or TooManyElements, nothing else.

    Changes that the app `own_app_id` made are marked as our own echo.
    """
    return [_read(index, element, own_app_id) for index, element in enumerate(elements_of(body))]


def _read(index: int, element: Json, own_app_id: str) -> Delivery | Quarantined:
    try:
        return _delivery(index, fields_of("element", element), own_app_id)
    except InvalidInput as problem:
        return Quarantined(index, f"quarantined-{element_digest(_without_attempt(element))}", problem.message)


def _without_attempt(element: Json) -> Json:
    """A redelivery differs from the first delivery in attemptNumber alone."""
    if not isinstance(element, Mapping):
        return element
    return {name: value for name, value in element.items() if name != "attemptNumber"}


def _delivery(index: int, element: Mapping[str, Json], own_app_id: str) -> Delivery:
    prefix, change = _subscription(element)
    subject, merged_from = _subjects(element, _object_type(element, prefix), change)
    name, value = _property(element) if change is Change.PROPERTY else ("", None)
    return Delivery(
        index=index,
        dedupe_key=_dedupe_key(element, subject),
        change=change,
        subject=subject,
        occurred_at=instant("occurredAt", element.get("occurredAt")),
        property_name=name,
        property_value=value,
        by=_author(element),
        own_echo=_is_own(element, own_app_id),
        merged_from=merged_from,
    )


def _subscription_type(element: Mapping[str, Json]) -> str:
    return whole_text(element.get("subscriptionType", element.get("eventType")))


def _subscription(element: Mapping[str, Json]) -> tuple[str, Change]:
    prefix, _, event = _subscription_type(element).partition(".")
    if event not in CHANGES or (prefix != "object" and prefix not in OBJECT_TYPES):
        raise InvalidInput("subscriptionType", "one that this gateway reads, such as object.propertyChange")
    return prefix, CHANGES[event]


def _object_type(element: Mapping[str, Json], prefix: str) -> str:
    implied = OBJECT_TYPES.get(prefix)
    given = element.get("objectTypeId", implied)
    if not isinstance(given, str) or not _TYPE_ID.match(given) or implied not in (None, given):
        raise InvalidInput("objectTypeId", "a type id such as 0-2 that fits the subscriptionType")
    return given


def _subjects(element: Mapping[str, Json], type_id: str, change: Change) -> tuple[SubjectRef, tuple[SubjectRef, ...]]:
    portal = exact_id("portalId", element.get("portalId"))
    survivor, *gone = _merge(element) if change is Change.MERGED else [exact_id("objectId", element.get("objectId"))]
    others = tuple(SubjectRef(SYSTEM, portal, type_id, each) for each in gone)
    return SubjectRef(SYSTEM, portal, type_id, survivor), others


def _merge(element: Mapping[str, Json]) -> list[str]:
    """The surviving id first, then every other id, each once."""
    primary = exact_id("primaryObjectId", element.get("primaryObjectId"))
    survivor = _id_or(element, "newObjectId", primary)
    merged = element.get("mergedObjectIds")
    if not isinstance(merged, list):
        raise InvalidInput("mergedObjectIds", "an array of ids")
    ids = list(dict.fromkeys([survivor, primary, *(exact_id("mergedObjectIds", each) for each in merged)]))
    if len(ids) == 1:
        raise InvalidInput("mergedObjectIds", "at least one id besides the survivor's")
    return ids


def _id_or(element: Mapping[str, Json], name: str, otherwise: str) -> str:
    given = element.get(name)
    return otherwise if given is None else exact_id(name, given)


def _dedupe_key(element: Mapping[str, Json], subject: SubjectRef) -> str:
    """eventId alone is documented as not unique; attemptNumber changes with every redelivery."""
    object_id = _id_or(element, "objectId", subject.object_id)
    event, occurred = (exact_id(name, element.get(name)) for name in ("eventId", "occurredAt"))
    return ":".join((subject.account, _subscription_type(element), object_id, event, occurred))


def _property(element: Mapping[str, Json]) -> tuple[str, str | None]:
    value = value_text("propertyValue", element.get("propertyValue"))
    name = printable("propertyName", element.get("propertyName"))
    return name, None if value is None else storable(value)


def _author(element: Mapping[str, Json]) -> str | None:
    user = _USER.match(whole_text(element.get("sourceId")))
    return crm_user(SYSTEM, user[1]) if user else None


def _is_own(element: Mapping[str, Json], own_app_id: str) -> bool:
    """Only an integration's sourceId is an app id: the id of a workflow or an import may be the same number."""
    source = whole_text(element.get("sourceId"))
    return element.get("changeSource") == "INTEGRATION" and bool(source) and source == own_app_id
