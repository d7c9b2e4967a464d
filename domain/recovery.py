"""The settle function: contracts, everything recorded and the time in; one permitted next action out.

Total, and pure: the same evidence at the same time gives the same answer, so it may be asked inside the transaction
that permits a resend, on a status page, and in a test of every reachable history.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from domain.contracts import (
    Accept,
    AskOperator,
    AwaitCallback,
    Contract,
    Keyed,
    LookupLagged,
    LookupStrong,
    NoRecovery,
    ProbeAt,
    Reject,
    Resend,
    SavedId,
    Settlement,
    Upsert,
)
from domain.history import MAX_FAILED_LOOKUPS, History, proved_unexecuted, window_end
from domain.signals import Attempt, Doubt, Evidence, Probe, Signal

__all__ = [
    "MAX_FAILED_LOOKUPS",
    "MAX_SENDS",
    "may_execute_until",
    "may_open_generation",
    "proved_unexecuted",
    "settle",
    "window_end",
]

MAX_SENDS = 100
"""Sends of one operation, refused ones included, before a person is asked: about fifteen hours of backing off."""

FIRST_BACKOFF = timedelta(seconds=1)
LOOK_AGAIN = timedelta(seconds=5)


def settle(contracts: Sequence[Contract], evidence: Evidence, now: datetime) -> Settlement:
    """The one permitted next action for an operation that has been sent at least once."""
    history = History(tuple(contracts), evidence, now)
    definite = _by_definite_evidence(history)
    if definite is not None:
        return definite
    if not history.attempts:
        return AskOperator("never_sent")
    return _by_refusals(history) if not history.unresolved else _by_contracts(history)


def may_execute_until(contracts: Sequence[Contract], evidence: Evidence) -> datetime | None:
    """Until when a send without a conclusive answer may still take effect: the end of its lease and H after it.

    H is the longest settle time that the contracts declare. None where every send was answered conclusively.
    """
    settle_time = max((getattr(each, "settle", timedelta(0)) for each in contracts), default=timedelta(0))
    open_ends = [attempt.lease_until for attempt in evidence.attempts if not _concluded(attempt)]
    return max(open_ends) + settle_time if open_ends else None


CONCLUSIVE = frozenset(Signal) - {Signal.UNKNOWN, Signal.BUSY}
"""Answers that were made when the request was over, whatever it had done."""


def _concluded(attempt: Attempt) -> bool:
    return any(recorded.answer.signal in CONCLUSIVE for recorded in attempt.answers)


def may_open_generation(contracts: Sequence[Contract], evidence: Evidence, now: datetime, reversed_: bool) -> bool:
    """Whether proof is recorded that the former one never happened, or was undone by an accepted reversal."""
    history = History(tuple(contracts), evidence, now)
    if history.in_flight_until is not None or _alarm(history) is not None:
        return False
    return reversed_ or _proved_undone(history)


def _proved_undone(history: History) -> bool:
    return bool(history.attempts) and not history.unresolved


def _by_definite_evidence(history: History) -> Settlement | None:
    """Evidence that no contract may overrule."""
    alarm = _alarm(history)
    if alarm is not None:
        return AskOperator(alarm)
    return next((Accept(reference) for reference in history.references), None)


def _alarm(history: History) -> str | None:
    """Why nothing may be concluded or repeated without a person, whatever the contracts promise."""
    alarms = {
        "content_mismatch": Signal.MISMATCH in history.signals,
        "several_records": history.several,
        "foreign_record": history.foreign,
        "contradicting_answers": history.contradicted,
        "record_without_reference": history.nameless,
    }
    return next((reason for reason, holds in alarms.items() if holds), None)


def _by_refusals(history: History) -> Settlement:
    """Every send is proved unexecuted: close if the content was refused, else the same bytes again."""
    codes = [recorded.answer.code for recorded in history.answers if recorded.answer.signal is Signal.REJECTED]
    if codes:
        return Reject(codes[-1])
    too_many = len(history.attempts) >= MAX_SENDS
    return _resend(history, repeats=0) or AskOperator("sends_exhausted" if too_many else "window_closed")


def _by_contracts(history: History) -> Settlement:
    """The first contract that still permits something; nobody is asked about a send that may still be answered."""
    verdicts = (_under(contract, history) for contract in history.contracts)
    verdict = next((verdict for verdict in verdicts if verdict is not None), _exhausted(history))
    if isinstance(verdict, AskOperator) and history.in_flight_until is not None:
        return AwaitCallback(history.in_flight_until)
    return verdict


def _exhausted(history: History) -> AskOperator:
    return AskOperator("lookups_failing" if history.lookups_failing else "contracts_exhausted")


def _under(contract: Contract, history: History) -> Settlement | None:
    """What this contract still permits; None when it is exhausted."""
    match contract:
        case Keyed():
            return _keyed(contract, history)
        case Upsert():
            return _upsert(contract, history)
        case LookupStrong():
            return _strong(contract, history)
        case LookupLagged():
            return _lagged(contract, history)
        case SavedId():
            return _saved_id(contract, history)
        case NoRecovery():
            return AskOperator("no_recovery")


def _resend(history: History, repeats: int, first_backoff: timedelta = FIRST_BACKOFF) -> Resend | None:
    """The only door to another send. `repeats` limits the sends that may have executed, refused ones are free."""
    if history.repeat_is_pointless or len(history.unresolved) > repeats or len(history.attempts) >= MAX_SENDS:
        return None
    not_before = history.repeat_not_before(first_backoff)
    end = history.window_end
    in_window = end is None or max(not_before, history.now) < end
    return Resend(not_before) if in_window else None


def _look(history: History, earliest: datetime, retry: timedelta, reference: str | None = None) -> ProbeAt | None:
    return None if history.lookups_failing else ProbeAt(history.next_look(earliest, retry), reference)


def _look_at_conflict(history: History, by_key: bool) -> ProbeAt | None:
    """Our unique key is taken: look at the record that the answer named, or `by_key`, before anything else."""
    conflict = history.unread_conflict()
    if conflict is None or not (by_key or conflict.answer.reference):
        return None
    return _look(history, conflict.at, LOOK_AGAIN, conflict.answer.reference)


def _keyed(contract: Keyed, history: History) -> Settlement | None:
    """The same key again. A client error on a later send says nothing of the earlier one, so it must be read."""
    conflict = _look_at_conflict(history, by_key=False)
    if conflict is not None or Doubt.CLIENT_ERROR in history.doubts:
        return conflict
    return _resend(history, contract.resends, contract.backoff)


def _upsert(contract: Upsert, history: History) -> Settlement | None:
    """A resend that converges and overwrites nothing waits out an undocumented throttle without looking first."""
    blind = contract.enforced and not contract.overwrites and history.only_throttled
    waited = _resend(history, contract.resends) if blind else None
    return waited or _look_then_resend(contract, history, may_repeat=contract.enforced)


def _strong(contract: LookupStrong, history: History) -> Settlement | None:
    """After an undocumented throttle the absence decides even where policy forbids a repeat after silence."""
    return _look_then_resend(contract, history, contract.resend_when_absent or history.only_throttled)


def _look_then_resend(contract: Upsert | LookupStrong, history: History, may_repeat: bool) -> Settlement | None:
    conflict = _look_at_conflict(history, by_key=True)
    if conflict is not None:
        return conflict
    earliest = history.lease_ended + contract.settle
    if not history.absences_since(earliest):
        return _look(history, earliest, contract.retry)
    return _resend(history, contract.resends) if may_repeat else None


def _lagged(contract: LookupLagged, history: History) -> Settlement | None:
    conflict = _look_at_conflict(history, by_key=False)
    if conflict is not None:
        return conflict
    earliest = history.lease_ended + contract.settle
    misses = history.absences_since(earliest)
    if not _missed_for_good(contract, misses, earliest):
        return _look(history, *_next_poll(contract, misses, earliest))
    may_repeat = contract.duplicates_harmless or history.only_throttled
    return _resend(history, contract.resends) if may_repeat else None


def _missed_for_good(contract: LookupLagged, misses: Sequence[Probe], earliest: datetime) -> bool:
    horizon = earliest + max(contract.lag, contract.outage_lag)
    return len(misses) >= contract.misses and any(miss.began_at >= horizon for miss in misses)


def _next_poll(contract: LookupLagged, misses: Sequence[Probe], earliest: datetime) -> tuple[datetime, timedelta]:
    """Evenly over the usual lag, its last look at or after the end of that; then ever less often over an outage's."""
    gap = max(contract.lag / max(contract.misses - 1, 1), LOOK_AGAIN)
    usual = earliest + contract.lag
    last = max((miss.began_at for miss in misses), default=earliest)
    if len(misses) >= contract.misses and last >= usual:
        return min(last + max(last - earliest, gap), earliest + contract.outage_lag), LOOK_AGAIN
    return (usual if len(misses) >= contract.misses - 1 else earliest), gap


def _saved_id(contract: SavedId, history: History) -> Settlement | None:
    until = history.lease_ended + contract.callback_within
    if history.now >= until or Signal.EXISTS in history.signals:
        return None
    return AwaitCallback(until)
