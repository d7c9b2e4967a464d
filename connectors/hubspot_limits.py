"""How long HubSpot wants everybody to pause who met a limit of its account: it seldom says so in Retry-After. Pure.

Source: developers.hubspot.com/docs/developer-tooling/platform/usage-guidelines: a 429 names its policy in the body
(SECONDLY, TEN_SECONDLY_ROLLING, DAILY), and its headers the length of the rolling window and what is left of the day.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta

from connectors.classify import json_object, pause_asked, text
from connectors.retry_after import USUAL_CAP
from connectors.transport import Reply

ROLLING = timedelta(seconds=10)
OF_DAY = USUAL_CAP
"""The day ends at midnight of the account's own time zone, which no answer tells: it is looked again until then."""

_WINDOWS: Mapping[str, timedelta] = {"SECONDLY": timedelta(seconds=1), "DAILY": OF_DAY}
_INTERVAL, _LEFT_OF_DAY = "x-hubspot-ratelimit-interval-milliseconds", "x-hubspot-ratelimit-daily-remaining"
_MILLISECONDS = re.compile(r"[1-9][0-9]{0,9}\Z")


def pause_of(reply: Reply, now: datetime) -> timedelta | None:
    """Retry-After where it makes sense; else what a 429 says of its limit; None for a lock of one record."""
    said = pause_asked(reply, now)
    return _of_limit(reply) if said is None and reply.status == 429 else said


def _of_limit(reply: Reply) -> timedelta:
    policy = text(json_object(reply.body) or {}, "policyName") or ""
    if reply.header(_LEFT_OF_DAY) == ("0",):
        return OF_DAY
    return _WINDOWS.get(policy.upper()) or _rolling(reply.header(_INTERVAL))


def _rolling(values: tuple[str, ...]) -> timedelta:
    """The longest window that a header names. One that makes no sense is as good as none."""
    named = [timedelta(milliseconds=int(value)) for value in values if _MILLISECONDS.match(value)]
    return min(max(named, default=ROLLING), USUAL_CAP)
