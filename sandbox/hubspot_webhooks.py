"""HubSpot's webhook events: a durable queue, the v3 signature and delivery with retries."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import logging
import sqlite3
from dataclasses import dataclass

import httpx

from sandbox.clock import now_ms
from sandbox.records import Records, Row
from sandbox.settings import Adjustable, Knobs, Settings
from sandbox.wire import Json

FIRST_EVENT_ID = 4100200301
BATCH = 100
SUBSCRIPTIONS = {"object.propertyChange": 550011, "object.creation": 550012, "object.merge": 550013}
OTHER_SUBSCRIPTION = 550014
log = logging.getLogger(__name__)


def signature_v3(secret: str, uri: str, body: bytes, timestamp_ms: str) -> str:
    """Base64 of HMAC-SHA256 over method, target URI, raw body and timestamp."""
    source = b"POST" + uri.encode() + body + timestamp_ms.encode()
    return base64.b64encode(hmac.new(secret.encode(), source, hashlib.sha256).digest()).decode()


@dataclass(frozen=True)
class Author:
    """Who changed a record: a CRM user (given by `X-Sandbox-Actor: userId:N`) or the integration itself."""

    source_type: str
    source_id: str
    user_id: int | None = None


class Events:
    """Writes events into the queue, one delivery for each target URL, in the caller's transaction."""

    def __init__(self, records: Records, settings: Settings, knobs: Knobs) -> None:
        self._records = records
        self._settings = settings
        self._knobs = knobs

    def property_changed(self, about: Json, name: str, value: str | None) -> None:
        wanted = self._knobs.now.webhook_properties
        if wanted is None or name in wanted:
            fields = {"propertyName": name, "propertyValue": value or "", "isSensitive": False}
            self.emit("object.propertyChange", {**about, **fields})

    def emit(self, subscription: str, fields: Json) -> None:
        types = self._knobs.now.webhook_types
        if types is not None and fields["objectTypeId"] not in types:
            return
        event = {
            "eventId": self._records.next_number("next_event_id", FIRST_EVENT_ID),
            "subscriptionId": SUBSCRIPTIONS.get(subscription, OTHER_SUBSCRIPTION),
            "portalId": self._settings.hubspot_portal_id,
            "appId": self._settings.hubspot_app_id,
            "occurredAt": now_ms(),
            "subscriptionType": subscription,
            **fields,
        }
        for url in self._knobs.now.webhook_urls:
            self._records.write(
                "insert into deliveries (url, event, due_ms) values (?, ?, ?)", url, json.dumps(event), now_ms()
            )


def about(object_id: str, type_id: str, author: Author) -> Json:
    """The fields every event has. objectId is a JSON integer of any size."""
    return {
        "objectId": int(object_id),
        "objectTypeId": type_id,
        "changeSource": author.source_type,
        "sourceId": author.source_id,
    }


class Delivery:
    """Sends due events, at most 100 in a POST; anything but 2xx is tried again after a growing gap."""

    def __init__(self, records: Records, knobs: Knobs) -> None:
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
        if self._knobs.now.webhook_hold:
            return
        urls = self._records.rows(
            "select distinct url from deliveries where state = 'pending' and due_ms <= ?", now_ms()
        )
        await asyncio.gather(*(self._batch(client, row["url"]) for row in urls))

    async def _batch(self, client: httpx.AsyncClient, url: str) -> None:
        knobs = self._knobs.now
        order = "desc" if knobs.webhook_reorder else "asc"
        rows = self._records.rows(
            "select * from deliveries where state = 'pending' and url = ? and due_ms <= ? "
            f"order by seq {order} limit {BATCH}",
            url,
            now_ms(),
        )
        delivered = await self._sent(client, url, rows)
        if knobs.webhook_duplicate:
            await self._sent(client, url, rows)
        with self._records.transaction():
            for row in rows:
                self._settle(row, delivered, knobs)

    async def _sent(self, client: httpx.AsyncClient, url: str, rows: list[Row]) -> bool:
        events = [{**json.loads(row["event"]), "attemptNumber": row["attempt"]} for row in rows]
        body = json.dumps(events, separators=(",", ":")).encode()
        stamp = str(now_ms())
        headers = {
            "content-type": "application/json",
            "x-hubspot-signature-v3": signature_v3(self._knobs.now.webhook_secret, url, body, stamp),
            "x-hubspot-request-timestamp": stamp,
        }
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
            "update deliveries set state = ?, attempt = ?, due_ms = ? where seq = ?", state, tried, due, row["seq"]
        )


def retry_gap(knobs: Adjustable, tried: int) -> float:
    """Seconds between try number `tried` and the next one."""
    return min(knobs.webhook_retry_first * knobs.webhook_retry_growth ** (tried - 1), knobs.webhook_retry_longest)
