"""What each mode of the sandbox's practice provider promises, as data: the order in which recovery may rest on it.

Each mode stands for real APIs: keyed_store_all for Stripe v1, keyed_store_2xx for Checkout.com, keyed_rerun_failed for
Stripe v2, keyed_ignore_body for Qonto, keyed_conflict_names_id for GoCardless, keyed_conflict_400 for BVNK,
create_once_409_text_id for HubSpot contacts, lookup_lagged for Pipedrive, callback_only for Adyen account holders,
none for a message to a Telegram chat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from domain.contracts import (
    ClientKey,
    Contract,
    Keyed,
    LookupLagged,
    LookupStrong,
    NoRecovery,
    Repeat,
    SavedId,
    Sign,
    Stored,
    Upsert,
)

CREATE_ACCOUNT = "create_account"
KEY_HEADER = "Idempotency-Key"
HEADER = ClientKey(f"header {KEY_HEADER}", 64, "mode and endpoint")
REFERENCE = ClientKey("reference in the body", 64, "mode")
IN_PROGRESS = Sign("in_progress", (409,))
MISMATCH = Sign("key_reused", (422,))
BY_REFERENCE = "GET accounts?reference=, every page"
BY_LIST = "GET accounts by created_from, every page, compared by reference"


def system_of(mode: str) -> str:
    """Each mode is a system of its own: one being throttled says nothing of another."""
    return f"practice-{mode}"


@dataclass(frozen=True, slots=True)
class PracticeTimes:
    """`window` of None: as long as the mode keeps a key. The others as in domain.contracts."""

    window: timedelta | None = None
    margin: timedelta = timedelta(minutes=1)
    settle: timedelta = timedelta(seconds=100)
    lag: timedelta = timedelta(seconds=60)
    outage_lag: timedelta = timedelta(minutes=10)
    callback_within: timedelta = timedelta(hours=24)
    read_within: timedelta = timedelta(seconds=10)


Declared = Callable[[PracticeTimes], tuple[Contract, ...]]


def _keyed(times: PracticeTimes, window: timedelta, stored: Stored) -> Keyed:
    return Keyed(times.window or window, times.margin, stored, HEADER, IN_PROGRESS, MISMATCH)


def _unmatched(times: PracticeTimes, window: timedelta, stored: Stored) -> Keyed:
    """The mode does not compare the body of a repeat."""
    return replace(_keyed(times, window, stored), mismatch=None, body_compared=False)


def _store_all(times: PracticeTimes) -> tuple[Contract, ...]:
    keyed = _keyed(times, timedelta(hours=24), Stored.ALL_STARTED)
    return keyed, LookupStrong(times.settle, BY_LIST)


def _store_2xx(times: PracticeTimes) -> tuple[Contract, ...]:
    keyed = _keyed(times, timedelta(hours=24), Stored.ONLY_SUCCESS)
    return keyed, LookupStrong(times.settle, BY_REFERENCE)


def _rerun_failed(times: PracticeTimes) -> tuple[Contract, ...]:
    keyed = _keyed(times, timedelta(days=30), Stored.FAILURES_RERUN)
    return keyed, LookupStrong(times.settle, BY_LIST)


def _ignore_body(times: PracticeTimes) -> tuple[Contract, ...]:
    return (_unmatched(times, timedelta(minutes=30), Stored.ALL_STARTED),)


def _conflict_names_id(times: PracticeTimes) -> tuple[Contract, ...]:
    taken = Sign("idempotent_creation_conflict", (409,))
    keyed = _unmatched(times, timedelta(hours=24), Stored.FAILURES_RERUN)
    return (replace(keyed, taken=taken, repeat=Repeat.NAMES_ID),)


def _conflict_400(times: PracticeTimes) -> tuple[Contract, ...]:
    keyed = _unmatched(times, timedelta(hours=24), Stored.FAILURES_RERUN)
    taken = Sign("already_processed", (400,))
    return replace(keyed, taken=taken, repeat=Repeat.NO_ID), LookupStrong(times.settle, BY_REFERENCE)


def _upsert_unique(times: PracticeTimes) -> tuple[Contract, ...]:
    return (Upsert(times.settle, REFERENCE, BY_REFERENCE, IN_PROGRESS, overwrites=True),)


def _text_id(times: PracticeTimes) -> tuple[Contract, ...]:
    taken = Sign("already_exists", (409,))
    return (Upsert(times.settle, REFERENCE, BY_REFERENCE, IN_PROGRESS, taken, Repeat.ID_IN_TEXT),)


def _create_once_400(times: PracticeTimes) -> tuple[Contract, ...]:
    taken = Sign("reference_taken", (400,))
    return (Upsert(times.settle, REFERENCE, BY_REFERENCE, IN_PROGRESS, taken, Repeat.NO_ID),)


def _strong(times: PracticeTimes) -> tuple[Contract, ...]:
    return (LookupStrong(times.settle, BY_REFERENCE, resend_when_absent=True),)


def _lagged(times: PracticeTimes) -> tuple[Contract, ...]:
    searched = "search of accounts by reference, every page"
    return (LookupLagged(times.settle, times.lag, times.outage_lag, searched),)


def _callback_only(times: PracticeTimes) -> tuple[Contract, ...]:
    return (SavedId(times.callback_within, "id of the answer", "data.reference of account.created"),)


def _none(times: PracticeTimes) -> tuple[Contract, ...]:
    return (NoRecovery(),)


MODES: Mapping[str, Declared] = {
    "keyed_store_all": _store_all,
    "keyed_store_2xx": _store_2xx,
    "keyed_rerun_failed": _rerun_failed,
    "keyed_ignore_body": _ignore_body,
    "keyed_conflict_names_id": _conflict_names_id,
    "keyed_conflict_400": _conflict_400,
    "upsert_unique": _upsert_unique,
    "create_once_409_text_id": _text_id,
    "create_once_400": _create_once_400,
    "lookup_strong_after_H": _strong,
    "lookup_lagged": _lagged,
    "callback_only": _callback_only,
    "none": _none,
}
