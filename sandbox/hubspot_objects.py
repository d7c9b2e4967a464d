"""HubSpot's CRM objects: create, change, archive, merge, with property history and unique values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sandbox.clock import iso, now_ms
from sandbox.hubspot_associations import Associations
from sandbox.hubspot_errors import (
    contact_exists,
    invalid_input,
    invalid_properties,
    missing_properties,
    not_found,
    read_only_property,
    unknown_property,
    value_taken,
)
from sandbox.hubspot_schema import CONTACTS, MERGED_IDS, ObjectType, Properties
from sandbox.hubspot_webhooks import Author, Events, about
from sandbox.records import Records, Row
from sandbox.wire import Json

FIRST_OBJECT_ID = 30100200300
Values = dict[str, str | None]


@dataclass(frozen=True)
class CrmObject:
    """One stored record; times are epoch milliseconds, history is newest first."""

    kind: ObjectType
    id: str
    properties: Values
    history: dict[str, list[Json]]
    created_ms: int
    updated_ms: int
    archived_ms: int | None = None

    def value(self, name: str) -> str | None:
        system = {
            "hs_object_id": self.id,
            self.kind.created: iso(self.created_ms),
            self.kind.modified: iso(self.updated_ms),
        }
        return system[name] if name in system else self.properties.get(name)


def loaded(kind: ObjectType, row: Row) -> CrmObject:
    return CrmObject(
        kind,
        row["id"],
        json.loads(row["properties"]),
        json.loads(row["history"]),
        row["created_ms"],
        row["updated_ms"],
        row["archived_ms"],
    )


def as_text(value: object) -> str | None:
    """HubSpot keeps every value as text; an empty text clears the property. Lone surrogates become question marks."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return str(value).lower()
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode(errors="replace").decode()


def history_entry(value: str | None, moment_ms: int, author: Author) -> Json:
    entry: Json = {
        "value": value or "",
        "timestamp": iso(moment_ms),
        "sourceType": author.source_type,
        "sourceId": author.source_id,
    }
    return entry if author.user_id is None else {**entry, "updatedByUserId": author.user_id}


