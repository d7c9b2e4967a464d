"""What counts as drift, row by row: what was settled against what is found outside."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from domain.drift import MEANING, Apart, Drift, of_carrier, of_fields, of_finding, to_look_for, to_read_back
from domain.identity import OperationIdentity, operation_key
from domain.ports import Carrier
from domain.records import Operation
from domain.signals import Answer, Attempt, Evidence, Finding, Found, RecordedAnswer, Signal

NOW = datetime(2026, 12, 1, 8, 30, tzinfo=UTC)
REFUSED = RecordedAnswer(Answer(Signal.REJECTED, "refused"), NOW - timedelta(minutes=1))
SENT = Evidence((Attempt(1, NOW - timedelta(minutes=2), NOW - timedelta(minutes=1), (REFUSED,)),))
ACCOUNT = Operation(
    *("op-1", "run-1", "create-account", "", 1, 1, "stripe", "create_account", b"", "accepted", "answer", "acct_1"),
    in_flight_until=None,
    evidence=SENT,
)


@pytest.mark.parametrize(
    ("outcome", "found", "apart"),
    [
        ("accepted", Found.ONE, None),
        ("accepted", Found.NONE, None),
        ("accepted", Found.FOREIGN, None),
        ("accepted", Found.MANY, Apart.SEVERAL),
        ("accepted", Found.FAILED, Apart.UNREADABLE),
        ("rejected", Found.NONE, None),
        ("rejected", Found.ONE, Apart.EXISTS),
        ("rejected", Found.FOREIGN, Apart.EXISTS),
        ("rejected", Found.MANY, Apart.SEVERAL),
        ("not_sent", Found.ONE, Apart.EXISTS),
        ("not_sent", Found.FAILED, Apart.UNREADABLE),
    ],
)
def test_a_look_up_against_the_outcome(outcome: str, found: Found, apart: Apart | None) -> None:
    drift = of_finding(replace(ACCOUNT, outcome=outcome), Finding(found, "code"))
    assert (drift and drift.apart) == apart


def test_what_may_exist_and_says_so_is_not_looked_for() -> None:
    lines = [
        replace(ACCOUNT, outcome=outcome) for outcome in ("accepted", "rejected", "not_sent", "unknown", "written_off")
    ]
    flying = replace(ACCOUNT, in_flight_until=NOW + timedelta(seconds=1))
    looked_for = to_look_for([*lines, flying, replace(ACCOUNT, evidence=Evidence())], NOW)
    assert [each.outcome for each in looked_for] == ["accepted", "rejected", "not_sent"]
    assert to_read_back([*lines, replace(ACCOUNT, reference=None)]) == (ACCOUNT,)


def test_only_names_of_fields_are_told() -> None:
    drift = of_fields(ACCOUNT, {"name": "Nordwind", "iban_last4": "3000"}, {"name": "Südwind", "iban_last4": "3000"})
    assert drift is not None
    assert (drift.apart, drift.record, drift.fields) == (Apart.CHANGED, "acct_1", ("name",))
    assert of_fields(ACCOUNT, {"name": "Nordwind"}, {"name": "Nordwind", "more": "x"}) is None


@pytest.mark.parametrize(
    ("key", "told"),
    [
        (operation_key(OperationIdentity("req-2", "create-account")), None),
        ("op-" + "a" * 27, "another_key"),
        ("OP-" + "a" * 26, "another_key"),
        ("Petra Muster, DE89370400440532013000", "another_key"),
    ],
)
def test_a_key_that_the_store_does_not_have_is_told_if_it_is_one(key: str, told: str | None) -> None:
    drift = of_carrier("stripe", Carrier("acct_9", key), frozenset({"op-known"}))
    assert drift == Drift("", "stripe", "acct_9", Apart.UNRECORDED, (told or key,))
    assert of_carrier("stripe", Carrier("acct_9", key), frozenset({key})) is None


@pytest.mark.parametrize("apart", Apart)
def test_every_kind_is_in_the_page(apart: Apart) -> None:
    page = (Path(__file__).parents[2] / "docs" / "invariants.md").read_text()
    assert f"| `{apart}` | {MEANING[apart]} |" in page
