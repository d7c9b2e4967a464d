"""Associations between HubSpot records, kept in both directions."""

from __future__ import annotations

from collections.abc import Iterable

from sandbox.hubspot_errors import invalid_input
from sandbox.hubspot_schema import ASSOCIATION_TYPES, PLAIN_OF_PRIMARY, AssociationType, ObjectType
from sandbox.records import Records
from sandbox.wire import Json


class Associations:
    """Every method expects an open transaction."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def add_all(self, kind: ObjectType, object_id: str, links: Iterable[Json]) -> None:
        """Links as in a create request. Raises HubSpot's 400 for unknown types, wrong ends and missing records."""
        for link in links:
            target, type_ids = _parsed(link)
            for type_id in type_ids:
                self.add(_association(kind, type_id), object_id, target)

    def add(self, association: AssociationType, start_id: str, end_id: str) -> None:
        self._require(association.end, end_id)
        self._write(association, start_id, end_id)
        plain = PLAIN_OF_PRIMARY.get(association.type_id)
        if plain:
            self._write(ASSOCIATION_TYPES[plain], start_id, end_id)

    def of(self, kind: ObjectType, object_id: str, end: ObjectType) -> list[tuple[str, AssociationType]]:
        """(id of the other record, association type), primary first."""
        rows = self._records.rows(
            "select to_id, type_id from associations where from_type = ? and from_id = ? and to_type = ? "
            "order by type_id, rowid",
            kind.name,
            object_id,
            end.name,
        )
        return [(row["to_id"], ASSOCIATION_TYPES[row["type_id"]]) for row in rows]

    def repoint(self, kind: ObjectType, old_ids: Iterable[str], new_id: str) -> None:
        for old_id in (old for old in old_ids if old != new_id):
            for side in ("from", "to"):
                self._records.write(
                    f"update or ignore associations set {side}_id = ? where {side}_type = ? and {side}_id = ?",
                    new_id,
                    kind.name,
                    old_id,
                )
                self._records.write(
                    f"delete from associations where {side}_type = ? and {side}_id = ?", kind.name, old_id
                )

    def _write(self, association: AssociationType, start_id: str, end_id: str) -> None:
        start, end = association.start.name, association.end.name
        insert = "insert or ignore into associations values (?, ?, ?, ?, ?)"
        self._records.write(insert, start, start_id, end, end_id, association.type_id)
        self._records.write(insert, end, end_id, start, start_id, association.inverse)

    def _require(self, kind: ObjectType, object_id: str) -> None:
        found = self._records.row(
            "select 1 from objects where type = ? and id = ? and archived_ms is null", kind.name, object_id
        )
        if found is None:
            raise invalid_input(f"No {kind.singular} with id {object_id} exists for the association")


def _parsed(link: Json) -> tuple[str, list[int]]:
    try:
        return str(link["to"]["id"]), [kind["associationTypeId"] for kind in link["types"]]
    except (KeyError, TypeError) as error:
        raise invalid_input("Invalid input JSON: associations need to.id and types[].associationTypeId") from error


def _association(kind: ObjectType, type_id: int) -> AssociationType:
    association = ASSOCIATION_TYPES.get(type_id)
    if association is None or association.start is not kind:
        raise invalid_input(f"Association type {type_id} does not start at {kind.name}")
    return association


def rendered(links: list[tuple[str, AssociationType]]) -> Json:
    return {"results": [{"id": other, "type": association.name} for other, association in links]}
