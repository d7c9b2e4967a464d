"""The settle function: contracts, everything recorded and the time in; one permitted next action out.

Total, and pure: the same evidence at the same time gives the same answer, so it may be asked inside the transaction
that permits a resend, on a status page, and in a test of every reachable history.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
    Stored,
    Upsert,
)
from domain.signals import Answer, Attempt, Doubt, Evidence, Finding, Found, Probe, RecordedAnswer, Signal

MAX_FAILED_LOOKUPS = 20
"""Consecutive look-ups that saw nothing at all before a person is asked to look at the connection."""


@dataclass(frozen=True, slots=True)
class History:
    """Evidence with the questions that every contract asks of it."""

    evidence: Evidence
    contracts: tuple[Contract, ...]
    now: datetime

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        return self.evidence.attempts

    @property
    def last(self) -> Attempt:
        return self.attempts[-1]

    @property
    def unresolved(self) -> tuple[Attempt, ...]:
        return tuple(attempt for attempt in self.attempts if not proved_unexecuted(attempt, self.attempts))

    @property
    def lease_ended(self) -> datetime:
        """The latest end of a lease among sends that may have executed: H and V count from here."""
        return max(attempt.lease_until for attempt in self.unresolved)

    @property
    def last_doubt(self) -> Doubt:
        """Why the latest send that may have executed is in doubt; silence is NO_ANSWER."""
        answer = _latest(self.unresolved[-1])
        return (answer and answer.answer.doubt) or Doubt.NO_ANSWER

    def conclusive(self) -> tuple[Probe, ...]:
        return tuple(probe for probe in self.evidence.probes if probe.finding.found is not Found.FAILED)

    def failed_in_a_row(self) -> int:
        count = 0
        for probe in reversed(self.evidence.probes):
            if probe.finding.found is not Found.FAILED:
                break
            count += 1
        return count

    def absences_since(self, moment: datetime) -> tuple[Probe, ...]:
        """Look-ups begun at or after `moment` that saw no record, and after the last send."""
        return tuple(p for p in self.conclusive() if p.finding.found is Found.NONE and p.began_at >= moment)

    def next_look(self, earliest: datetime, retry: timedelta) -> datetime:
        """`earliest`, or later when a look-up at or after it has already been made."""
        began = [probe.began_at for probe in self.evidence.probes if probe.began_at >= earliest]
        return max(earliest, began[-1] + retry) if began else earliest


def _latest(attempt: Attempt) -> RecordedAnswer | None:
    return attempt.answers[-1] if attempt.answers else None


def _definitely_not_executed(answer: Answer) -> bool:
    if answer.signal is Signal.THROTTLED:
        return answer.refused
    return answer.signal in (Signal.NOT_SENT, Signal.REJECTED)


def proved_unexecuted(attempt: Attempt, attempts: Sequence[Attempt]) -> bool:
    """Whether an answer proves that this very send did nothing.

    A rejection proves nothing while an earlier send is unresolved: the refusal may be caused by that send's effect.
    """
    answer = _latest(attempt)
    if answer is None or not _definitely_not_executed(answer.answer):
        return False
    if answer.answer.signal is not Signal.REJECTED:
        return True
    earlier = [other for other in attempts if other.number < attempt.number]
    return all(proved_unexecuted(other, attempts) for other in earlier)


def settle(contracts: Sequence[Contract], evidence: Evidence, now: datetime) -> Settlement:
    """The one permitted next action for an operation that has been sent at least once."""
    history = History(evidence, tuple(contracts), now)
    definite = _by_definite_evidence(history)
    if definite is not None:
        return definite
    if not history.unresolved:
        return _by_refusals(history)
    verdicts = (_under(contract, history) for contract in contracts)
    verdict = next((verdict for verdict in verdicts if verdict is not None), AskOperator("contracts_exhausted"))
    return _after_lease(history) if isinstance(verdict, AskOperator) and _in_flight(history) else verdict


def _in_flight(history: History) -> bool:
    return not history.last.answers and history.now < history.last.lease_until


def _after_lease(history: History) -> AwaitCallback:
    """Nobody is asked about a send whose answer may still arrive."""
    return AwaitCallback(history.last.lease_until)


def _references(evidence: Evidence) -> set[str]:
    answered = {
        recorded.answer.reference
        for attempt in evidence.attempts
        for recorded in attempt.answers
        if recorded.answer.signal is Signal.ACCEPTED and recorded.answer.reference
    }
    seen = {probe.finding.reference for probe in evidence.probes if probe.finding.found is Found.ONE}
    called = {callback.reference for callback in evidence.callbacks if callback.ours}
    return {reference for reference in answered | seen | called if reference}


def _signals(evidence: Evidence) -> set[Signal]:
    return {recorded.answer.signal for attempt in evidence.attempts for recorded in attempt.answers}


def _by_definite_evidence(history: History) -> Settlement | None:
    """Evidence that no contract may overrule: our record, a contradiction, a defect of ours, somebody else's record."""
    references = _references(history.evidence)
    if Signal.MISMATCH in _signals(history.evidence):
        return AskOperator("content_mismatch")
    if len(references) > 1:
        return AskOperator("several_records")
    alarming = _alarming(history.conclusive())
    if alarming is not None:
        return alarming
    if references:
        return _accepted(history, references.pop())
    return None


