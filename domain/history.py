"""What the recorded evidence about one operation says: the questions that every recovery contract asks of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from domain.contracts import Contract, Keyed, Stored
from domain.signals import Answer, Attempt, Doubt, Evidence, Found, Probe, RecordedAnswer, Signal

MAX_FAILED_LOOKUPS = 20
"""Consecutive look-ups that saw nothing at all before a person is asked to look at the connection."""

LONGEST_WAIT = timedelta(days=1)
"""The longest documented Retry-After (a HubSpot migration) is 24 hours; more than that is nonsense."""


def heard(attempt: Attempt) -> tuple[RecordedAnswer, ...]:
    """The answers that say something: silence, whenever it was recorded, takes nothing away from a real answer."""
    return tuple(recorded for recorded in attempt.answers if not _silent(recorded.answer))


def _silent(answer: Answer) -> bool:
    return answer.signal is Signal.UNKNOWN and answer.doubt in (None, Doubt.NO_ANSWER)


def _proves_nothing_done(answer: Answer, after_unresolved: bool) -> bool:
    """A rejection after an unresolved send proves nothing: that send's effect may be what caused it."""
    match answer.signal:
        case Signal.NOT_SENT:
            return True
        case Signal.THROTTLED:
            return answer.refused
        case Signal.REJECTED:
            return not after_unresolved
        case _:
            return False


def unresolved_among(attempts: Sequence[Attempt]) -> tuple[Attempt, ...]:
    """The sends that may have executed, in order."""
    unresolved: list[Attempt] = []
    for attempt in sorted(attempts, key=lambda each: each.number):
        answers = heard(attempt)
        after_unresolved = bool(unresolved)
        if not answers or not all(_proves_nothing_done(each.answer, after_unresolved) for each in answers):
            unresolved.append(attempt)
    return tuple(unresolved)


def proved_unexecuted(attempt: Attempt, attempts: Sequence[Attempt]) -> bool:
    """Whether the answers to this very send prove that it did nothing."""
    return attempt in attempts and attempt not in unresolved_among(attempts)


def window_end(contracts: Sequence[Contract], attempts: Sequence[Attempt]) -> datetime | None:
    """The time from which nothing may be sent under this key, or None where no window is declared."""
    first = min((attempt.permitted_at for attempt in attempts), default=None)
    if first is None:
        return None
    return min((first + c.window - c.margin for c in contracts if isinstance(c, Keyed)), default=None)


