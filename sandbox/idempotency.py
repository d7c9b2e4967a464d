"""Stripe's idempotency keys: parameters compared, started work stored with its status and body, failures included.

Source: docs.stripe.com/api/idempotent_requests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from sandbox.clock import now_ms
from sandbox.records import Records, Row
from sandbox.settings import Knobs
from sandbox.stripe_errors import StripeRefusal, other_endpoint, other_parameters
from sandbox.wire import Answer, Json, json_answer

LONGEST_KEY = 255


class IdempotencyKeys:
    """Stored answers live in the data file; the marks of running requests die with the process, as they should."""

    def __init__(self, records: Records, knobs: Knobs) -> None:
        self._records = records
        self._knobs = knobs
        self._running: set[str] = set()

    @contextmanager
    def running(self, key: str | None) -> Iterator[bool]:
        """Yields False while another request with the key is under way."""
        if key is None or key in self._running:
            yield key is None
            return
        self._running.add(key)
        try:
            yield True
        finally:
            self._running.discard(key)

    def stored(self, key: str, endpoint: str, parameters: Json) -> Answer | None:
        """The answer to replay. Raises Stripe's 400 for a key used with another endpoint or other parameters."""
        if len(key) > LONGEST_KEY:
            raise StripeRefusal(400, f"Idempotency keys may be at most {LONGEST_KEY} characters long")
        row = self._kept(key)
        if row is None:
            return None
        if row["endpoint"] != endpoint:
            raise other_endpoint(key, row["endpoint"])
        if row["parameters"] != _canonical(parameters):
            raise other_parameters(key)
        return json_answer(json.loads(row["body"]), row["status"]).with_headers(("Idempotent-Replayed", "true"))

    def store(self, key: str, endpoint: str, parameters: Json, answer: Answer) -> None:
        """Keeps the answer, in place of an earlier one of the same key."""
        self._records.write(
            "insert or replace into idempotency_keys values (?, ?, ?, ?, ?, ?)",
            key,
            endpoint,
            _canonical(parameters),
            answer.status,
            answer.body.decode(),
            now_ms(),
        )

    def _kept(self, key: str) -> Row | None:
        oldest = now_ms() - int(self._knobs.now.idempotency_retention * 1000)
        self._records.write("delete from idempotency_keys where key = ? and started_ms <= ?", key, oldest)
        return self._records.row("select * from idempotency_keys where key = ?", key)


def _canonical(parameters: Json) -> str:
    return json.dumps(parameters, sort_keys=True)
