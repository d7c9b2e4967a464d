"""What is peculiar to each mode of the practice provider: repeats of another body, conflicts, lists of many pages."""

from __future__ import annotations

from datetime import timedelta

import pytest
from connector_cases import ACCOUNT, KEY, KEYED, PRACTISED, Made, modes

from domain.canonical import canonical_bytes
from domain.contracts import Keyed, LookupLagged
from domain.errors import InvalidInput
from domain.signals import Answer, Finding, Found, Signal
from drill.practice import PAGE, Practice
from drill.practice_callbacks import PracticeCallbacks
from drill.practice_contracts import MODES, PracticeTimes, system_of
from sandbox.practice_modes import MODES as PRETENDED

OTHER = {**ACCOUNT.fields, "name": "Southwind Test Partner"}
REPEATED: dict[str, tuple[Signal, str]] = {
    "keyed_store_all": (Signal.MISMATCH, "key_reused"),
    "keyed_store_2xx": (Signal.MISMATCH, "key_reused"),
    "keyed_rerun_failed": (Signal.MISMATCH, "key_reused"),
    "keyed_ignore_body": (Signal.MISMATCH, "other_name"),
    "keyed_conflict_names_id": (Signal.EXISTS, "exists"),
    "keyed_conflict_400": (Signal.EXISTS, "exists"),
    "create_once_409_text_id": (Signal.EXISTS, "exists"),
    "create_once_400": (Signal.EXISTS, "exists"),
}
NAMES_HOLDER = ("keyed_conflict_names_id", "create_once_409_text_id")


def other(made: Made) -> bytes:
    """Another body under our key."""
    return made.connector.render(made.case.operation, KEY, OTHER)


def test_every_mode_is_pretended_declared_and_expected_here() -> None:
    assert list(PRETENDED) == list(MODES) == list(PRACTISED)
    with pytest.raises(InvalidInput, match="mode"):
        Practice("http://127.0.0.1:1", "token", "keyed_store_nothing")


@pytest.mark.parametrize("mode", PRETENDED)
def test_declared_windows_are_no_longer_than_the_modes_keep_their_keys(mode: str) -> None:
    windows = [each.window for each in MODES[mode](PracticeTimes()) if isinstance(each, Keyed)]
    keys = PRETENDED[mode].keys
    assert windows == ([] if keys is None else [timedelta(seconds=keys.window)])


@modes(*REPEATED)
def test_c59_repeat_with_another_body_is_never_a_success(practised: Made) -> None:
    practised.send()
    answer = practised.send(content=other(practised))
    assert (answer.signal, answer.code) == REPEATED[practised.case.kind]
    assert len(practised.ours()) == 1


@modes(*NAMES_HOLDER, "keyed_conflict_400", "create_once_400")
def test_c59_conflict_over_another_body_is_a_foreign_record(practised: Made) -> None:
    practised.send()
    answer = practised.send(content=other(practised))
    finding = practised.probe(answer.reference, other(practised))
    assert (finding.found, finding.code, [finding.reference]) == (Found.FOREIGN, "other_name", practised.ours())


@modes(*NAMES_HOLDER)
def test_c51_conflict_names_the_record_that_is_ours(practised: Made) -> None:
    made = practised.send()
    assert practised.send() == Answer(Signal.EXISTS, "exists", reference=made.reference, http_status=409)
    assert practised.probe(made.reference) == Finding(Found.ONE, "found", made.reference)


@modes("keyed_conflict_400", "create_once_400")
def test_c51_conflict_without_an_id_is_looked_up_by_key(practised: Made) -> None:
    made = practised.send()
    assert practised.send() == Answer(Signal.EXISTS, "exists", http_status=400)
    assert practised.probe() == Finding(Found.ONE, "found", made.reference)


def test_c51_named_record_of_another_key_is_foreign(practised: Made) -> None:
    stranger = practised.connector.render(practised.case.operation, "op-other", OTHER)
    theirs = practised.send(content=stranger, key="op-other")
    finding = practised.probe(theirs.reference)
    assert (finding.found, finding.code, finding.reference) == (Found.FOREIGN, "other_key", theirs.reference)


