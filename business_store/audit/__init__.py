"""Whether the store keeps every promise it makes, asked of a live system without locking it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from sqlalchemy import Connection, text

from business_store.audit.approvals import APPROVALS
from business_store.audit.check import Check, Violation, offending
from business_store.audit.completeness import COMPLETENESS
from business_store.audit.effects import EFFECTS
from business_store.audit.history import HISTORY
from business_store.audit.immutability import IMMUTABILITY
from business_store.audit.retention import RETENTION

__all__ = ["CHECKS", "SWEPT_WITHIN", "Check", "Violation", "audit", "violations"]

CHECKS: tuple[Check, ...] = (*HISTORY, *IMMUTABILITY, *RETENTION, *APPROVALS, *EFFECTS, *COMPLETENESS)

SWEPT_WITHIN = timedelta(minutes=5)
"""Age at which a lost hint should long have been repaired by the sweep."""

SNAPSHOT = text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
PATIENT = text("SET LOCAL statement_timeout = 0")


def violations(connection: Connection, older_than: timedelta = SWEPT_WITHIN) -> Iterator[Violation]:
    """Every violation in one snapshot, streamed. `connection` must not be in a transaction yet."""
    connection.execute(SNAPSHOT)
    connection.execute(PATIENT)
    for check in CHECKS:
        yield from offending(connection, check, older_than)


def audit(connection: Connection, older_than: timedelta = SWEPT_WITHIN) -> list[Violation]:
    """All violations; empty is the promise kept."""
    return list(violations(connection, older_than))
