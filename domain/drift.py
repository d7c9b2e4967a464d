"""Where the world outside no longer is what the store says: pure comparisons of one record each."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from domain.effects import Fields, differing
from domain.identity import is_operation_key
from domain.operations import proved_absent
from domain.ports import Carrier
from domain.records import Facts, Operation
from domain.signals import Finding, Found


class Apart(StrEnum):
    """How a record and the store differ."""

    GONE = "gone"
    CHANGED = "changed"
    SEVERAL = "several"
    EXISTS = "exists"
    NOT_SHOWN = "not_shown"
    UNRECORDED = "unrecorded"
    UNREADABLE = "unreadable"


MEANING: Mapping[Apart, str] = {
    Apart.GONE: "accepted, and no longer there",
    Apart.CHANGED: "fields differ from the approved version",
    Apart.SEVERAL: "more than one record carries the key of one operation",
    Apart.EXISTS: "recorded as not executed, and it exists",
    Apart.NOT_SHOWN: "the CRM shows another state than the store holds",
    Apart.UNRECORDED: "carries the key of an operation that the store does not have",
    Apart.UNREADABLE: "could not be read: nothing is known of it",
}


@dataclass(frozen=True, slots=True)
class Drift:
    """One difference. `fields` are names or codes, never values; `run` is empty where no run is known."""

    run: str
    system: str
    record: str
    apart: Apart
    fields: tuple[str, ...] = ()


def to_read_back(operations: Sequence[Operation]) -> tuple[Operation, ...]:
    """Effects that must exist."""
    return tuple(op for op in operations if op.outcome == "accepted" and op.reference)


def to_look_for(operations: Sequence[Operation], now: datetime) -> tuple[Operation, ...]:
    """Every line that was sent and is settled: one record at most may carry its key.

    What is unknown or written off may exist, and says so already; with what was erased nothing can be compared.
    """
    return tuple(op for op in operations if op.content is not None and op.evidence.attempts and _settled(op, now))


def _settled(operation: Operation, now: datetime) -> bool:
    quiet = operation.in_flight_until is None or operation.in_flight_until <= now
    return quiet and (operation.outcome == "accepted" or proved_absent(operation))


def of_finding(operation: Operation, finding: Finding) -> Drift | None:
    """What a look-up by our key says against the outcome. A record that people changed is no second record."""
    found = {Found.MANY: Apart.SEVERAL, Found.FAILED: Apart.UNREADABLE}.get(finding.found)
    if operation.outcome != "accepted" and finding.found in (Found.ONE, Found.FOREIGN):
        found = Apart.EXISTS
    return Drift(operation.run_id, operation.system, operation.key, found, (finding.code,)) if found else None


def of_fields(operation: Operation, expected: Fields, found: Fields) -> Drift | None:
    """What a record that was read back says against the version it was made of."""
    names = differing(expected, found)
    return Drift(operation.run_id, operation.system, str(operation.reference), Apart.CHANGED, names) if names else None


def of_projection(facts: Facts, expected: Fields, shown: Fields) -> Drift | None:
    """What the CRM record shows against what it was told."""
    names = differing({name: value or None for name, value in expected.items()}, shown)
    return Drift(facts.run.id, facts.subject.system, str(facts.subject), Apart.NOT_SHOWN, names) if names else None


def of_carrier(system: str, carrier: Carrier, known: Container[str]) -> Drift | None:
    """A record that was found by walking the system, against the keys that the store has."""
    if carrier.key in known:
        return None
    told = carrier.key if is_operation_key(carrier.key) else "another_key"
    return Drift("", system, carrier.reference, Apart.UNRECORDED, (told,))
