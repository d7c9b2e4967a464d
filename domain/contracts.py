"""What an API really allows when an answer is lost: six kinds of recovery contract, as data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeAlias


class Stored(StrEnum):
    """Which first answers a keyed API stores and replays. A success is always stored together with its effect."""

    ALL_STARTED = "all_started"
    ONLY_SUCCESS = "only_success"
    FAILURES_RERUN = "failures_rerun"


class Repeat(StrEnum):
    """How an API answers the repeat of a create that it has done already."""

    SAME_RESULT = "same_result"
    NAMES_ID = "conflict_names_id"
    ID_IN_TEXT = "conflict_with_id_in_text"
    NO_ID = "conflict_without_id"


@dataclass(frozen=True, slots=True)
class ClientKey:
    """Where our key goes, how long it may be, and within what it is one key."""

    place: str
    longest: int
    scope: str


@dataclass(frozen=True, slots=True)
class Sign:
    """How an API says one thing in an error: the machine code, and the statuses that sources give for it."""

    code: str
    statuses: tuple[int, ...]

    def fits(self, status: int, code: str | None) -> bool:
        return code == self.code and status in self.statuses


@dataclass(frozen=True, slots=True)
class Keyed:
    """C1: the server de-duplicates by a client key inside a window counted from the first send.

    `in_progress`, `mismatch` and `taken` are how it says that the key is at work, was used with another body, and has
    been used up by a create that was done.
    """

    window: timedelta
    margin: timedelta
    stored: Stored
    key: ClientKey
    in_progress: Sign | None = None
    mismatch: Sign | None = None
    taken: Sign | None = None
    repeat: Repeat = Repeat.SAME_RESULT
    body_compared: bool = True
    backoff: timedelta = timedelta(seconds=2)
    resends: int = 12


@dataclass(frozen=True, slots=True)
class Upsert:
    """C2: a resend converges on one record by a unique business key, once a look-up says that it is absent.

    Where uniqueness is not `enforced` an absence permits no resend. A record that a resend `overwrites` is looked at
    before any resend.
    """

    settle: timedelta
    key: ClientKey
    query: str
    in_progress: Sign | None = None
    taken: Sign | None = None
    repeat: Repeat = Repeat.SAME_RESULT
    enforced: bool = True
    overwrites: bool = False
    retry: timedelta = timedelta(seconds=5)
    resends: int = 12


@dataclass(frozen=True, slots=True)
class LookupStrong:
    """C3: an authoritative read by our own key, trusted `settle` after the lease of the last send ended."""

    settle: timedelta
    query: str
    retry: timedelta = timedelta(seconds=5)
    resend_when_absent: bool = False
    resends: int = 3


@dataclass(frozen=True, slots=True)
class LookupLagged:
    """C4: a search index. Absent after `settle + lag` and `misses` looks is still no proof.

    The index may be behind by `lag` on ordinary days and by `outage_lag` on bad ones: until then it is looked at again,
    ever less often.
    """

    settle: timedelta
    lag: timedelta
    outage_lag: timedelta
    query: str
    misses: int = 3
    duplicates_harmless: bool = False
    resends: int = 1


@dataclass(frozen=True, slots=True)
class SavedId:
    """C5: readable only by the provider's id; otherwise the outcome comes as a callback within `callback_within`.

    `saved` says where its id comes back, `echoed` where the callback repeats our reference.
    """

    callback_within: timedelta
    saved: str
    echoed: str


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