class Objects:
    """The records of all object types. Every method expects an open transaction."""

    def __init__(self, records: Records, events: Events, portal_id: int) -> None:
        self._records = records
        self._events = events
        self._portal_id = portal_id
        self.schema = Properties(records)
        self.associations = Associations(records)

    def find(self, kind: ObjectType, key: str, id_property: str | None = None) -> CrmObject:
        """By id or by a unique property. Raises HubSpot's 404, and its 400 for a property that is not unique."""
        key = key if id_property in (None, "hs_object_id") else self.id_of(kind, str(id_property), key)
        row = self._row(kind, key)
        if row is None or row["archived_ms"] is not None:
            raise not_found()
        return loaded(kind, row)

    def id_of(self, kind: ObjectType, id_property: str, value: str) -> str:
        """Id of the record that holds a unique value, empty if none does."""
        if id_property not in self.schema.unique(kind):
            raise invalid_input(f"idProperty {id_property} is not a unique property of {kind.name}")
        return self._holder(kind, id_property, self._normal(kind, id_property, value) or "") or ""

    def create(self, kind: ObjectType, given: Mapping[str, Any], links: Iterable[Json], author: Author) -> CrmObject:
        missing = sorted(name for name in kind.required if not given.get(name))
        if missing:
            raise missing_properties(kind.singular, missing)
        moment = now_ms()
        number = self._records.next_number("next_object_id", FIRST_OBJECT_ID)
        made = CrmObject(kind, str(number), {}, {}, moment, moment)
        self._records.write(
            "insert into objects (type, id, properties, history, created_ms, updated_ms) "
            "values (?, ?, '{}', '{}', ?, ?)",
            kind.name,
            made.id,
            moment,
            moment,
        )
        self._events.emit("object.creation", {**about(made.id, kind.type_id, author), "changeFlag": "NEW"})
        made = self.change(made, given, author)
        self.associations.add_all(kind, made.id, links)
        return made

    def change(self, found: CrmObject, given: Mapping[str, Any], author: Author) -> CrmObject:
        """Writes what differs; equal values leave no trace. Raises HubSpot's 400 and 409."""
        values = self._checked(found.kind, given)
        changed = {name: value for name, value in values.items() if value != found.properties.get(name)}
        if not changed:
            return found
        moment = now_ms()
        self._claim(found, changed)
        entries = {name: history_entry(value, moment, author) for name, value in changed.items()}
        history = {**found.history, **{name: [entry, *found.history.get(name, [])] for name, entry in entries.items()}}
        saved = replace(found, properties={**found.properties, **changed}, history=history, updated_ms=moment)
        self._save(saved)
        for name, value in changed.items():
            self._events.property_changed(about(found.id, found.kind.type_id, author), name, value)
        return saved

    def archive(self, found: CrmObject, author: Author) -> None:
        self._retire(found)
        self._events.emit("object.deletion", about(found.id, found.kind.type_id, author))

    def merge(self, primary: CrmObject, other: CrmObject, author: Author, *, new_id: bool) -> CrmObject:
        """Values of the primary win; the survivor has a new id or keeps the primary's."""
        moved = {k: v for k, v in other.properties.items() if v and k != MERGED_IDS and not primary.properties.get(k)}
        self._retire(other)
        survivor = self._successor(primary) if new_id else primary
        self.associations.repoint(primary.kind, (primary.id, other.id), survivor.id)
        merged = self._remembering(self.change(survivor, moved, author), (primary, other))
        self._events.emit(
            "object.merge",
            {
                **about(primary.id, primary.kind.type_id, author),
                "primaryObjectId": int(primary.id),
                "mergedObjectIds": [int(other.id)],
                "newObjectId": int(merged.id),
                "numberOfPropertiesMoved": len(moved),
            },
        )
        return merged

    def _remembering(self, merged: CrmObject, sources: tuple[CrmObject, ...]) -> CrmObject:
        """With the ids of all records that went into it, as HubSpot lists them."""
        earlier = [one for source in sources for one in (source.properties.get(MERGED_IDS) or "").split(";") if one]
        ids = dict.fromkeys([*earlier, *(source.id for source in sources if source.id != merged.id)])
        saved = replace(merged, properties={**merged.properties, MERGED_IDS: ";".join(ids)}, updated_ms=now_ms())
        self._save(saved)
        return saved

    def listed(
        self, kind: ObjectType, *, changed_before_ms: int | None = None, only_id: str | None = None
    ) -> list[CrmObject]:
        """Records that are not archived, oldest first."""
        newest = now_ms() if changed_before_ms is None else changed_before_ms
        if only_id is not None:
            row = self._row(kind, only_id)
            rows = [row] if row and row["archived_ms"] is None and row["updated_ms"] <= newest else []
        else:
            rows = self._records.rows(
                "select * from objects where type = ? and archived_ms is null and updated_ms <= ? order by seq",
                kind.name,
                newest,
            )
        return [loaded(kind, row) for row in rows]

    def _successor(self, primary: CrmObject) -> CrmObject:
        self._retire(primary)
        survivor = replace(primary, id=str(self._records.next_number("next_object_id", FIRST_OBJECT_ID)))
        self._records.write(
            "insert into objects (type, id, properties, history, created_ms, updated_ms) "
            "values (?, ?, '{}', '{}', ?, ?)",
            primary.kind.name,
            survivor.id,
            primary.created_ms,
            now_ms(),
        )
        self._claim(survivor, survivor.properties)
        self._save(replace(survivor, updated_ms=now_ms()))
        return survivor

    def _retire(self, found: CrmObject) -> None:
        self._records.write(
            "update objects set archived_ms = ? where type = ? and id = ?", now_ms(), found.kind.name, found.id
        )
        self._records.write("delete from unique_values where type = ? and id = ?", found.kind.name, found.id)

    def _checked(self, kind: ObjectType, given: Mapping[str, Any]) -> Values:
        known = self.schema.known(kind)
        problems = [unknown_property(name, self._portal_id) for name in given if name not in known]
        problems += [read_only_property(name) for name in given if name in kind.read_only]
        if problems:
            raise invalid_properties(problems)
        return {name: self._normal(kind, name, value) for name, value in given.items()}

    def _normal(self, kind: ObjectType, name: str, value: object) -> str | None:
        text = as_text(value)
        return text.lower() if text and kind is CONTACTS and name == "email" else text

    def _claim(self, found: CrmObject, values: Values) -> None:
        for name in self.schema.unique(found.kind) & values.keys():
            value = values[name]
            holder = self._holder(found.kind, name, value) if value else None
            if value and holder not in (None, found.id):
                raise _conflict(found.kind, name, value, str(holder))
            self._records.write(
                "delete from unique_values where type = ? and property = ? and id = ?", found.kind.name, name, found.id
            )
            if value:
                self._records.write(
                    "insert into unique_values values (?, ?, ?, ?)", found.kind.name, name, value, found.id
                )

    def _holder(self, kind: ObjectType, name: str, value: str) -> str | None:
        row = self._records.row(
            "select id from unique_values where type = ? and property = ? and value = ?", kind.name, name, value
        )
        return None if row is None else str(row["id"])

    def _row(self, kind: ObjectType, object_id: str) -> Row | None:
        return self._records.row("select * from objects where type = ? and id = ?", kind.name, object_id)

    def _save(self, saved: CrmObject) -> None:
        self._records.write(
            "update objects set properties = ?, history = ?, updated_ms = ? where type = ? and id = ?",
            json.dumps(saved.properties),
            json.dumps(saved.history),
            saved.updated_ms,
            saved.kind.name,
            saved.id,
        )


def _conflict(kind: ObjectType, name: str, value: str, holder: str) -> Exception:
    if kind is CONTACTS and name == "email":
        return contact_exists(holder)
    return invalid_properties([value_taken(name, value, holder)])
