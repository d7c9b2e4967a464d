"""HubSpot's batch upsert and batch read."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

from sandbox.clock import iso, now_ms
from sandbox.hubspot_errors import HubspotRefusal, invalid_input
from sandbox.hubspot_objects import Objects
from sandbox.hubspot_render import plain
from sandbox.hubspot_schema import ObjectType
from sandbox.hubspot_webhooks import Author
from sandbox.records import Records
from sandbox.wire import Answer, Json, json_answer

MOST = 100


@dataclass
class _Outcome:
    results: list[Json] = field(default_factory=list)
    errors: list[Json] = field(default_factory=list)

    def answered(self, started_ms: int) -> Answer:
        """200 for created records too: the official client reads 200 and 207 only."""
        body: Json = {"status": "COMPLETE", "results": self.results, "startedAt": iso(started_ms)}
        body["completedAt"] = iso(now_ms())
        if self.errors:
            body |= {"numErrors": len(self.errors), "errors": self.errors}
        return json_answer(body, 207 if self.errors else 200)


def inputs_of(body: Json) -> list[Json]:
    inputs = body.get("inputs")
    if not isinstance(inputs, list) or not inputs or not all(isinstance(one, dict) for one in inputs):
        raise invalid_input("Invalid input JSON: inputs must be a list of objects")
    if len(inputs) > MOST:
        raise invalid_input(f"The maximum batch size is {MOST}")
    return inputs


class Batches:
    """Inputs with an objectWriteTraceId fail one by one (207); without it the first failure refuses the batch."""

    def __init__(self, records: Records, objects: Objects) -> None:
        self._records = records
        self._objects = objects

    def upsert(self, kind: ObjectType, body: Json, author: Author) -> Answer:
        started, outcome = now_ms(), _Outcome()
        inputs = inputs_of(body)
        for one in inputs:
            self._one(kind, one, author, outcome)
        return outcome.answered(started)

    def read(self, kind: ObjectType, body: Json) -> Answer:
        started, outcome = now_ms(), _Outcome()
        known = self._objects.schema.known(kind)
        for one in inputs_of(body):
            try:
                found = self._objects.find(kind, str(one.get("id")), body.get("idProperty"))
                outcome.results.append(plain(found, body.get("properties", []), known))
            except HubspotRefusal as refusal:
                outcome.errors.append({**refusal.body, "context": {"ids": [str(one.get("id"))]}})
        return outcome.answered(started)

    def _one(self, kind: ObjectType, one: Json, author: Author, outcome: _Outcome) -> None:
        savepoint = f"s{uuid.uuid4().hex}"
        self._records.write(f"savepoint {savepoint}")
        try:
            outcome.results.append(self._upserted(kind, one, author))
        except HubspotRefusal as refusal:
            if "objectWriteTraceId" not in one:
                raise
            self._records.write(f"rollback to {savepoint}")
            outcome.errors.append({**refusal.body, "context": {"objectWriteTraceId": [one["objectWriteTraceId"]]}})
        self._records.write(f"release {savepoint}")

    def _upserted(self, kind: ObjectType, one: Json, author: Author) -> Json:
        key, id_property, properties = _upsert_input(one)
        existing = key if id_property is None else self._objects.id_of(kind, id_property, key)
        if existing:
            saved = self._objects.change(self._objects.find(kind, existing), properties, author)
        else:
            saved = self._objects.create(kind, {**properties, str(id_property): key}, (), author)
        names = [*properties, str(id_property)]
        return {**plain(saved, names, self._objects.schema.known(kind)), "new": not existing}


def _upsert_input(one: Json) -> tuple[str, str | None, dict[str, Any]]:
    properties = one.get("properties")
    if not isinstance(properties, dict) or not isinstance(one.get("id"), str) or not one["id"]:
        raise invalid_input("Invalid input JSON: an upsert input needs id and properties")
    return one["id"], one.get("idProperty"), properties