@dataclass(frozen=True)
class History:
    """Evidence in the light of the declared contracts at one moment."""

    contracts: tuple[Contract, ...]
    evidence: Evidence
    now: datetime

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        return self.evidence.attempts

    @cached_property
    def unresolved(self) -> tuple[Attempt, ...]:
        return unresolved_among(self.attempts)

    @cached_property
    def answers(self) -> tuple[RecordedAnswer, ...]:
        return tuple(recorded for attempt in self.attempts for recorded in heard(attempt))

    @property
    def signals(self) -> frozenset[Signal]:
        return frozenset(recorded.answer.signal for recorded in self.answers)

    @property
    def in_flight_until(self) -> datetime | None:
        """The end of the lease of a send that has no answer yet, while that lease runs."""
        ends = [each.lease_until for each in self.attempts if not each.answers and self.now < each.lease_until]
        return max(ends, default=None)

    @property
    def window_end(self) -> datetime | None:
        return window_end(self.contracts, self.attempts)

    # What shows that the effect exists.

    @property
    def references(self) -> frozenset[str]:
        """Every outside id under which the effect was reported or seen."""
        return frozenset(reference for reference in self._sightings if reference)

    @property
    def nameless(self) -> bool:
        """The effect was reported or seen, and nothing says under which id."""
        return bool(self._sightings) and not self.references

    @property
    def contradicted(self) -> bool:
        """The effect exists although every send, or the very send that reported it, is on record as not executed."""
        return (bool(self._sightings) and not self.unresolved) or any(map(_contradicts_itself, self.attempts))

    @cached_property
    def _sightings(self) -> tuple[str | None, ...]:
        answered = (each.answer.reference for each in self.answers if each.answer.signal is Signal.ACCEPTED)
        seen = (each.finding.reference for each in self.evidence.probes if each.finding.found is Found.ONE)
        called = (each.reference for each in self.evidence.callbacks if each.ours)
        return (*answered, *seen, *called)

    @property
    def several(self) -> bool:
        return len(self.references) > 1 or self._found(Found.MANY)

    @property
    def foreign(self) -> bool:
        """A record under our key, or one that echoes it, does not hold our content."""
        return self._found(Found.FOREIGN) or any(not callback.ours for callback in self.evidence.callbacks)

    def _found(self, found: Found) -> bool:
        return any(probe.finding.found is found for probe in self.evidence.probes)

    # What may still be done.

    @property
    def lease_ended(self) -> datetime:
        """The latest end of a lease among sends that may have executed: H and V count from here."""
        return max(attempt.lease_until for attempt in self.unresolved)

    @property
    def only_throttled(self) -> bool:
        """Each send that may have executed was told to come back later, in words that promise nothing."""
        return all({each.answer.signal for each in heard(send)} == {Signal.THROTTLED} for send in self.unresolved)

    @property
    def repeat_is_pointless(self) -> bool:
        """The key is taken or the content refused: the same bytes can bring nothing but the same answer."""
        return not self.signals.isdisjoint({Signal.EXISTS, Signal.REJECTED}) or self._failure_is_replayed

    @property
    def _failure_is_replayed(self) -> bool:
        stored = any(isinstance(c, Keyed) and c.stored is Stored.ALL_STARTED for c in self.contracts)
        return stored and Doubt.SERVER_ERROR in self.doubts

    @property
    def doubts(self) -> frozenset[Doubt | None]:
        return frozenset(each.answer.doubt for send in self.unresolved for each in heard(send))

    def repeat_not_before(self, first_backoff: timedelta) -> datetime:
        """After the last answer, or the lease that brought none: as long as was asked and as backing off says.

        Services count in windows of a second, so the first pause may be short; the tries of one run are to outlast
        a limit that lasts.
        """
        last = max(self.attempts, key=lambda each: each.number)
        answer = last.answers[-1] if last.answers else None
        asked = (answer and answer.answer.retry_after) or timedelta(0)
        wait = min(max(asked, _backoff(len(self.attempts), first_backoff)), LONGEST_WAIT)
        quiet_since = answer.at if answer else last.lease_until
        return max(quiet_since + wait, self.in_flight_until or quiet_since)

    # Look-ups.

    @property
    def lookups_failing(self) -> bool:
        latest = self.evidence.probes[-MAX_FAILED_LOOKUPS:]
        return len(latest) == MAX_FAILED_LOOKUPS and all(each.finding.found is Found.FAILED for each in latest)

    def absences_since(self, moment: datetime) -> tuple[Probe, ...]:
        """Look-ups begun at or after `moment` that saw no record."""
        return tuple(p for p in self.evidence.probes if p.finding.found is Found.NONE and p.began_at >= moment)

    def next_look(self, earliest: datetime, retry: timedelta) -> datetime:
        """`earliest`, or `retry` after the last look-up that began at or after it."""
        began = [probe.began_at for probe in self.evidence.probes if probe.began_at >= earliest]
        return max(began) + retry if began else earliest

    def unread_conflict(self) -> RecordedAnswer | None:
        """The latest answer that our unique key is taken, unless a look-up has seen something, or nothing, since."""
        taken = [recorded for recorded in self.answers if recorded.answer.signal is Signal.EXISTS]
        if not taken:
            return None
        latest = max(taken, key=lambda recorded: recorded.at)
        return None if any(_saw(probe, latest.at) for probe in self.evidence.probes) else latest


def _contradicts_itself(attempt: Attempt) -> bool:
    answers = [recorded.answer for recorded in heard(attempt)]
    accepted = any(answer.signal is Signal.ACCEPTED for answer in answers)
    return accepted and any(_proves_nothing_done(answer, after_unresolved=False) for answer in answers)


def _saw(probe: Probe, since: datetime) -> bool:
    return probe.began_at >= since and probe.finding.found is not Found.FAILED


def _backoff(sends: int, first: timedelta) -> timedelta:
    return min(first * int(2 ** min(sends - 1, 10)), timedelta(minutes=10))
