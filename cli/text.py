"""Plain aligned text for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

NOTHING = "-"


def plain(text: str) -> str:
    """The text on one line, with control characters written out: what the CRM calls somebody drives no terminal."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def shown(value: object) -> str:
    """One cell: times of the store in UTC to the second, nothing as a dash."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    return plain(str(value))


def instant(iso: str | None) -> str:
    """A time from a view."""
    return NOTHING if iso is None else f"{datetime.fromisoformat(iso).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Columns under their heads, or the one line that says there is nothing."""
    if not rows:
        return ["nothing to show"]
    cells = [list(head), *([shown(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def pairs(named: Sequence[tuple[str, object]]) -> list[str]:
    """One `name  value` line for each pair that has a value."""
    known = [(name, value) for name, value in named if value is not None and value != ""]
    width = max((len(name) for name, _ in known), default=0)
    return [f"  {name.ljust(width)}  {shown(value)}" for name, value in known]


def indented(lines: Sequence[str]) -> list[str]:
    """A block below a heading."""
    return [f"  {line}" for line in lines]
