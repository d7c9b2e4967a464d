"""The durable queue of webhooks, delivered with retries and signed as their sender signs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sqlite3
from collections.abc import Callable, Mapping
from typing import Literal

import httpx

from sandbox.clock import now_ms
from sandbox.hubspot_signature import signed_batch
from sandbox.records import Records, Row
from sandbox.settings import Adjustable, Knobs
from sandbox.standard_webhook import signed_message
from sandbox.stripe_signature import signed_event
from sandbox.wire import Json

Scheme = Literal["hubspot", "standard", "stripe"]
BATCH: Mapping[str, int] = {"hubspot": 100, "standard": 1, "stripe": 1}
log = logging.getLogger(__name__)


def queue(records: Records, url: str, scheme: Scheme, event: Json) -> None:
    """In the caller's transaction."""
    insert = "insert into webhooks (url, scheme, event, due_ms) values (?, ?, ?, ?)"
    records.write(insert, url, scheme, json.dumps(event), now_ms())


class Delivery:
    """Sends due events, HubSpot's up to 100 in a POST; anything but 2xx is tried again after a growing gap."""

    def __init__(self, records: Records, knobs: Knobs, before_each_round: Callable[[], None]) -> None:
        self._before_each_round = before_each_round
        self._records = records
        self._knobs = knobs

    async def run(self) -> None:
        """Until cancelled."""
        async with httpx.AsyncClient(trust_env=False) as client:
            while True:
                await asyncio.sleep(0.02)
                try:
                    await self._round(client)
                except sqlite3.Error:
                    # the events stay queued; the next round sends them
                    log.exception("webhook round failed")

    async def _round(self, client: httpx.AsyncClient) -> None:
        self._before_each_round()
        if self._knobs.now.webhook_hold:
            return
        targets = self._records.rows(
            "select distinct url, scheme from webhooks where state = 'pending' and due_ms <= ?", now_ms()
        )
        await asyncio.gather(*(self._batch(client, row["url"], row["scheme"]) for row in targets))

    async def _batch(self, client: httpx.AsyncClient, url: str, scheme: str) -> None:
        knobs = self._knobs.now
        order = "desc" if knobs.webhook_reorder else "asc"
        rows = self._records.rows(
            "select * from webhooks where state = 'pending' and url = ? and scheme = ? and due_ms <= ? "
            f"order by seq {order} limit {BATCH[scheme]}",
            url,
            scheme,
            now_ms(),
        )
        delivered = await self._sent(client, url, rows)
        if knobs.webhook_duplicate:
            await self._sent(client, url, rows)
        with self._records.transaction():
            for row in rows:
                self._settle(row, delivered, knobs)

    async def _sent(self, client: httpx.AsyncClient, url: str, rows: list[Row]) -> bool:
        body, headers = _signed(self._knobs.now, url, rows)
        with contextlib.suppress(httpx.HTTPError, httpx.InvalidURL):
            sent = await client.post(url, content=body, headers=headers, timeout=self._knobs.now.webhook_timeout)
            return sent.is_success
        return False

    def _settle(self, row: Row, delivered: bool, knobs: Adjustable) -> None:
        tried = row["attempt"] + 1
        if delivered:
            state, due = "delivered", row["due_ms"]
        else:
            state = "pending" if tried < knobs.webhook_attempts else "given_up"
            due = now_ms() + int(1000 * retry_gap(knobs, tried))
        self._records.write(
            "update webhooks set state = ?, attempt = ?, due_ms = ? where seq = ?", state, tried, due, row["seq"]
        )


def _signed(knobs: Adjustable, url: str, rows: list[Row]) -> tuple[bytes, dict[str, str]]:
    if rows[0]["scheme"] == "standard":
        return signed_message(knobs.practice_callback_secret, json.loads(rows[0]["event"]), now_ms())
    if rows[0]["scheme"] == "stripe":
        return signed_event(knobs.stripe_webhook_secret, json.loads(rows[0]["event"]), now_ms())
    events = [{**json.loads(row["event"]), "attemptNumber": row["attempt"]} for row in rows]
    return signed_batch(knobs.webhook_secret, url, events, now_ms())


def retry_gap(knobs: Adjustable, tried: int) -> float:
    """Seconds between try number `tried` and the next one."""
    return min(knobs.webhook_retry_first * knobs.webhook_retry_growth ** (tried - 1), knobs.webhook_retry_longest)
