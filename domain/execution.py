"""What travels through Temporal: ids, numbers, codes and times, never anything from an input version."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from pydantic.dataclasses import dataclass as validated

CODE_VERSION = "3"
"""Version of the workflow code, recorded in every event and given to every execution; raised with every change to which
an execution that began earlier cannot be replayed."""
FIRST = "1"
"""Under which every step was an activity of its own."""
SECOND = "2"
"""Under which every step that sends was an activity of its own."""


@dataclass(frozen=True, slots=True)
class Execution:
    """Which engine execution asks: the epoch from the store and Temporal's own run id."""

    epoch: int
    engine_run: str


# a validator that belongs to the class is made once; the SDK would have one made for every workflow that reads another
@validated(frozen=True, slots=True)
class Start:
    """The one input of every process workflow."""

    run_id: str
    epoch: int
    process: str
    business_key: str
    link: str
    send_seconds: float
    """Longest time that an activity which sends may take: permit, request and saving the answer."""
    read_seconds: float = 90
    """Longest time that an activity which only reads outside may take: every record once, and the store."""
    code: str = FIRST
    """`CODE_VERSION` when the execution was started, to which it keeps."""


@dataclass(frozen=True, slots=True)
class StepCall:
    """The one input of every activity."""

    run_id: str
    execution: Execution
    step: str
    quick_reads: bool = True
    """Whether the engine repeats this activity by itself when an outside read fails; never where it also sends."""
    woken: bool = False
    """Whether a signal ended the wait before this call."""


class Then(StrEnum):
    """What the workflow does next. The store decided; the workflow only waits and calls."""

    GO_ON = "go_on"
    WAIT = "wait"
    REVIEW = "review"
    """Wait as well, for the answer to a review: a hint may be the decision, so the step that rests on it looks."""
    ENDED = "ended"


@validated(frozen=True, slots=True)
class Directive:
    """The one result of every activity: what to do next and what a person in Temporal UI should read meanwhile."""

    then: Then
    state: str
    reason: str
    input_version: int
    next_owner: str
    deadline: datetime | None
    until: datetime | None
    """With WAIT and REVIEW: look again at this time, or earlier when nudged."""
    summary: str
    details: str
    at: datetime | None = None
    """The database clock of this answer, from which a wait until `until` is measured: the engine's may be ahead."""
