"""What a provider tells by itself about a record that may be ours, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from domain.canonical import Json
from domain.records import Operation
from domain.signals import Callback


@dataclass(frozen=True, slots=True)
class Announced:
    """One event about one record: which kind of operation makes such records, our key as it echoes it, and its id.

    Without a key it is matched by `reference`, the provider's id, which an answer must have named before.
    """

    kind: str
    key: str | None
    reference: str
    record: Mapping[str, Json] = field(repr=False)


class CallsBack(Protocol):
    """A connector whose system calls back. It declares how a callback is matched and whether the record is ours."""

    system: str

    def announced(self, event: Mapping[str, Json]) -> Announced | None:
        """What the event says; None where it is about no effect of ours. Raises InvalidInput."""

    def compared(self, kind: str, content: bytes, record: bytes) -> str:
        """Empty if the record (canonical JSON) shows what the stored bytes asked for, else a code: `other_name`."""


@dataclass(frozen=True, slots=True)
class Told:
    """One understood element of a body: `content` is the record in canonical JSON."""

    index: int
    dedupe_key: str
    kind: str
    key: str | None
    reference: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Irrelevant:
    """One element about nothing of ours."""

    index: int
    dedupe_key: str


class Disposition(StrEnum):
    """What became of one element. MATCHED is evidence whose consequence is still to be drawn."""

    MATCHED = "matched"
    NOTED = "noted"
    TAKEN_UP = "taken_up"
    CONTRADICTS = "contradicts"
    UNMATCHED = "unmatched"
    IRRELEVANT = "irrelevant"
    QUARANTINED = "quarantined"
    DUPLICATE = "duplicate"


def consequence(operation: Operation, told: Callback, *, known: bool) -> Disposition:
    """What a callback means for its operation as it stands.

    `known`: the same was said before, or an operator had it before them when they said what became of the operation.
    """
    if known:
        return Disposition.NOTED
    if operation.outcome == "unknown":
        return Disposition.TAKEN_UP
    return Disposition.CONTRADICTS if contradicts(operation, told.reference) else Disposition.NOTED


def contradicts(operation: Operation, reference: str | None) -> bool:
    """Whether a record with this id under the operation's key speaks against its definite outcome.

    An accepted record that was changed since does not: agreement is a moment.
    """
    return operation.outcome not in ("unknown", "accepted") or (
        operation.outcome == "accepted" and reference != operation.reference
    )