def _accepted(history: History, reference: str) -> Settlement:
    if history.unresolved:
        return Accept(reference)
    return AskOperator("contradicting_answers")


def _alarming(probes: Sequence[Probe]) -> AskOperator | None:
    found = {probe.finding.found for probe in probes}
    if Found.MANY in found:
        return AskOperator("several_records")
    if Found.FOREIGN in found:
        return AskOperator("foreign_record")
    return None


def _by_refusals(history: History) -> Settlement:
    """Every send is proved unexecuted: the last refusal says what follows."""
    recorded = history.last.answers[-1]
    if recorded.answer.signal is Signal.REJECTED:
        return Reject(recorded.answer.code)
    wait = recorded.answer.retry_after or _backoff(len(history.attempts))
    return _resend_in_window(history, recorded.at + wait) or AskOperator("window_closed")


def _backoff(count: int, first: timedelta = timedelta(seconds=1)) -> timedelta:
    return min(first * int(2 ** min(count - 1, 8)), timedelta(minutes=10))


def window_end(contracts: Sequence[Contract], attempts: Sequence[Attempt]) -> datetime | None:
    """The time after which nothing may be sent under this key, or None where no window is declared."""
    ends = [attempts[0].permitted_at + c.window - c.margin for c in contracts if isinstance(c, Keyed) and attempts]
    return min(ends, default=None)


def _resend_in_window(history: History, not_before: datetime) -> Resend | None:
    """A resend of the same bytes if the key still means something at that time."""
    end = window_end(history.contracts, history.attempts)
    if end is not None and max(not_before, history.now) >= end:
        return None
    return Resend(not_before)


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


def _named_record(history: History) -> ProbeAt | None:
    """EXISTS names a record, or says that there is one: look at it before anything else."""
    recorded = _latest(history.last)
    if recorded is None or recorded.answer.signal is not Signal.EXISTS:
        return None
    looked = [probe for probe in history.evidence.probes if probe.began_at >= recorded.at]
    if any(probe.finding.found is not Found.FAILED for probe in looked):
        return None
    return ProbeAt(history.next_look(recorded.at, timedelta(seconds=5)), recorded.answer.reference)


def _lookups_failing(history: History) -> AskOperator | None:
    return AskOperator("lookups_failing") if history.failed_in_a_row() >= MAX_FAILED_LOOKUPS else None


def _throttled(history: History, resends: int) -> Resend | None:
    """Refusal was said but is not documented: wait as asked, then the same bytes."""
    recorded = _latest(history.last)
    if recorded is None or recorded.answer.signal is not Signal.THROTTLED or len(history.attempts) > resends:
        return None
    wait = recorded.answer.retry_after or _backoff(len(history.attempts))
    return _resend_in_window(history, recorded.at + wait)


