"""HubSpot's JSON for records. Properties are opt-in: what is not asked for is not answered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sandbox.clock import iso
from sandbox.hubspot_associations import rendered
from sandbox.hubspot_errors import invalid_input
from sandbox.hubspot_objects import CrmObject, Objects
from sandbox.hubspot_schema import object_type
from sandbox.wire import Call, Json


def plain(found: CrmObject, names: Iterable[str], known: frozenset[str]) -> Json:
    """SimplePublicObject with the system properties and those of `names` that exist."""
    kind = found.kind
    wanted = dict.fromkeys(["hs_object_id", kind.created, kind.modified, *(name for name in names if name in known)])
    return {
        "id": found.id,
        "properties": {name: found.value(name) for name in wanted},
        "createdAt": iso(found.created_ms),
        "updatedAt": iso(found.updated_ms),
        "archived": found.archived_ms is not None,
    }


def detailed(objects: Objects, found: CrmObject, call: Call) -> Json:
    """As asked for by `properties`, `propertiesWithHistory` and `associations` of a GET."""
    known = objects.schema.known(found.kind)
    with_history = [name for name in call.listed("propertiesWithHistory") if name in known]
    answer = plain(found, [*call.listed("properties"), *with_history], known)
    if with_history:
        answer["propertiesWithHistory"] = {name: found.history.get(name, []) for name in with_history}
    links = _links(objects, found, call.listed("associations"))
    return {**answer, "associations": links} if links else answer


def _links(objects: Objects, found: CrmObject, ends: Sequence[str]) -> Json:
    links = {end: objects.associations.of(found.kind, found.id, object_type(end)) for end in ends}
    return {end: rendered(linked) for end, linked in links.items() if linked}


def page(items: Sequence[Any], after_text: object, limit_text: object, most: int) -> tuple[Sequence[Any], Json]:
    """One page and the `paging` field of the answer. Raises HubSpot's 400 for bad limits and cursors."""
    try:
        after, limit = int(str(after_text or 0)), int(str(limit_text or 10))
    except ValueError as error:
        raise invalid_input("Invalid input: limit and after must be numbers") from error
    if not 0 < limit <= most:
        raise invalid_input(f"Invalid input: limit must be between 1 and {most}")
    more = after + limit < len(items)
    return items[after : after + limit], {"paging": {"next": {"after": str(after + limit)}}} if more else {}
