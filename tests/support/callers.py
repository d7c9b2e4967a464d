"""Stripe as a caller, as a test: any event, any bytes, rightly signed unless told otherwise."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
from inbound_samples import stripe_event
from world import STRIPE_WEBHOOK_SECRET, World

from gateway.signatures import sign_stripe


def about(account: Mapping[str, Any], **changes: Any) -> dict[str, Any]:  # noqa: ANN401 (any JSON)
    """An event of its own about this account."""
    fresh = {"id": f"evt_{secrets.token_hex(8)}", "request": None, "data": {"object": dict(account)}}
    return stripe_event(**{**fresh, **changes})


def account_with(key: str, **changes: Any) -> dict[str, Any]:  # noqa: ANN401
    """An account that carries this key."""
    fresh = {"id": f"acct_{secrets.token_hex(8)}", "object": "account", "metadata": {"operation_key": key}}
    return {**fresh, **changes}


@dataclass(frozen=True)
class StripeCaller:
    """Posts to the gateway of a world."""

    world: World

    def post(self, body: bytes, headers: Mapping[str, str] | None = None, stamp: int | None = None) -> httpx.Response:
        """With its own signature; `headers` go over it."""
        signed = sign_stripe(STRIPE_WEBHOOK_SECRET, int(time.time()) if stamp is None else stamp, body)
        return self.world.http.post("/callbacks/stripe", content=body, headers={**signed, **(headers or {})})

    def send(self, *events: Any) -> list[dict[str, Any]]:  # noqa: ANN401
        """What became of each event of one accepted body."""
        answer = self.post(json.dumps(events[0] if len(events) == 1 else events).encode())
        assert answer.status_code == 202, answer.text
        return list(answer.json()["elements"])
