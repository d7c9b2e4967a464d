"""Whether raw bytes come from whom they say, decided on those bytes alone; and the same signatures, made."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from domain.deliveries import ReceiptVerdict
from domain.errors import InvalidInput

TOLERANCE = timedelta(minutes=5)
"""How far a signed time may lie from ours, either way. Both senders' documents say five minutes."""

HUBSPOT_SIGNATURE = "X-HubSpot-Signature-v3"
HUBSPOT_TIMESTAMP = "X-HubSpot-Request-Timestamp"
WEBHOOK_ID = "webhook-id"
WEBHOOK_TIMESTAMP = "webhook-timestamp"
WEBHOOK_SIGNATURE = "webhook-signature"
STRIPE_SIGNATURE = "Stripe-Signature"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_SECOND = timedelta(seconds=1)
_STAMP = re.compile(r"[0-9]{1,13}\Z")
_WEBHOOK_ID = re.compile(r"[!-~]{1,255}\Z")
# HubSpot signs the URL with these decoded and every other percent-encoding as it is (its request validation page).
_DECODED = re.compile("%(3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)", re.IGNORECASE)


def hubspot_v3_verdict(
    secrets: str | Sequence[str], public_url: str, headers: Mapping[str, str], body: bytes, now: datetime
) -> ReceiptVerdict:
    """Judge a HubSpot POST. `public_url` is the configured target URL, never one rebuilt from headers. Never raises.

    During a rotation `secrets` holds the old and the new client secret.
    """
    stamp = _header(headers, HUBSPOT_TIMESTAMP)
    if not _fresh(stamp, _MILLISECOND, now):
        return ReceiptVerdict.STALE_TIMESTAMP
    wanted = [_hubspot_v3(secret, public_url, stamp, body) for secret in _each(secrets)]
    return _verdict(wanted, [_header(headers, HUBSPOT_SIGNATURE)])


def sign_hubspot_v3(secret: str, public_url: str, timestamp_ms: int, body: bytes) -> dict[str, str]:
    """The headers HubSpot would send with this body."""
    stamp = str(timestamp_ms)
    return {HUBSPOT_SIGNATURE: _hubspot_v3(secret, public_url, stamp, body), HUBSPOT_TIMESTAMP: stamp}


def standard_webhooks_verdict(
    secrets: str | Sequence[str], headers: Mapping[str, str], body: bytes, now: datetime
) -> ReceiptVerdict:
    """Judge a Standard Webhooks POST by its v1 signatures (several may be sent during a rotation). Never raises.

    A secret that is not base64 matches nothing.
    """
    stamp, msg_id = _header(headers, WEBHOOK_TIMESTAMP), _header(headers, WEBHOOK_ID)
    if not _fresh(stamp, _SECOND, now):
        return ReceiptVerdict.STALE_TIMESTAMP
    if not is_message_id(msg_id):
        return ReceiptVerdict.BAD_SIGNATURE
    keys = [key for key in map(_webhook_key, _each(secrets)) if key]
    return _verdict(
        [_webhook_v1(key, msg_id, stamp, body) for key in keys], _header(headers, WEBHOOK_SIGNATURE).split(" ")
    )


def sign_standard_webhook(secret: str, msg_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of a Standard Webhooks delivery; `timestamp` in seconds. Raises InvalidInput for a bad secret."""
    key, stamp = _webhook_key(secret), str(timestamp)
    if not key:
        raise InvalidInput("secret", "whsec_ and base64")
    return {
        WEBHOOK_ID: msg_id,
        WEBHOOK_TIMESTAMP: stamp,
        WEBHOOK_SIGNATURE: _webhook_v1(key, msg_id, stamp, body),
    }


def stripe_verdict(
    secrets: str | Sequence[str], headers: Mapping[str, str], body: bytes, now: datetime
) -> ReceiptVerdict:
    """Judge an event of Stripe's by its v1 signatures, one for each secret while they are rotated. Never raises.

    The scheme: docs.stripe.com/webhooks#verify-manually.
    """
    parts = [part.partition("=") for part in _header(headers, STRIPE_SIGNATURE).split(",")]
    stamps = [value for name, _, value in parts if name == "t"]
    if len(stamps) != 1 or not _fresh(stamps[0], _SECOND, now):
        return ReceiptVerdict.STALE_TIMESTAMP
    wanted = [_stripe_v1(secret, stamps[0], body) for secret in _each(secrets)]
    return _verdict(wanted, [value for name, _, value in parts if name == "v1"])


def sign_stripe(secret: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The header Stripe would send with this body; `timestamp` in seconds."""
    return {STRIPE_SIGNATURE: f"t={timestamp},v1={_stripe_v1(secret, str(timestamp), body)}"}


def is_message_id(text: str) -> bool:
    """Whether a webhook-id can serve as a key: 1 to 255 printable ASCII characters without blanks."""
    return bool(_WEBHOOK_ID.match(text))


def _hubspot_v3(secret: str, public_url: str, stamp: str, body: bytes) -> str:
    url = _DECODED.sub(lambda found: chr(int(found[1], 16)), public_url)
    return _hmac(_raw(secret), b"POST", _raw(url), body, _raw(stamp))


def _webhook_v1(key: bytes, msg_id: str, stamp: str, body: bytes) -> str:
    return f"v1,{_hmac(key, _raw(msg_id), b'.', _raw(stamp), b'.', body)}"


def _stripe_v1(secret: str, stamp: str, body: bytes) -> str:
    return hmac.new(_raw(secret), b"%b.%b" % (_raw(stamp), body), hashlib.sha256).hexdigest()


def _webhook_key(secret: str) -> bytes:
    encoded = _raw(secret.removeprefix("whsec_").rstrip("="))
    try:
        return base64.b64decode(encoded + b"=" * (-len(encoded) % 4), validate=True)
    except binascii.Error:
        return b""


def _hmac(key: bytes, *parts: bytes) -> str:
    return base64.b64encode(hmac.new(key, b"".join(parts), hashlib.sha256).digest()).decode()


def _verdict(wanted: Iterable[str], given: Sequence[str]) -> ReceiptVerdict:
    # A list, so that the time taken does not tell which of the secrets matched.
    matches = [hmac.compare_digest(_raw(one), _raw(other)) for one in wanted for other in given]
    return ReceiptVerdict.GENUINE if any(matches) else ReceiptVerdict.BAD_SIGNATURE


def _fresh(stamp: str, unit: timedelta, now: datetime) -> bool:
    return bool(_STAMP.match(stamp)) and abs(now - _EPOCH - int(stamp) * unit) <= TOLERANCE


def _each(secrets: str | Sequence[str]) -> list[str]:
    """An unset secret must never be one that a stranger can sign with."""
    return [secret for secret in ([secrets] if isinstance(secrets, str) else secrets) if secret]


def _header(headers: Mapping[str, str], name: str) -> str:
    """The value of a header given exactly once, else nothing."""
    values = [value for key, value in headers.items() if key.lower() == name.lower()]
    return values[0] if len(values) == 1 else ""


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
