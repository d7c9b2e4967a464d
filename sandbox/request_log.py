"""The log of received requests: written on arrival, completed with the answer. Credentials are left out."""

from __future__ import annotations

import json
from typing import Any

from sandbox.clock import iso, now_ms
from sandbox.records import Records, Row
from sandbox.wire import Call

_KEPT_HEADERS = frozenset({"content-type", "idempotency-key", "stripe-version", "user-agent", "x-sandbox-actor"})
_KEPT_REQUESTS = 200_000


class RequestLog:
    """Keeps the newest 200,000 requests."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def received(self, call: Call, fault: str | None) -> int:
        """Id of the entry, in the order of arrival."""
        number = self._records.write(
            "insert into requests (method, path, query, headers, body, idempotency_key, received_ms, fault) "
            "values (?, ?, ?, ?, ?, ?, ?, ?)",
            call.method,
            call.path,
            json.dumps(call.query),
            json.dumps({name: value for name, value in call.headers.items() if name in _KEPT_HEADERS}),
            call.text(),
            call.header("idempotency-key"),
            now_ms(),
            fault,
        )
        if number % 1000 == 0:
            self._records.write("delete from requests where id <= ?", number - _KEPT_REQUESTS)
        return number

    def answered(self, number: int, status: int | None, *, executed: bool) -> None:
        """Status None: the connection was closed without an answer."""
        self._records.write(
            "update requests set status = ?, executed = ?, answered_ms = ? where id = ?",
            status,
            int(executed),
            now_ms(),
            number,
        )

    def listed(self, key: str | None, path_prefix: str | None, method: str | None, limit: int) -> list[dict[str, Any]]:
        """Oldest first, the newest `limit` of them. `key` is an idempotency key or any text of the body."""
        rows = self._records.rows(
            "select * from (select * from requests where (?1 is null or idempotency_key = ?1 or instr(body, ?1) > 0) "
            "and (?2 is null or substr(path, 1, length(?2)) = ?2) and (?3 is null or method = ?3) "
            "order by id desc limit ?4) order by id",
            key,
            path_prefix,
            method,
            limit,
        )
        return [_entry(row) for row in rows]


def _entry(row: Row) -> dict[str, Any]:
    return {
        "id": row["id"],
        "method": row["method"],
        "path": row["path"],
        "query": json.loads(row["query"]),
        "headers": json.loads(row["headers"]),
        "body": row["body"],
        "idempotencyKey": row["idempotency_key"],
        "fault": row["fault"],
        "status": row["status"],
        "executed": bool(row["executed"]),
        "receivedAt": iso(row["received_ms"]),
        "answeredAt": None if row["answered_ms"] is None else iso(row["answered_ms"]),
    }
