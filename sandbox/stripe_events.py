"""Stripe's events about connected accounts: only where a URL is set for them."""

from __future__ import annotations

import time

from sandbox.records import Records
from sandbox.settings import Knobs
from sandbox.webhook_queue import queue
from sandbox.wire import Json

API_VERSION = "2026-10-28.endive"


class AccountEvents:
    """Queues events in the transaction of the change that they tell of."""

    def __init__(self, records: Records, knobs: Knobs) -> None:
        self._records = records
        self._knobs = knobs

    def updated(self, account: Json, key: str | None) -> None:
        """Stripe sends this type after a create too. `key`: the idempotency key of the request that caused it."""
        for url in self._knobs.now.stripe_webhook_urls:
            number = self._records.next_number("next_stripe_event", 1)
            queue(self._records, url, "stripe", _event(f"1SandboxEvent{number:08d}", account, key))


def _event(number: str, account: Json, key: str | None) -> Json:
    return {
        "id": f"evt_{number}",
        "object": "event",
        "api_version": API_VERSION,
        "created": int(time.time()),
        "type": "account.updated",
        "account": account["id"],
        "livemode": False,
        "pending_webhooks": 1,
        "request": {"id": f"req_{number}", "idempotency_key": key},
        "data": {"object": account},
    }
