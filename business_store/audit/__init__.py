"""Whether the store keeps every promise it makes, asked of a live system without locking it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from sqlalchemy import Connection, text

from business_store.audit.approvals import APPROVALS
from business_store.audit.check import Check, Violation, offending, parts
from business_store.audit.completeness import COMPLETENESS
from business_store.audit.effects import EFFECTS
from business_store.audit.history import HISTORY
from business_store.audit.immutability import IMMUTABILITY
from business_store.audit.retention import RETENTION

__all__ = ["CHECKS", "SWEPT_WITHIN", "Check", "Violation", "audit", "violations"]

CHECKS: tuple[Check, ...] = (*HISTORY, *IMMUTABILITY, *RETENTION, *APPROVALS, *EFFECTS, *COMPLETENESS)

SWEPT_WITHIN = timedelta(minutes=5)
"""Age at which a lost hint should long have been repaired by the sweep."""

BEGIN = (
    text("SET TRANSACTION READ ONLY"),
    text("SET LOCAL statement_timeout = 0"),
    text("SET LOCAL cursor_tuple_fraction = 1"),
)


def violations(connection: Connection, older_than: timedelta = SWEPT_WITHIN) -> Iterator[Violation]:
    """Every violation, streamed. `connection` must not be in a transaction yet.

    Each check looks at one instant, and at a large table in parts, each at an instant of its own: no snapshot is held
    for long while others write.
    """
    for check in CHECKS:
        with _instant(connection):
            bounds = parts(connection, check)
        for part in bounds:
            with _instant(connection):
                yield from offending(connection, check, older_than, part)


@contextmanager
def _instant(connection: Connection) -> Iterator[None]:
    try:
        for statement in BEGIN:
            connection.execute(statement)
        yield
    finally:
        connection.rollback()


def audit(connection: Connection, older_than: timedelta = SWEPT_WITHIN) -> list[Violation]:
    """All violations; empty is the promise kept."""
    return list(violations(connection, older_than))
