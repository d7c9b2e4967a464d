"""C62: every form of Retry-After that services send."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.retry_after import MIGRATION_CAP, USUAL_CAP, retry_after

NOW = datetime(2026, 10, 21, 7, 26, 0, tzinfo=UTC)
TWO_MINUTES = timedelta(minutes=2)


@pytest.mark.parametrize(
    ("values", "wait"),
    [
        (["120"], TWO_MINUTES),
        ([" 120 "], TWO_MINUTES),
        (["0.493"], timedelta(milliseconds=493)),
        (["Wed, 21 Oct 2026 07:28:00 GMT"], TWO_MINUTES),
        (["Wed, 21 Oct 2026 07:28:00 -0000"], TWO_MINUTES),
        (["Wed, 21 Oct 2026 09:28:00 +0200"], TWO_MINUTES),
        (["Wed, 21 Oct 2020 07:28:00 GMT"], timedelta(0)),
        (["Fri, 31 Dec 9999 23:59:59 GMT"], USUAL_CAP),
        (["-1"], timedelta(0)),
        (["9" * 400], USUAL_CAP),
        (["abc"], None),
        (["1e3"], None),
        (["nan"], None),
        (["٣"], None),
        ([""], None),
        (["120, 60"], None),
        ([], None),
        (["60", "120"], TWO_MINUTES),
        (["abc", "120"], TWO_MINUTES),
        (["Wed, 99 Oct 2026 07:28:00 GMT"], None),
    ],
)
def test_c62_retry_after(values: list[str], wait: timedelta | None) -> None:
    assert retry_after(values, NOW) == wait


def test_c62_a_migration_may_ask_for_a_day() -> None:
    assert retry_after(["86400"], NOW, MIGRATION_CAP) == timedelta(hours=24)
    assert retry_after(["864000"], NOW, MIGRATION_CAP) == timedelta(hours=24)


parts = st.sampled_from(["Wed", "21", "Oct", "2026", "-0000", "99999"])
dates = st.builds("{}, {} {} {} {}:00:{} {}".format, *[parts] * 7)


@given(st.lists(st.one_of(st.text(max_size=40), st.from_regex(r"-?\d*\.?\d*", fullmatch=True), dates), max_size=3))
def test_c62_no_value_raises_or_leaves_the_limits(values: list[str]) -> None:
    wait = retry_after(values, NOW)
    assert wait is None or timedelta(0) <= wait <= USUAL_CAP
