"""What HubSpot's answers to a write mean. Pure.

Sources: developers.hubspot.com/docs/api-reference/error-handling (429, 423, 477 refuse before execution; 5xx and
52x say nothing). The same fact has two codes: a taken e-mail is 409 CONFLICT, a taken custom unique value is
400 VALIDATION_ERROR, and the id of the holder is only in the message text
(github.com/HubSpot/hubspot-api-php/issues/59).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import TypeAlias

from connectors.classify import (
    MIGRATING,
    Object,
    children,
    doubtful,
    exists,
    json_object,
    lost,
    machine_code,
    rejected,
    text,
    told_to_pause,
    unauthenticated,
)
from connectors.hubspot_contracts import TAKEN
from connectors.hubspot_limits import pause_of
from connectors.transport import Lost, Reply
from domain.signals import Answer

Success: TypeAlias = Callable[[Reply, Object], Answer]

_HOLDER = re.compile(r"Existing ID: ([0-9]+)|([0-9]+) already has that value")
_CONFLICTS = ("CONFLICT", "OBJECT_ALREADY_EXISTS")
_CODE = re.compile(r'"error":\s*"([A-Z_]{1,60})"')
_PROPERTY = re.compile(r'"name":\s*"([a-z0-9_]{1,60})"')


def classified(reply: Reply | Lost, now: datetime, success: Success) -> Answer:
    """The answer to a write; `success` judges the JSON of a whole 2xx answer."""
    if isinstance(reply, Lost):
        return lost(reply)
    value = None if reply.defect else json_object(reply.body)
    if 200 <= reply.status < 300:
        return doubtful(reply, "unreadable") if value is None else success(reply, value)
    if not 400 <= reply.status < 500:
        return doubtful(reply)
    return _refusal(reply, value or {}, now)


def _refusal(reply: Reply, error: Object, now: datetime) -> Answer:
    own = text(error, "status") == "error"
    if reply.status in (423, MIGRATING):
        code, refused_first = f"http_{reply.status}", own or reply.status == MIGRATING
        return told_to_pause(reply, pause_of(reply, now), code, refused=refused_first)
    if reply.status == 429:
        code = machine_code(error.get("policyName") or "rate_limit")
        return told_to_pause(reply, pause_of(reply, now), code, refused=own)
    if own and reply.status == 401:
        return unauthenticated(reply)
    return refused(reply, error) if own and reply.status in (400, 409) else doubtful(reply)


def refused(reply: Reply, error: Object) -> Answer:
    """One error object, of a whole answer or of one input of a batch, by its category."""
    category, message = text(error, "category"), text(error, "message") or ""
    holder = _HOLDER.search(message)
    if category in _CONFLICTS or holder or TAKEN.code in message:
        return exists(reply, (holder[1] or holder[2]) if holder else None)
    if category == "VALIDATION_ERROR":
        return rejected(reply, ":".join(("validation_error", *_problem(error, message))))
    return doubtful(reply, machine_code(category))


def _problem(error: Object, message: str) -> list[str]:
    """Code and property of the first refused value: under `errors`, or in the JSON inside the message text."""
    listed = [machine_code(one["code"]) for one in children(error, "errors") if text(one, "code")]
    embedded = [found[1] for pattern in (_CODE, _PROPERTY) if (found := pattern.search(message))]
    return listed[:1] or [machine_code(part) for part in embedded]
