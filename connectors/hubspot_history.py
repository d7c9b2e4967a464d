"""Who made the current value of a property, from HubSpot's property history. Pure.

Entry fields: `ValueWithTimestamp` of HubSpot's OpenAPI collection (value, timestamp, sourceType, sourceId,
updatedByUserId).
"""

from __future__ import annotations

import re

from connectors.classify import Object, child, children, text
from connectors.hubspot_records import SYSTEM, as_text
from domain.identity import crm_user

_USER = re.compile(r"userId:([0-9]+)\Z")
_INTEGRATIONS = ("INTEGRATION", "API")


def makers(record: Object, own_app: str) -> dict[str, str]:
    """Outside identity of the author of each property's newest entry; what our own app wrote has no maker."""
    histories = child(record, "propertiesWithHistory")
    newest = {name: _newest(histories, name) for name in histories}
    found = {name: _maker(entry, own_app) for name, entry in newest.items() if entry is not None}
    return {name: maker for name, maker in found.items() if maker is not None}


def values_since(record: Object, name: str, moment: str) -> tuple[str, ...]:
    """Values that a property took at or after this ISO time."""
    entries = children(child(record, "propertiesWithHistory"), name)
    return tuple(value for value, at in map(_value_at, entries) if value and at >= moment)


def values(record: Object, name: str) -> frozenset[str]:
    """Every value that a property had, as far back as HubSpot keeps them."""
    return frozenset(values_since(record, name, ""))


def _value_at(entry: Object) -> tuple[str | None, str]:
    return as_text(entry.get("value")), text(entry, "timestamp") or ""


def _newest(histories: Object, name: str) -> Object | None:
    return max(children(histories, name), key=lambda entry: text(entry, "timestamp") or "", default=None)


def _maker(entry: Object, own_app: str) -> str | None:
    """An integration first: an app that acts for the user who installed it is still the app."""
    source, source_id = text(entry, "sourceType") or "UNKNOWN", as_text(entry.get("sourceId")) or ""
    if source in _INTEGRATIONS:
        return None if source_id == own_app else crm_user(SYSTEM, f"app-{source_id}")
    named = _USER.match(source_id)
    user = as_text(entry.get("updatedByUserId")) or (named and named[1])
    return crm_user(SYSTEM, user or f"source-{source}")
