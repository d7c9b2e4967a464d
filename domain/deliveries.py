"""What one inbound message says, once its bytes are kept and judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from domain.identity import SubjectRef


class ReceiptVerdict(StrEnum):
    """What was decided about the raw bytes of one HTTP delivery."""

    GENUINE = "genuine"
    BAD_SIGNATURE = "bad_signature"
    STALE_TIMESTAMP = "stale_timestamp"
    UNREADABLE = "unreadable"


class Change(StrEnum):
    """What happened to the subject."""

    CREATED = "created"
    PROPERTY = "property"
    MERGED = "merged"
    DELETED = "deleted"
    SUBMITTED = "submitted"


@dataclass(frozen=True, slots=True)
class Delivery:
    """One understood element of a batch.

    `by` is the outside identity of the author (`hubspot:61000001`) or None; `own_echo` is true when our own integration
    made the change; `inputs` carries the inputs themselves where the sender has no record to read.
    """

    index: int
    dedupe_key: str
    change: Change
    subject: SubjectRef
    occurred_at: datetime
    property_name: str = ""
    property_value: str | None = None
    by: str | None = None
    own_echo: bool = False
    merged_from: tuple[SubjectRef, ...] = ()
    inputs: Mapping[str, str | None] | None = None
    marker: str = ""


@dataclass(frozen=True, slots=True)
class Quarantined:
    """One element that could not be understood; its neighbours go through."""

    index: int
    dedupe_key: str
    reason: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """The raw bytes of one HTTP delivery, with the verdict reached on those bytes alone."""

    source: str
    body: bytes
    verdict: ReceiptVerdict
    headers: Mapping[str, str] = field(default_factory=dict)


class Disposition(StrEnum):
    """What became of one element."""

    STARTED = "started"
    PENDING_READ = "pending_read"
    READ = "read"
    ECHO = "echo"
    STALE = "stale"
    DUPLICATE = "duplicate"
    IRRELEVANT = "irrelevant"
    NO_REQUEST = "no_request"
    ALREADY_EXISTS = "already_exists"
    RELINKED = "relinked"
    QUARANTINED = "quarantined"