def _keyed(contract: Keyed, history: History) -> Settlement | None:
    named = _named_record(history)
    if named is not None:
        return _lookups_failing(history) or named
    if len(history.attempts) > contract.resends or not _replay_helps(contract, history):
        return None
    throttled = _throttled(history, contract.resends)
    if throttled is not None:
        return throttled
    recorded = _latest(history.last)
    silent_since = recorded.at if recorded else history.last.lease_until
    return _resend_in_window(history, silent_since + _backoff(len(history.attempts), contract.backoff))


def _replay_helps(contract: Keyed, history: History) -> bool:
    """A stored failure is only replayed, and a refusal of a later send says nothing of the earlier one."""
    recorded = _latest(history.last)
    if recorded is None:
        return True
    if recorded.answer.signal in (Signal.REJECTED, Signal.EXISTS):
        return False
    if recorded.answer.doubt is Doubt.CLIENT_ERROR:
        return False
    return not (recorded.answer.doubt is Doubt.SERVER_ERROR and contract.stored is Stored.ALL_STARTED)


def _absent(history: History, earliest: datetime) -> bool:
    return bool(history.absences_since(earliest))


def _upsert(contract: Upsert, history: History) -> Settlement | None:
    named = _named_record(history)
    if named is not None:
        return _lookups_failing(history) or named
    throttled = _throttled(history, contract.resends)
    if throttled is not None:
        return throttled
    earliest = history.lease_ended + contract.settle
    if not _absent(history, earliest):
        return _lookups_failing(history) or ProbeAt(history.next_look(earliest, contract.retry))
    if len(history.attempts) > contract.resends:
        return None
    return _resend_in_window(history, history.now)


def _strong(contract: LookupStrong, history: History) -> Settlement | None:
    named = _named_record(history)
    if named is not None:
        return _lookups_failing(history) or named
    throttled = _throttled(history, contract.resends)
    if throttled is not None:
        return throttled
    earliest = history.lease_ended + contract.settle
    if not _absent(history, earliest):
        return _lookups_failing(history) or ProbeAt(history.next_look(earliest, contract.retry))
    if not contract.resend_when_absent or len(history.attempts) > contract.resends or _replays_failure(history):
        return None
    return _resend_in_window(history, history.now)


def _replays_failure(history: History) -> bool:
    """Under a key that stores failures, the same bytes would only bring the same failure back."""
    stores = any(isinstance(c, Keyed) and c.stored is Stored.ALL_STARTED for c in history.contracts)
    return stores and history.last_doubt is Doubt.SERVER_ERROR


def _lagged(contract: LookupLagged, history: History) -> Settlement | None:
    throttled = _throttled(history, contract.resends)
    if throttled is not None:
        return throttled
    earliest = history.lease_ended + contract.settle
    horizon = earliest + contract.lag
    misses = history.absences_since(earliest)
    if len(misses) < contract.misses or misses[-1].began_at < horizon:
        return _lookups_failing(history) or ProbeAt(_next_poll(contract, history, misses))
    if not contract.duplicates_harmless or len(history.attempts) > contract.resends:
        return None
    return _resend_in_window(history, history.now)


def _next_poll(contract: LookupLagged, history: History, misses: Sequence[Probe]) -> datetime:
    """Evenly over the lag; the last look falls on or after its end."""
    earliest = history.lease_ended + contract.settle
    gap = contract.lag / max(contract.misses - 1, 1)
    following = history.next_look(earliest, gap)
    return max(following, earliest + contract.lag) if len(misses) >= contract.misses - 1 else following


def _saved_id(contract: SavedId, history: History) -> Settlement | None:
    until = history.lease_ended + contract.callback_within
    if history.now >= until or _signals_exist(history):
        return None
    return AwaitCallback(until)


def _signals_exist(history: History) -> bool:
    return Signal.EXISTS in _signals(history.evidence)


def may_open_generation(contracts: Sequence[Contract], evidence: Evidence, now: datetime, reversed_: bool) -> bool:
    """Whether proof is recorded that the former one never happened or was undone by an accepted reversal."""
    return reversed_ or isinstance(settle(contracts, evidence, now), Reject)


def finding_failed(code: str) -> Finding:
    """A look-up that could not be completed."""
    return Finding(Found.FAILED, code)
