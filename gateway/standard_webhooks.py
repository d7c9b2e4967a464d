"""Partner requests sent as Standard Webhooks: the body carries the inputs, since there is no record to read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from domain.canonical import Json, parse
from domain.deliveries import Change, Delivery, Quarantined
from domain.errors import InvalidInput
from domain.identity import SubjectRef, crm_user
from gateway.elements import fields_of, is_storable, printable, value_text, whole_text
from gateway.signatures import is_message_id

SYSTEM = "standard-webhooks"

CHANGES = {"partner_request.submitted": Change.SUBMITTED, "partner_request.amended": Change.PROPERTY}
# Python's own reader takes dates, week numbers, times without offset and text after the Z as well.
_RFC_3339 = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})\Z")
_FIELD = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")


def parse_standard_webhook(webhook_id: str, body: bytes) -> list[Delivery | Quarantined]:
    """The one event of a body; an empty array is none. Raises NotJson, or InvalidInput for an unusable webhook-id.

    `webhook_id` is the same over all redeliveries, so it is the key of a quarantined event as well.
    """
    if not is_message_id(webhook_id):
        raise InvalidInput("webhook-id", "1 to 255 printable ASCII characters without blanks")
    event = parse(body)
    return [] if event == [] else [_read(webhook_id, event)]


def _read(webhook_id: str, event: Json) -> Delivery | Quarantined:
    try:
        return _delivery(webhook_id, fields_of("body", event))
    except InvalidInput as problem:
        return Quarantined(0, webhook_id, problem.message)


def _delivery(webhook_id: str, event: Mapping[str, Json]) -> Delivery:
    data = fields_of("data", event.get("data"))
    return Delivery(
        index=0,
        dedupe_key=webhook_id,
        change=_change(event),
        subject=SubjectRef(SYSTEM, "default", "request", printable("data.id", data.get("id"))),
        occurred_at=_occurred_at(event),
        by=_author(data),
        inputs=_inputs(data),
        marker=webhook_id,
    )


def _change(event: Mapping[str, Json]) -> Change:
    named = whole_text(event.get("type"))
    if named not in CHANGES:
        raise InvalidInput("type", f"one of {', '.join(CHANGES)}")
    return CHANGES[named]


def _occurred_at(event: Mapping[str, Json]) -> datetime:
    """A time without offset is refused: every reader would take it for another instant."""
    stamp = whole_text(event.get("timestamp"))
    try:
        return datetime.fromisoformat(stamp if _RFC_3339.match(stamp) else "").astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidInput("timestamp", "a time as in RFC 3339, with its offset") from None


def _author(data: Mapping[str, Json]) -> str | None:
    """An author that cannot be read is not dropped: four eyes rest on it."""
    given = data.get("requested_by")
    return None if given is None else crm_user(SYSTEM, printable("data.requested_by", given))


def _inputs(data: Mapping[str, Json]) -> Mapping[str, str | None]:
    given = fields_of("data.inputs", data.get("inputs"))
    if not all(map(_FIELD.match, given)):
        raise InvalidInput("data.inputs", "fields named with 1 to 64 of A-Z a-z 0-9 _ . -")
    return {name: _input(f"data.inputs.{name}", value) for name, value in given.items()}


def _input(name: str, value: Json) -> str | None:
    """Never repaired: a person would approve, and a provider receive, what nobody sent."""
    text = None if isinstance(value, bool) else value_text(name, value)
    if isinstance(value, bool) or (text is not None and not is_storable(text)):
        raise InvalidInput(name, "text without NUL or half surrogate pairs, a number or null")
    return text
