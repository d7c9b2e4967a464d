"""The only door to sending: one pure answer to "may this operation be sent now?"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeAlias

from domain.approvals import Decision, NotCovered, Version, covering
from domain.contracts import Contract, Resend
from domain.recovery import proved_unexecuted, settle, window_end
from domain.signals import Evidence
from domain.states import RunKind, RunState


class Follow(StrEnum):
    """What a refusal leads to."""

    REVIEW = "review"
    SETTLE = "settle"
    CANCEL = "cancel"
    RECORD_INTENT = "record_intent"
    OPERATOR = "operator"
    REREAD = "reread"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Refused:
    """No permit; `until` where waiting helps."""

    code: str
    follow: Follow
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Permitted:
    """One send may begin before `send_before`; until `lease_until` it may be in flight."""

    attempt: int
    send_before: datetime
    lease_until: datetime
    decision_id: str


Permission: TypeAlias = "Permitted | Refused"


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a permit lasts and how old a reading may be."""

    send_before: timedelta
    send_timeout: timedelta
    fresh_for: timedelta


@dataclass(frozen=True, slots=True)
class FreshReading:
    """A CRM reading of this transaction's own activity: when it began (database clock) and what it saw."""

    began_at: datetime
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Asking:
    """Everything about the run that a permit depends on, read under the request lock."""

    kind: RunKind
    state: RunState
    version: Version
    newest_fingerprint: str
    sealed: bool
    decisions: Sequence[Decision]
    canceled: bool
    subjects_collide: bool
    unread_deliveries: bool
    turn: Turn | None
    """The turn to wait for, where the system asked all runs for a pause or somebody has to mend something first."""


@dataclass(frozen=True, slots=True)
class Line:
    """The operation asked for: its contracts and all that is recorded of it."""

    contracts: tuple[Contract, ...]
    evidence: Evidence
    in_flight_until: datetime | None


@dataclass(frozen=True, slots=True)
class Turn:
    """When a run may go on, and why it waits."""

    at: datetime
    why: str


SENDING = frozenset({RunState.RUNNING, RunState.OUTCOME_UNKNOWN, RunState.RETRYING})


def permission(asking: Asking, line: Line, reading: FreshReading | None, timing: Timing, now: datetime) -> Permission:
    """A permit, or the refusal with what follows from it."""
    refusal = _run_refuses(asking) or _line_refuses(line, now)
    if refusal is not None:
        return refusal
    decision = covering(asking.decisions, asking.version, now)
    if isinstance(decision, NotCovered):
        return Refused(decision, Follow.REVIEW)
    attempts = line.evidence.attempts
    if all(proved_unexecuted(attempt, attempts) for attempt in attempts):
        stale = _stale(asking, reading, timing, now)
        if stale is not None:
            return stale
    if asking.turn is not None and now < asking.turn.at:
        return Refused(asking.turn.why, Follow.WAIT, asking.turn.at)
    return _permit(line, decision, timing, now)


def _run_refuses(asking: Asking) -> Refused | None:
    if asking.kind is RunKind.REHEARSAL:
        return Refused("rehearsal", Follow.RECORD_INTENT)
    if asking.canceled:
        return Refused("cancel_requested", Follow.CANCEL)
    if asking.subjects_collide:
        return Refused("subjects_merged", Follow.OPERATOR)
    if asking.state not in SENDING:
        return Refused("not_sending", Follow.REVIEW if asking.state is RunState.AWAITING_REVIEW else Follow.SETTLE)
    return None


def _line_refuses(line: Line, now: datetime) -> Refused | None:
    if line.in_flight_until is not None and now < line.in_flight_until:
        return Refused("in_flight", Follow.SETTLE, line.in_flight_until)
    if not line.evidence.attempts:
        return None
    settlement = settle(line.contracts, line.evidence, now)
    if isinstance(settlement, Resend) and settlement.not_before <= now:
        return None
    return Refused("not_a_resend", Follow.SETTLE)


def _stale(asking: Asking, reading: FreshReading | None, timing: Timing, now: datetime) -> Refused | None:
    """The send that seals rests on what the CRM says now; once sealed, newer versions are held and change nothing."""
    if asking.sealed:
        return None
    if asking.unread_deliveries or reading is None or now - reading.began_at > timing.fresh_for:
        return Refused("reading_not_fresh", Follow.REREAD)
    if reading.fingerprint != asking.newest_fingerprint:
        return Refused("reading_not_recorded", Follow.REREAD)
    return None


def _permit(line: Line, decision: Decision, timing: Timing, now: datetime) -> Permission:
    latest = now + timing.send_before
    end = window_end(line.contracts, line.evidence.attempts)
    send_before = latest if end is None else min(latest, end)
    if send_before <= now:
        return Refused("window_closed", Follow.SETTLE)
    lease_until = latest + timing.send_timeout
    return Permitted(len(line.evidence.attempts) + 1, send_before, lease_until, decision.id)
