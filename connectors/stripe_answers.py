"""What Stripe's answers to POST /v1/accounts mean. Pure.

Sources: docs.stripe.com/api/idempotent_requests, /api/errors and /error-low-level: limits, credentials and parameters
are checked before the idempotency layer, so 429, 401 and 400 invalid_request_error did not execute; whatever started
is stored under the key, failures included.
"""

from __future__ import annotations

from datetime import datetime

from connectors.classify import (
    Object,
    accepted,
    busy,
    child,
    doubtful,
    json_object,
    lost,
    machine_code,
    mismatch,
    rejected,
    text,
    told_to_pause,
    unauthenticated,
)
from connectors.stripe_account import differences, is_account
from connectors.stripe_contracts import IN_PROGRESS, MISMATCH
from connectors.stripe_limits import pause_of
from connectors.transport import Lost, Reply
from domain.signals import Answer


def classified(reply: Reply | Lost, content: bytes, now: datetime) -> Answer:
    """The answer to a create whose body was `content`."""
    if isinstance(reply, Lost):
        return lost(reply)
    value = None if reply.defect else json_object(reply.body)
    if 200 <= reply.status < 300:
        return _success(reply, value, content)
    if not 400 <= reply.status < 500:
        return doubtful(reply)
    return _refusal(reply, child(value or {}, "error"), now)


def _success(reply: Reply, value: Object | None, content: bytes) -> Answer:
    if value is None:
        return doubtful(reply, "unreadable")
    if not is_account(value):
        return doubtful(reply, "no_account")
    differing = differences(content, value)
    if "operation_key" in differing:
        return doubtful(reply, "other_account")
    if differing:
        return mismatch(reply, f"other_{differing[0]}")
    return accepted(reply, str(value["id"]))


def _refusal(reply: Reply, error: Object, now: datetime) -> Answer:
    if reply.status == 429:
        code = machine_code(error.get("code") or "rate_limit")
        return told_to_pause(reply, pause_of(reply, now), code, refused=bool(error))
    if not error:
        return doubtful(reply)
    if MISMATCH.fits(reply.status, text(error, "type")):
        return mismatch(reply, MISMATCH.code)
    if IN_PROGRESS.fits(reply.status, text(error, "code")):
        return busy(reply, IN_PROGRESS.code)
    if reply.status == 401:
        return unauthenticated(reply)
    if reply.status == 400 and text(error, "type") == "invalid_request_error":
        return rejected(reply, _code(error))
    return doubtful(reply, machine_code(error.get("code") or f"http_{reply.status}"))


def _code(error: Object) -> str:
    code = machine_code(error.get("code") or error.get("type"))
    return f"{code}:{machine_code(error['param'])}" if text(error, "param") else code