def test_refused_content_is_a_rejection_with_the_name_of_the_field(practised: Made) -> None:
    practised.fields["email"] = "nonsense"
    assert practised.send() == Answer(Signal.REJECTED, "invalid_request:email", http_status=400)
    assert practised.ours() == []


@modes("keyed_store_all", "keyed_rerun_failed")
def test_look_up_reads_every_page(practised: Made) -> None:
    """Ours is on the last page of a list, and one of two of ours on another page than the other."""
    for number in range(2 * PAGE):
        key = f"op-other-{number}"
        practised.send(content=practised.connector.render("create_account", key, OTHER), key=key)
    assert practised.probe().found is Found.NONE
    made = practised.send()
    assert practised.probe() == Finding(Found.ONE, "found", made.reference)
    practised.sandbox.settings(practice_ahead=timedelta(days=31).total_seconds())
    practised.send()
    assert practised.probe().found is Found.MANY


@modes("keyed_store_all", "keyed_rerun_failed")
def test_page_that_cannot_be_read_makes_the_look_up_fail(practised: Made) -> None:
    for number in range(PAGE + 1):
        key = f"op-other-{number}"
        practised.send(content=practised.connector.render("create_account", key, OTHER), key=key)
    match = {"method": "GET", "system": "practice"}
    practised.sandbox.fault("body_status_error", match=match)
    assert practised.probe() == Finding(Found.FAILED, "unreadable_list")
    practised.sandbox.fault("slow_after", seconds=0, match=match)
    practised.sandbox.fault("html_200", match=match)
    assert practised.probe() == Finding(Found.FAILED, "unreadable")


def test_record_of_other_content_under_our_key_is_foreign_to_every_look_up(practised: Made) -> None:
    practised.sandbox.settings(practice_lag=0)
    practised.send(content=other(practised))
    finding = practised.probe()
    assert finding.found is practised.case.seen(Found.FOREIGN)
    assert finding.code == ("other_name" if practised.case.looks_up else "no_look_up")


def test_only_the_index_lags(practised: Made) -> None:
    made = practised.send()
    lagging = practised.case.kinds == (LookupLagged,)
    assert practised.probe().found is practised.case.seen(Found.NONE if lagging else Found.ONE)
    assert practised.probe(made.reference).found is Found.ONE
    practised.sandbox.settings(practice_ahead=61)
    assert practised.probe().found is practised.case.seen(Found.ONE)


def test_callback_tells_of_our_record_by_our_key(practised: Made) -> None:
    practised.send()
    callbacks, queued = PracticeCallbacks(system_of(practised.case.kind)), practised.sandbox.webhooks()
    assert callbacks.system == practised.connector.system
    assert len(queued) == (1 if practised.case.kind == "callback_only" else 0)
    for said in [callbacks.announced(one["event"]) for one in queued]:
        assert said is not None
        assert (said.kind, said.key, [said.reference]) == ("create_account", KEY, practised.ours())
        record = canonical_bytes(said.record)
        assert callbacks.compared(said.kind, practised.content, record) == ""
        assert callbacks.compared(said.kind, other(practised), record) == "other_name"


def test_callback_about_something_else_is_none_and_one_without_an_account_is_refused() -> None:
    callbacks = PracticeCallbacks("practice")
    assert callbacks.announced({"type": "account.closed", "data": {}}) is None
    with pytest.raises(InvalidInput, match="account"):
        callbacks.announced({"type": "account.created", "data": {"id": "pa_1"}})
    assert callbacks.compared("create_account", b"{}", b"[]") == "other_unreadable"


@modes(*KEYED)
def test_forgotten_key_runs_as_new(practised: Made) -> None:
    practised.send()
    practised.sandbox.settings(practice_window=60, practice_ahead=61)
    assert practised.send().signal is Signal.ACCEPTED
    assert len(practised.ours()) == 2


def test_c64_late_execution_counts_as_in_progress_where_there_is_a_key(practised: Made) -> None:
    practised.fault("drop_then_commit", seconds=100)
    practised.send()
    assert practised.ours() == []
    answer = practised.send()
    assert answer.signal is (Signal.BUSY if Keyed in practised.case.kinds else Signal.ACCEPTED)
    practised.sandbox.settings(practice_ahead=101)
    assert len(practised.ours()) == (1 if practised.case.guarded else 2)
