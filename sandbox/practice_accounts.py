"""The practice provider's accounts. Bank account numbers are never kept: only their last four characters."""

from __future__ import annotations

import json
from typing import Any

from sandbox.clock import iso
from sandbox.practice_clock import PracticeClock
from sandbox.practice_errors import PracticeRefusal, invalid
from sandbox.practice_modes import Mode
from sandbox.records import Records, Row
from sandbox.stripe_accounts import fresh_id
from sandbox.wire import Json

REQUIRED = ("reference", "name", "country", "email")
OPTIONAL = ("legal_form", "bank_holder", "iban", "run_id")
MOST = 20


class PracticeAccounts:
    """Every method expects an open transaction."""

    def __init__(self, records: Records, clock: PracticeClock) -> None:
        self._records = records
        self._clock = clock

    def under(self, mode: str, reference: str) -> Json | None:
        """The account with this reference, hidden or not."""
        row = self._records.row(
            "select * from practice_accounts where mode = ? and reference = ? order by seq", mode, reference
        )
        return None if row is None else shown(row)

    def create(self, mode: str, given: Json) -> Json:
        account_id, now = fresh_id("pa"), self._clock.now_ms()
        self._records.write(
            "insert into practice_accounts (mode, id, reference, body, created_ms, visible_ms) "
            "values (?1, ?2, ?3, ?4, ?5, ?5)",
            mode,
            account_id,
            given["reference"],
            json.dumps(_kept(given)),
            now,
        )
        return self._by_id(mode, account_id)

    def overwrite(self, mode: str, account_id: str, given: Json) -> Json:
        self._records.write("update practice_accounts set body = ? where id = ?", json.dumps(_kept(given)), account_id)
        return self._by_id(mode, account_id)

    def hide(self, account_id: str, seconds: float) -> None:
        """Not to be read or listed until then."""
        until = self._clock.now_ms() + int(seconds * 1000)
        self._records.write("update practice_accounts set visible_ms = ? where id = ?", until, account_id)

    def find(self, mode: str, account_id: str) -> Json:
        """Raises 404 for an unknown or hidden account."""
        row = self._row(mode, account_id)
        if row is None or row["visible_ms"] > self._clock.now_ms():
            raise PracticeRefusal(404, "not_found")
        return shown(row)

    def page(self, name: str, mode: Mode, query: dict[str, str]) -> Json:
        """Oldest first. Raises 400 for an unknown filter or cursor."""
        conditions, values = self._conditions(name, mode, query)
        limit = min(int(query.get("limit", 10)), MOST)
        rows = self._records.rows(
            f"select * from practice_accounts where {' and '.join(conditions)} order by seq limit {limit + 1}", *values
        )
        return {"object": "list", "data": [shown(row) for row in rows[:limit]], "has_more": len(rows) > limit}

    def listed(self, mode: str) -> list[Json]:
        """All of them in full, hidden ones included."""
        rows = self._records.rows("select * from practice_accounts where mode = ? order by seq", mode)
        return [{**shown(row), "visibleAt": iso(row["visible_ms"])} for row in rows]

    def _conditions(self, name: str, mode: Mode, query: dict[str, str]) -> tuple[list[str], list[Any]]:
        """Only modes that look up by reference know that filter, and only an index lags."""
        filters = {"after": "seq > ?", "created_from": "created_ms >= ?", "limit": ""}
        if mode.look_up != "list":
            filters["reference"] = "reference = ?"
        unknown = sorted(query.keys() - filters.keys())
        if unknown:
            raise invalid(unknown[0], "No such filter")
        now = self._clock.now_ms()
        latest = now - int(self._clock.lag() * 1000) if mode.look_up == "index" else now
        given = [(filters[key], self._value(name, key, text)) for key, text in query.items() if key != "limit"]
        fixed = [("mode = ?", name), ("visible_ms <= ?", latest)]
        return [condition for condition, _ in fixed + given], [value for _, value in fixed + given]

    def _value(self, name: str, key: str, text: str) -> object:
        if key == "created_from":
            return int(text) * 1000
        if key != "after":
            return text
        row = self._row(name, text)
        if row is None:
            raise invalid("after", "No such account")
        return row["seq"]

    def _row(self, mode: str, account_id: str) -> Row | None:
        return self._records.row("select * from practice_accounts where mode = ? and id = ?", mode, account_id)

    def _by_id(self, mode: str, account_id: str) -> Json:
        row = self._row(mode, account_id)
        assert row is not None
        return shown(row)


def checked(given: Json | None) -> Json:
    """The body of a create. Raises 400."""
    if given is None:
        raise invalid("body", "The body must be a JSON object")
    for name, value in given.items():
        if name not in REQUIRED + OPTIONAL or not isinstance(value, str) or not value:
            raise invalid(name, "Unknown, empty or not text")
    missing = [name for name in REQUIRED if name not in given]
    if missing or "@" not in given["email"]:
        raise invalid((missing or ["email"])[0], "Missing or not an address")
    return given


def shown(row: Row) -> Json:
    return {"id": row["id"], "object": "account", "created": iso(row["created_ms"]), **json.loads(row["body"])}


def _kept(given: Json) -> Json:
    plain = {name: value for name, value in given.items() if name != "iban"}
    return {**plain, "iban_last4": given["iban"][-4:]} if "iban" in given else plain
