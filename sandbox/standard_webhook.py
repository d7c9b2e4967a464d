"""Callbacks signed as Standard Webhooks say: `v1,` and base64 of HMAC-SHA256 over id, timestamp and raw body.

Source: spec/standard-webhooks.md of github.com/standard-webhooks/standard-webhooks.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets

from sandbox.clock import iso, now_ms
from sandbox.wire import Json


def message(kind: str, data: Json) -> Json:
    """An event with the id that all its deliveries have."""
    return {"id": f"msg_{secrets.token_hex(12)}", "type": kind, "timestamp": iso(now_ms()), "data": data}


def signed_message(secret: str, event: Json, at_ms: int) -> tuple[bytes, dict[str, str]]:
    """Body and headers of one delivery."""
    body = json.dumps({name: event[name] for name in ("type", "timestamp", "data")}, ensure_ascii=False).encode()
    stamp = str(at_ms // 1000)
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, f"{event['id']}.{stamp}.".encode() + body, hashlib.sha256).digest()
    headers = {
        "content-type": "application/json",
        "webhook-id": event["id"],
        "webhook-timestamp": stamp,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
    return body, headers
