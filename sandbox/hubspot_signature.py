"""HubSpot's v3 signature: base64 of HMAC-SHA256 over method, target URI, raw body and timestamp."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json

from sandbox.wire import Json


def signature_v3(secret: str, uri: str, body: bytes, timestamp_ms: str) -> str:
    source = b"POST" + uri.encode() + body + timestamp_ms.encode()
    return base64.b64encode(hmac.new(secret.encode(), source, hashlib.sha256).digest()).decode()


def signed_batch(secret: str, url: str, events: list[Json], at_ms: int) -> tuple[bytes, dict[str, str]]:
    """Body and headers of one delivery."""
    body = json.dumps(events, separators=(",", ":")).encode()
    headers = {
        "content-type": "application/json",
        "x-hubspot-signature-v3": signature_v3(secret, url, body, str(at_ms)),
        "x-hubspot-request-timestamp": str(at_ms),
    }
    return body, headers
