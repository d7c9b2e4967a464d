"""HubSpot's owners: CRM users to whom records can be assigned."""

from __future__ import annotations

import json

from sandbox.clock import iso, now_ms
from sandbox.hubspot_errors import not_found
from sandbox.records import Records
from sandbox.wire import Json

FIRST_OWNER_ID = 61000001


class Owners:
    """Every method expects an open transaction."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def add(self, given: Json) -> Json:
        """`id`, `userId`, `email`, `firstName`, `lastName` may be given; an owner with that id is replaced."""
        owner_id = str(given.get("id") or self._records.next_number("next_owner_id", FIRST_OWNER_ID))
        moment = iso(now_ms())
        owner = {
            "id": owner_id,
            "email": f"owner{owner_id}@example.test",
            "type": "PERSON",
            "firstName": "Owner",
            "lastName": owner_id,
            "userId": int(owner_id),
            "createdAt": moment,
            "updatedAt": moment,
            "archived": False,
            **given,
        }
        owner["id"], owner["userIdIncludingInactive"] = owner_id, owner["userId"]
        self._records.write(
            "insert or replace into owners values (?, ?, ?)", owner_id, owner["userId"], json.dumps(owner)
        )
        return owner

    def find(self, key: str, *, by_user: bool) -> Json:
        """Raises HubSpot's 404."""
        column = "user_id" if by_user else "id"
        row = self._records.row(f"select body from owners where {column} = ?", key)
        if row is None:
            raise not_found()
        owner: Json = json.loads(row["body"])
        return owner

    def listed(self, email: str | None = None) -> list[Json]:
        owners = [json.loads(row["body"]) for row in self._records.rows("select body from owners order by id")]
        return [owner for owner in owners if email in (None, owner["email"])]
