"""What an API really allows when an answer is lost: six kinds of recovery contract, as data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeAlias


class Stored(StrEnum):
    """Which first answers a keyed API stores and replays."""

    ALL_STARTED = "all_started"
    ONLY_SUCCESS = "only_success"
    FAILURES_RERUN = "failures_rerun"


@dataclass(frozen=True, slots=True)
class Keyed:
    """C1: the server de-duplicates by a client key inside a window counted from the first send."""

    window: timedelta
    margin: timedelta
    stored: Stored
    body_compared: bool = True
    backoff: timedelta = timedelta(seconds=2)
    resends: int = 12


@dataclass(frozen=True, slots=True)
class Upsert:
    """C2: a resend converges on one record by a unique business key, once a look-up says that it is absent."""

    settle: timedelta
    retry: timedelta = timedelta(seconds=5)
    resends: int = 12


@dataclass(frozen=True, slots=True)
class LookupStrong:
    """C3: an authoritative read by our own key, trusted `settle` after the lease of the last send ended."""

    settle: timedelta
    retry: timedelta = timedelta(seconds=5)
    resend_when_absent: bool = False
    resends: int = 3


@dataclass(frozen=True, slots=True)
class LookupLagged:
    """C4: a search index. Absent after `settle + lag` and `misses` looks is still no proof."""

    settle: timedelta
    lag: timedelta
    misses: int = 3
    duplicates_harmless: bool = False
    resends: int = 1


@dataclass(frozen=True, slots=True)
class SavedId:
    """C5: readable only by the provider's id; otherwise the outcome comes as a callback within `callback_within`."""

    callback_within: timedelta


@dataclass(frozen=True, slots=True)
class NoRecovery:
    """C6: neither de-duplication nor a way to ask: at most one send."""


Contract: TypeAlias = "Keyed | Upsert | LookupStrong | LookupLagged | SavedId | NoRecovery"


@dataclass(frozen=True, slots=True)
class Accept:
    """The effect exists, under this outside id."""

    reference: str


@dataclass(frozen=True, slots=True)
class Reject:
    """The effect did not happen and this content will not be sent again."""

    code: str


@dataclass(frozen=True, slots=True)
class Resend:
    """The same bytes under the same key, not before this time."""

    not_before: datetime


@dataclass(frozen=True, slots=True)
class ProbeAt:
    """A look-up, not before this time."""

    at: datetime
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class AwaitCallback:
    """Nothing to do but wait for the provider's callback."""

    until: datetime


@dataclass(frozen=True, slots=True)
class AskOperator:
    """Automation has no permitted action left."""

    reason: str


Settlement: TypeAlias = "Accept | Reject | Resend | ProbeAt | AwaitCallback | AskOperator"
