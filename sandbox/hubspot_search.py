"""HubSpot's search: filter groups over an index that may lag behind the records."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from fnmatch import fnmatchcase

from sandbox.clock import now_ms
from sandbox.hubspot_errors import invalid_input
from sandbox.hubspot_objects import CrmObject, Objects
from sandbox.hubspot_schema import ObjectType
from sandbox.wire import Json

MOST = 200
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z\Z")


def _number(text: object) -> float | str:
    """Numbers compare as numbers, and moments as the milliseconds that a filter names them by."""
    try:
        return float(str(text))
    except ValueError:
        return _milliseconds(str(text))


def _milliseconds(text: str) -> float | str:
    try:
        return datetime.fromisoformat(text).timestamp() * 1000 if _MOMENT.match(text) else text
    except ValueError:
        return text


def _below(left: object, right: object) -> bool:
    first, second = _number(left), _number(right)
    if isinstance(first, float) and isinstance(second, float):
        return first < second
    return str(left) < str(right)


def _same(value: str, wanted: object) -> bool:
    return value.lower() == str(wanted).lower()


def _among(value: str, condition: Json) -> bool:
    return any(_same(value, wanted) for wanted in condition.get("values", []))


def _has_token(value: str, wanted: str) -> bool:
    """One word of the value, with `*` for any signs at its ends."""
    return any(fnmatchcase(word, wanted.lower()) for word in re.split(r"\W+", value.lower()))


Test = Callable[[str, Json], bool]
PRESENT: dict[str, Test] = {
    "EQ": lambda value, c: _same(value, c.get("value")),
    "IN": _among,
    "GT": lambda value, c: _below(c.get("value"), value),
    "GTE": lambda value, c: not _below(value, c.get("value")),
    "LT": lambda value, c: _below(value, c.get("value")),
    "LTE": lambda value, c: not _below(c.get("value"), value),
    "BETWEEN": lambda value, c: not _below(value, c.get("value")) and not _below(c.get("highValue"), value),
    "CONTAINS_TOKEN": lambda value, c: _has_token(value, str(c.get("value"))),
    "HAS_PROPERTY": lambda value, c: True,
}
NEGATED = {"NEQ": "EQ", "NOT_IN": "IN", "NOT_CONTAINS_TOKEN": "CONTAINS_TOKEN", "NOT_HAS_PROPERTY": "HAS_PROPERTY"}


def _fits(found: CrmObject, condition: Json) -> bool:
    operator = str(condition["operator"])
    value = found.value(str(condition["propertyName"]))
    test = PRESENT[NEGATED.get(operator, operator)]
    return (value is not None and test(value, condition)) != (operator in NEGATED)


def _groups(body: Json) -> list[list[Json]]:
    try:
        return [[dict(one) for one in group["filters"]] for group in body.get("filterGroups", [])]
    except (KeyError, TypeError, ValueError) as error:
        raise invalid_input("Invalid input JSON: filterGroups must be a list of objects with filters") from error


def _check(groups: list[list[Json]], known: frozenset[str]) -> None:
    for condition in (one for group in groups for one in group):
        if condition.get("operator") not in PRESENT.keys() | NEGATED.keys():
            raise invalid_input(f"Invalid input JSON: unknown operator {condition.get('operator')}")
        if condition.get("propertyName") not in known:
            raise invalid_input(f"There was a problem with the request: no property {condition.get('propertyName')}")


def _exact(objects: Objects, kind: ObjectType, groups: list[list[Json]]) -> str | None:
    """Id asked for by one EQ filter on a unique property: found by key instead of a scan."""
    conditions = groups[0] if len(groups) == 1 else []
    unique = objects.schema.unique(kind)
    keyed = [c for c in conditions if c["operator"] == "EQ" and c["propertyName"] in unique]
    return objects.id_of(kind, keyed[0]["propertyName"], str(keyed[0].get("value"))) if keyed else None


def search(objects: Objects, kind: ObjectType, body: Json, lag_seconds: float) -> list[CrmObject]:
    """All hits, oldest first; records changed less than the lag ago are not seen. Raises HubSpot's 400."""
    groups = _groups(body)
    _check(groups, objects.schema.known(kind))
    visible = objects.listed(
        kind, changed_before_ms=now_ms() - int(lag_seconds * 1000), only_id=_exact(objects, kind, groups)
    )
    hits = [found for found in visible if not groups or any(all(_fits(found, c) for c in group) for group in groups)]
    return _sorted(hits, body.get("sorts") or [])


def _sorted(hits: list[CrmObject], sorts: list[object]) -> list[CrmObject]:
    for sort in reversed(sorts):
        name, descending = _order(sort)
        hits = sorted(hits, key=lambda found, name=name: str(found.value(name) or ""), reverse=descending)  # type: ignore[misc]
    return hits


def _order(sort: object) -> tuple[str, bool]:
    if isinstance(sort, dict):
        return str(sort.get("propertyName")), sort.get("direction") == "DESCENDING"
    return str(sort).lstrip("-"), str(sort).startswith("-")
