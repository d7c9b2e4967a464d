"""One question about the store: a query whose every row is a violation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection, text

PAGE = 500
"""Offending rows are fetched this many at a time, however many there are."""

OPEN = "run.state NOT IN ('succeeded', 'failed', 'canceled', 'suppressed', 'expired')"


@dataclass(frozen=True, slots=True)
class Violation:
    """A row that breaks an invariant. `detail` holds codes, numbers and ids, never anything from the inputs."""

    invariant: str
    table: str
    row: str
    detail: str


@dataclass(frozen=True, slots=True)
class Check:
    """`query` selects the key of each offending row and what is wrong with it; `:older_than` is an interval."""

    invariant: str
    table: str
    name: str
    query: str


def offending(connection: Connection, check: Check, older_than: timedelta) -> Iterator[Violation]:
    """The rows that break this invariant."""
    streamed = {"stream_results": True, "yield_per": PAGE}
    for row, detail in connection.execute(text(check.query), {"older_than": older_than}, execution_options=streamed):
        yield Violation(check.invariant, check.table, row, detail)
