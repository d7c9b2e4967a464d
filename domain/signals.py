"""What an outside answer means, normalised by the connector before any recovery contract is consulted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class Signal(StrEnum):
    """The closed set of answers to one send."""

    NOT_SENT = "not_sent"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    THROTTLED = "throttled"
    BUSY = "busy"
    MISMATCH = "mismatch"
    EXISTS = "exists"
    UNKNOWN = "unknown"


class Doubt(StrEnum):
    """Why an answer is UNKNOWN. Recovery contracts treat a stored server error unlike a lost answer."""

    NO_ANSWER = "no_answer"
    SERVER_ERROR = "server_error"
    UNREADABLE = "unreadable"
    CLIENT_ERROR = "client_error"
    REDIRECT = "redirect"


@dataclass(frozen=True, slots=True)
class Answer:
    """One classified answer.

    `reference` is the outside id; `code` a short machine code without payload text; `refused` on THROTTLED says that
    the API documents refusal before execution; `excerpt` is a short cleaned piece of a body that could not be read.
    """

    signal: Signal
    code: str
    reference: str | None = None
    doubt: Doubt | None = None
    retry_after: timedelta | None = None
    refused: bool = False
    http_status: int | None = None
    excerpt: str = ""


class Found(StrEnum):
    """What one look-up saw. `FAILED` means that it saw nothing at all, not even an absence."""

    NONE = "none"
    ONE = "one"
    MANY = "many"
    FOREIGN = "foreign"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one probe: ONE only if the record carries our own key and our content.

    `retry_after`: the pause that a look-up was told to make, which saw nothing.
    """

    found: Found
    code: str
    reference: str | None = None
    retry_after: timedelta | None = None


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """An answer with the database time at which it was recorded."""

    answer: Answer
    at: datetime


@dataclass(frozen=True, slots=True)
class Attempt:
    """One permitted send. Until `lease_until` it may be in flight when it has no answer.

    `dispatch` names the HTTP request that carries it, alone or with others.
    """

    number: int
    permitted_at: datetime
    lease_until: datetime
    answers: tuple[RecordedAnswer, ...] = ()
    dispatch: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """One look-up; an absence counts from the time at which it began."""

    began_at: datetime
    finding: Finding


@dataclass(frozen=True, slots=True)
class Callback:
    """The provider told us of a record that echoes our key or reference."""

    at: datetime
    reference: str
    ours: bool = True


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is recorded about one generation of one operation."""

    attempts: tuple[Attempt, ...] = ()
    probes: tuple[Probe, ...] = ()
    callbacks: tuple[Callback, ...] = ()

    @property
    def effect_seen(self) -> bool:
        """Whether anything recorded says that the effect was made."""
        answered = any(r.answer.signal is Signal.ACCEPTED for a in self.attempts for r in a.answers)
        found = any(probe.finding.found is Found.ONE for probe in self.probes)
        return answered or found or any(callback.ours for callback in self.callbacks)
