"""Operations before and after they are sent: generations, keys, and what counts as proof."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from domain.contracts import Contract
from domain.credentials import Account
from domain.errors import ContentErased
from domain.execution import Execution
from domain.identity import OperationIdentity, operation_key
from domain.permits import FreshReading, Permitted, Timing
from domain.records import Facts, Operation
from domain.signals import Answer, Finding

BY_OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Sendable:
    """What is to be sent for one step, before anybody permitted it. `content` is rendered for `key`."""

    step: str
    account: Account
    kind: str
    key: str
    generation: int
    content: bytes
    contracts: tuple[Contract, ...]

    @property
    def system(self) -> str:
        return self.account.system


@dataclass(frozen=True, slots=True)
class PermitAsked:
    """One call for a permit. `token` names the caller, so that a lost commit is found and not asked for twice."""

    sendable: Sendable
    reading: FreshReading | None
    timing: Timing
    execution: Execution
    token: str


@dataclass(frozen=True, slots=True)
class PermitWanted:
    """A permit still to be asked for: what is sent depends on the version that the transaction finds."""

    rendered: Callable[[Facts], Sendable]
    timing: Timing
    token: str


@dataclass(frozen=True, slots=True)
class Granted:
    """A permit with the very bytes that were recorded for it."""

    permitted: Permitted
    sendable: Sendable


@dataclass(frozen=True, slots=True)
class Line:
    """An operation by key, with the contracts that settle it."""

    key: str
    contracts: tuple[Contract, ...]


def next_generation(facts: Facts, step: str, item: str = "") -> int:
    """The generation that a send of this step belongs to: the last one, or a new one after proof of its absence.

    Bytes are fixed per generation, so a version that was amended while nothing had left needs a new one too.
    """
    line, target = facts.line(step, item), facts.target
    if line is None:
        return 1
    amended = line.outcome == "not_sent" and target is not None and line.input_version != target.version.number
    return line.generation + 1 if amended or over_for_good(line) else line.generation


def over_for_good(operation: Operation) -> bool:
    """Proved not to have happened, and not to be sent again under this key."""
    declared = operation.outcome == "not_sent" and operation.settled_by.startswith(BY_OPERATOR)
    return operation.outcome == "rejected" or declared


def proved_absent(operation: Operation) -> bool:
    """Proved not to have happened: refused, never left, or declared so by an operator."""
    return operation.outcome in ("rejected", "not_sent") and not operation.evidence.effect_seen


def key_for(facts: Facts, step: str, generation: int, item: str = "") -> str:
    """The key of a create effect: request, step, item and generation, whichever run asks."""
    return operation_key(OperationIdentity(facts.run.request_id, step, item, generation))


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer to record: `id` is the sender's own, so that saving it again adds nothing."""

    id: str
    key: str
    attempt: int
    answer: Answer
    account: Account


@dataclass(frozen=True, slots=True)
class Looked:
    """One look-up to record: `began_at` is the database clock before it."""

    id: str
    key: str
    began_at: datetime
    finding: Finding
    account: Account


def content_of(operation: Operation) -> bytes:
    """The bytes of all its sends. Raises ContentErased."""
    if operation.content is None:
        raise ContentErased("operation", operation.key)
    return operation.content


def evidence_of(operation: Operation) -> Mapping[str, Any]:
    """How events name an operation."""
    return {"operation": operation.key, "generation": operation.generation}
