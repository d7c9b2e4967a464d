"""What a drill found, one line for each contract and one for all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from drill.verdict import Verdict

COLUMNS = ("contract", "schedules", "duplicates", "losses", "wrong states", "audit", "missed")
ROW = "{:<12} {:>9} {:>10} {:>6} {:>12} {:>5} {:>6}"


def lines(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """The table, what failed, and the last line."""
    yield ROW.format(*COLUMNS)
    for mode in sorted({each.schedule.mode for each in verdicts}):
        yield _row(mode, [each for each in verdicts if each.schedule.mode == mode])
    for each in verdicts:
        if not each.passed:
            yield from failed(each)
    yield last(verdicts)


def failed(verdict: Verdict) -> Iterator[str]:
    """One schedule that did not pass, and how to see it again."""
    yield f"failed: POINT={verdict.schedule}"
    yield from (f"  {note}" for note in verdict.notes or ("no process came to the point",))


def _row(mode: str, of_mode: Sequence[Verdict]) -> str:
    return ROW.format(mode, len(of_mode), *_sums(of_mode), sum(each.missed for each in of_mode))


def _sums(verdicts: Sequence[Verdict]) -> tuple[int, int, int, int]:
    return (
        sum(each.duplicates for each in verdicts),
        sum(each.losses for each in verdicts),
        sum(each.wrong for each in verdicts),
        sum(each.violations for each in verdicts),
    )


def last(verdicts: Sequence[Verdict]) -> str:
    """Zero is the only pass."""
    duplicates, losses, wrong, violations = _sums(verdicts)
    return (
        f"drill: {len(verdicts)} schedules, {duplicates} duplicates, {losses} losses, {wrong} wrong states, "
        f"{violations} audit violations"
    )
