"""One question about the store: a query whose every row is a violation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import TypeAlias

from sqlalchemy import Connection, text

PAGE = 500
"""Offending rows are fetched this many at a time, however many there are."""
PART = 50_000
"""Rows of a large table that are looked at in one go: an instant of their own, and a bounded time and memory."""

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
    """`query` selects the key of each offending row and what is wrong with it; `:older_than` is an interval.

    A query that says `PART(alias.column)` can be asked of its table in parts, from one value of that column to another.
    """

    invariant: str
    table: str
    name: str
    query: str


Bounds: TypeAlias = "tuple[str | int | None, str | int | None]"
"""After the one value, up to and with the other; None is open."""

WHOLE: Bounds = (None, None)
_PART = re.compile(r"PART\(((?:\w+\.)?(\w+))\)")


def parts(connection: Connection, check: Check) -> list[Bounds]:
    """How to look at the table of this check, fixed before the first look: what grows meanwhile keeps nobody busy."""
    column = _PART.search(check.query)
    if column is None:
        return [WHOLE]
    numbered = f"SELECT {column[2]} AS key, row_number() OVER (ORDER BY {column[2]}) AS n FROM {check.table}"
    rows = connection.execute(text(f"SELECT DISTINCT key FROM ({numbered}) x WHERE n % {PART} = 0 ORDER BY key"))
    return list(pairwise([None, *rows.scalars(), None]))


def offending(
    connection: Connection, check: Check, older_than: timedelta, bounds: Bounds = WHOLE
) -> Iterator[Violation]:
    """The rows within these bounds that break this invariant."""
    named = {"older_than": older_than, "after": bounds[0], "upto": bounds[1]}
    query = text(_PART.sub(lambda found: _within(found[1], bounds), check.query))
    # A cursor that streams is planned for its first rows, so what is bounded anyway is fetched without one.
    streamed = {"stream_results": True, "yield_per": PAGE} if bounds == WHOLE else {}
    for row, detail in connection.execute(query, named, execution_options=streamed):
        yield Violation(check.invariant, check.table, row, detail)


def _within(column: str, bounds: Bounds) -> str:
    after, upto = bounds
    limits = ([] if after is None else [f"{column} > :after"]) + ([] if upto is None else [f"{column} <= :upto"])
    return " AND ".join(limits) or "true"
