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
    throttled,
    unauthenticated,
)
from connectors.transport import Lost, Reply
from domain.canonical import NotJson, parse
from domain.signals import Answer

Success: TypeAlias = Callable[[Reply, Object], Answer]

_HOLDER = re.compile(r"Existing ID: ([0-9]+)|([0-9]+) already has that value")
_CONFLICTS = ("CONFLICT", "OBJECT_ALREADY_EXISTS")
_TAKEN = "conflicting_unique_value"


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
        return throttled(reply, now, f"http_{reply.status}", refused=own or reply.status == MIGRATING)
    if reply.status == 429:
        return throttled(reply, now, machine_code(error.get("policyName") or "rate_limit"), refused=own)
    if own and reply.status == 401:
        return unauthenticated(reply)
    return refused(reply, error) if own and reply.status in (400, 409) else doubtful(reply)


def refused(reply: Reply, error: Object) -> Answer:
    """One error object, of a whole answer or of one input of a batch, by its category."""
    category, problems = text(error, "category"), _problems(error)
    if category in _CONFLICTS or any(code == _TAKEN for code, _ in problems):
        return exists(reply, _holder(error))
    if category != "VALIDATION_ERROR":
        return doubtful(reply, machine_code(category))
    details = [":".join(part for part in problem if part) for problem in problems[:1]]
    return rejected(reply, ":".join(["validation_error", *details]))


def _holder(error: Object) -> str | None:
    found = _HOLDER.search(text(error, "message") or "")
    return (found[1] or found[2]) if found else None


def _problems(error: Object) -> list[tuple[str, str]]:
    """(code, property) of each refused value: listed under `errors`, or as JSON inside the message text."""
    listed = [(machine_code(one.get("code")), "") for one in children(error, "errors") if one.get("code")]
    return listed + [(machine_code(one.get("error")), machine_code(one.get("name"))) for one in _embedded(error)]


def _embedded(error: Object) -> tuple[Object, ...]:
    _, bracket, rest = (text(error, "message") or "").partition("[")
    try:
        return children({"list": parse((bracket + rest).encode("utf-8", "replace"))}, "list")
    except NotJson:
        return ()
