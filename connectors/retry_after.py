"""Retry-After as services really send it: seconds, fractions, dates of every kind, nonsense."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from email.utils import parsedate_to_datetime

USUAL_CAP = timedelta(minutes=15)
MIGRATION_CAP = timedelta(hours=24)
"""HubSpot's 477 (the account moves between data centres) asks for up to a day."""

_SECONDS = re.compile(r"-?[0-9]+(\.[0-9]+)?\Z")


def retry_after(values: Sequence[str], now: datetime, cap: timedelta = USUAL_CAP) -> timedelta | None:
    """The wait asked for, within [0, cap]; the longest of several headers. None if none of them makes sense."""
    waits = [wait for wait in (_wait(value.strip(), now, cap) for value in values) if wait is not None]
    return max(waits, default=None)


def _wait(value: str, now: datetime, cap: timedelta) -> timedelta | None:
    if _SECONDS.match(value):
        seconds = min(max(Decimal(value), Decimal(0)), Decimal(int(cap.total_seconds())))
        return timedelta(seconds=float(seconds))
    moment = _date(value)
    return None if moment is None else min(max(moment - now, timedelta(0)), cap)


def _date(value: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    # `-0000` says UTC of unknown origin and comes back without a zone
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
