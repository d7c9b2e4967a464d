"""What the store remembers of a run, as frozen values that decisions are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from domain.approvals import Decision, NotCovered, Version, covering
from domain.execution import Then
from domain.identity import SubjectRef
from domain.process import Snapshot
from domain.signals import Evidence
from domain.states import OPEN, RunKind, RunState

KEY_IS_SPENT = frozenset({"window_closed", "sends_exhausted"})
"""Reasons for which no send of an operation is permitted any more although none has executed."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run as it stands under the request lock."""

    id: str
    request_id: str
    number: int
    kind: RunKind
    process: str
    policy_version: str
    business_key: str
    correlation_id: str
    state: RunState
    seq: int
    reason: str
    state_since: datetime
    deadline: datetime | None
    next_owner: str | None
    sealed_version: int | None
    tries: int
    cancel_requested_at: datetime | None
    engine_epoch: int
    engine_run: str | None

    @property
    def is_open(self) -> bool:
        return self.state in OPEN


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """An input version with its bytes; None once they were erased."""

    version: Version
    canonical: bytes | None
    problems: tuple[str, ...]
    read_at: datetime
    owner: str | None


@dataclass(frozen=True, slots=True)
class Review:
    """A question put to a role about one input version."""

    id: str
    version: int
    fingerprint: str
    role: str
    deadline: datetime
    status: str


@dataclass(frozen=True, slots=True)
class Operation:
    """One intended effect with all its evidence; without its bytes once they were erased."""

    key: str
    run_id: str
    step: str
    item: str
    generation: int
    input_version: int
    system: str
    kind: str
    content: bytes | None
    outcome: str
    settled_by: str
    reference: str | None
    in_flight_until: datetime | None
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Facts:
    """A run with everything around it at one instant of the database clock."""

    run: Run
    now: datetime
    subject: SubjectRef
    versions: tuple[StoredVersion, ...]
    reviews: tuple[Review, ...]
    decisions: tuple[Decision, ...]
    operations: tuple[Operation, ...]
    unread: int
    """Highest id among unread deliveries of the request; 0 when there is none."""
    inline: Mapping[str, Any] | None
    """The newest unread delivery that carries its inputs itself."""
    throttles: Mapping[str, datetime]
    subjects_collide: bool
    hints: int = 0
    """Recorded hints that the run's execution had not seen before this transaction."""

    @property
    def newest(self) -> StoredVersion | None:
        return self.versions[-1] if self.versions else None

    @property
    def target(self) -> StoredVersion | None:
        """The version this run is about: the sealed one, else the newest."""
        if self.run.sealed_version is None:
            return self.newest
        return self.versions[self.run.sealed_version - 1]

    def coverage(self) -> Decision | NotCovered:
        """The decision that permits sends of the version that this run is about, at this instant, or why none does."""
        target = self.target
        return covering(self.decisions, target.version, self.now) if target is not None else NotCovered.MISSING

    def covered(self) -> bool:
        """Whether there is such a decision."""
        return isinstance(self.coverage(), Decision)

    def line(self, step: str, item: str = "") -> Operation | None:
        """The newest generation of the operation of this step."""
        found = [op for op in self.operations if op.step == step and op.item == item]
        return max(found, key=lambda op: op.generation, default=None)

    def in_doubt(self) -> tuple[Operation, ...]:
        """Operations that a person must settle first: unknown, seen after they were ruled out, or out of sends."""
        ruled_out = ("rejected", "not_sent")
        contradicted = (op for op in self.operations if op.outcome in ruled_out and op.evidence.effect_seen)
        return (*self.unsettled(), *contradicted, *self._spent())

    def _spent(self) -> tuple[Operation, ...]:
        """Operations that never left and whose key may not be used again: a person rules whether another one may."""
        if self.run.reason not in KEY_IS_SPENT:
            return ()
        return tuple(op for op in self.operations if op.outcome == "not_sent" and op.settled_by == "answer")

    def unsettled(self) -> tuple[Operation, ...]:
        """Operations that may have happened and nobody knows."""
        return tuple(op for op in self.operations if op.outcome == "unknown")


@dataclass(frozen=True, slots=True)
class Taken:
    """One snapshot: `read_at` is the database clock before the read, `upto` the last delivery that it answers.

    `live` is the record that answered, which after a merge is another than the one asked for.
    """

    snapshot: Snapshot
    marker: str
    read_at: datetime
    makers: frozenset[str]
    owner: str | None
    upto: int
    live: SubjectRef
    linked: SubjectRef | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """`until` with WAIT: look again at this time at the latest; None means only when nudged (or at the recheck).

    `refused` is the code of the refused permit that led here, `settled` the key of the operation that is no longer in
    doubt since then.
    """

    run: Run
    then: Then
    until: datetime | None = None
    refused: str = ""
    settled: str = ""


@dataclass(frozen=True, slots=True)
class Compared:
    """One record read back for agreement: the fields that were compared and those that differ."""

    system: str
    reference: str
    content: bytes
    began_at: datetime
    differing: tuple[str, ...]
