"""Stripe's signature: `t=` and `v1=`, the hex HMAC-SHA256 over time, a dot and the raw body."""

from __future__ import annotations

import hashlib
import hmac
import json

from sandbox.wire import Json


def signed_event(secret: str, event: Json, at_ms: int) -> tuple[bytes, dict[str, str]]:
    """Body and headers of one delivery."""
    body, stamp = json.dumps(event, indent=2).encode(), str(at_ms // 1000)
    digest = hmac.new(secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    return body, {"content-type": "application/json", "stripe-signature": f"t={stamp},v1={digest}"}
