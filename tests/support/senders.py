"""The senders of triggers, as a test: any element, any bytes, rightly signed unless told otherwise."""

from __future__ import annotations

import itertools
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
from inbound_samples import batch, hubspot_element
from world import MANAGER, SECRET, WEBHOOK_SECRET, World

from gateway.signatures import sign_hubspot_v3, sign_standard_webhook

_events = itertools.count(secrets.randbelow(10**9) * 1000)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def changed(company_id: str | int, name: str, value: object, **more: Any) -> dict[str, Any]:  # noqa: ANN401 (any JSON)
    """A HubSpot property change of a company, with an event id of its own."""
    fresh = {"eventId": next(_events), "occurredAt": now_ms(), "sourceId": f"userId:{MANAGER}"}
    about = {"objectId": company_id, "propertyName": name, "propertyValue": value}
    return hubspot_element(**{**fresh, **about, **more})


def submitted(company_id: str | int, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """The change that starts a run."""
    return changed(company_id, "onboarding_stage", "submitted", **more)


@dataclass(frozen=True)
class Sender:
    """Posts to the gateway of a world."""

    world: World

    def post(self, body: bytes, headers: Mapping[str, str] | None = None, stamp: int | None = None) -> httpx.Response:
        """A HubSpot delivery with its own signature; `headers` go over it."""
        signed = sign_hubspot_v3(SECRET, self.world.settings.hubspot_public_url, stamp or now_ms(), body)
        return self.world.http.post("/triggers/hubspot", content=body, headers={**signed, **(headers or {})})

    def send(self, *elements: Any) -> list[dict[str, Any]]:  # noqa: ANN401
        """What became of each element of one accepted batch."""
        answer = self.post(batch(*elements))
        assert answer.status_code == 202, answer.text
        return list(answer.json()["elements"])

    def request(self, kind: str, request_id: str, inputs: Mapping[str, object], at: datetime | None = None) -> str:
        """A Standard Webhook that carries the inputs; what became of it."""
        data = {"id": request_id, "requested_by": "anna.k", "inputs": inputs}
        event = {"type": f"partner_request.{kind}", "timestamp": (at or datetime.now(UTC)).isoformat(), "data": data}
        body = json.dumps(event).encode()
        headers = sign_standard_webhook(WEBHOOK_SECRET, f"msg_{secrets.token_hex(8)}", int(time.time()), body)
        answer = self.world.http.post("/triggers/standard-webhooks", content=body, headers=headers)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["elements"][0]["disposition"])
