"""Every cell of the recovery table: one kind of answer under one kind of contract gives one settlement."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from domain.contracts import (
    Accept,
    AskOperator,
    AwaitCallback,
    ClientKey,
    Contract,
    Keyed,
    LookupLagged,
    LookupStrong,
    NoRecovery,
    ProbeAt,
    Reject,
    Resend,
    SavedId,
    Settlement,
    Stored,
    Upsert,
)
from domain.history import MAX_FAILED_LOOKUPS
from domain.recovery import MAX_SENDS, may_open_generation, proved_unexecuted, settle, window_end
from domain.signals import (
    Answer,
    Attempt,
    Callback,
    Doubt,
    Evidence,
    Finding,
    Found,
    Probe,
    RecordedAnswer,
    Signal,
)

SECOND, MINUTE, HOUR, DAY = (timedelta(**{unit: 1}) for unit in ("seconds", "minutes", "hours", "days"))
START = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
ANSWERED = START + 10 * SECOND
LEASE_END = START + 30 * SECOND
H, V, DEADLINE = 100 * SECOND, 60 * SECOND, 24 * HOUR
SETTLED = LEASE_END + H
HORIZON = SETTLED + V

KEY = ClientKey("header Idempotency-Key", 255, "account")
C1 = Keyed(window=24 * HOUR, margin=HOUR, stored=Stored.ALL_STARTED, key=KEY)
C2 = Upsert(settle=H, key=KEY, query="by key")
C3 = LookupStrong(settle=H, query="by key")
C4 = LookupLagged(settle=H, lag=V, outage_lag=V, query="by key", misses=3)
C5 = SavedId(callback_within=DEADLINE, saved="id", echoed="reference")
C6 = NoRecovery()
COLUMNS: dict[str, Contract] = {"C1": C1, "C2": C2, "C3": C3, "C4": C4, "C5": C5, "C6": C6}

RERUN = replace(C1, window=30 * DAY, stored=Stored.FAILURES_RERUN)
ONLY_SUCCESS = replace(C1, stored=Stored.ONLY_SUCCESS)
BODY_IGNORED = replace(C1, window=30 * MINUTE, margin=MINUTE, body_compared=False)
C3_REPEATS = replace(C3, resend_when_absent=True)
C4_HARMLESS = replace(C4, duplicates_harmless=True)

REJECTED = Answer(Signal.REJECTED, "invalid_iban")
ACCEPTED = Answer(Signal.ACCEPTED, "created", reference="acct_1")
NOT_SENT = Answer(Signal.NOT_SENT, "connect_error")
TIMEOUT = Answer(Signal.UNKNOWN, "timeout", doubt=Doubt.NO_ANSWER)
SERVER_ERROR = Answer(Signal.UNKNOWN, "500", doubt=Doubt.SERVER_ERROR)
CLIENT_ERROR = Answer(Signal.UNKNOWN, "418", doubt=Doubt.CLIENT_ERROR)
UNREADABLE = Answer(Signal.UNKNOWN, "html", doubt=Doubt.UNREADABLE)
REFUSED = Answer(Signal.THROTTLED, "429", retry_after=40 * SECOND, refused=True)
THROTTLED = Answer(Signal.THROTTLED, "429", retry_after=40 * SECOND)
BUSY = Answer(Signal.BUSY, "key_in_use")
MISMATCH = Answer(Signal.MISMATCH, "other_body")
EXISTS = Answer(Signal.EXISTS, "409", reference="rec_9")
EXISTS_UNNAMED = Answer(Signal.EXISTS, "409")

ABSENT = Finding(Found.NONE, "no_record")
OURS = Finding(Found.ONE, "ours", "acct_1")
FOREIGN = Finding(Found.FOREIGN, "other_content", "rec_9")
SEVERAL = Finding(Found.MANY, "two")


def sent(*answers: Answer | None) -> Evidence:
    """One attempt a minute, each answered after ten seconds; None is a send that nothing came back for."""
    return Evidence(tuple(_attempt(number, answer) for number, answer in enumerate(answers, 1)))


def _attempt(number: int, answer: Answer | None) -> Attempt:
    at = (number - 1) * MINUTE
    recorded = () if answer is None else (RecordedAnswer(answer, ANSWERED + at),)
    return Attempt(number, START + at, LEASE_END + at, recorded)


def looked(evidence: Evidence, *looks: tuple[datetime, Finding]) -> Evidence:
    return replace(evidence, probes=(*evidence.probes, *(Probe(at, finding) for at, finding in looks)))


def late(evidence: Evidence, number: int, answer: Answer, at: datetime) -> Evidence:
    """The same evidence and one more answer for attempt `number`."""
    attempts = [
        replace(each, answers=(*each.answers, RecordedAnswer(answer, at))) if each.number == number else each
        for each in evidence.attempts
    ]
    return replace(evidence, attempts=tuple(attempts))


def called(evidence: Evidence, reference: str, ours: bool = True) -> Evidence:
    return replace(evidence, callbacks=(*evidence.callbacks, Callback(ANSWERED + HOUR, reference, ours)))


EXHAUSTED = AskOperator("contracts_exhausted")
NOBODY_CAN_TELL = AskOperator("no_recovery")
LOOK = ProbeAt(SETTLED)
WAIT = AwaitCallback(LEASE_END + DEADLINE)
Row = tuple[Evidence, datetime, dict[str, Settlement]]


def same(settlement: Settlement) -> dict[str, Settlement]:
    return dict.fromkeys(COLUMNS, settlement)


def cells(*settlements: Settlement) -> dict[str, Settlement]:
    return dict(zip(COLUMNS, settlements, strict=True))


LATER = LEASE_END + MINUTE
LATER_LOOK = ProbeAt(SETTLED + MINUTE)
LATER_WAIT = AwaitCallback(LEASE_END + MINUTE + DEADLINE)

TABLE: dict[str, Row] = {
    "rejected_on_first_send": (sent(REJECTED), ANSWERED, same(Reject("invalid_iban"))),
    "accepted": (sent(ACCEPTED), ANSWERED, same(Accept("acct_1"))),
    "not_sent": (sent(NOT_SENT), ANSWERED, same(Resend(ANSWERED + SECOND))),
    "in_flight": (
        sent(None),
        START + SECOND,
        cells(Resend(LEASE_END + 2 * SECOND), LOOK, LOOK, LOOK, WAIT, AwaitCallback(LEASE_END)),
    ),
    "silent_past_the_lease": (
        sent(None),
        LEASE_END,
        cells(Resend(LEASE_END + 2 * SECOND), LOOK, LOOK, LOOK, WAIT, NOBODY_CAN_TELL),
    ),
    "timeout": (
        sent(TIMEOUT),
        ANSWERED,
        cells(Resend(ANSWERED + 2 * SECOND), LOOK, LOOK, LOOK, WAIT, NOBODY_CAN_TELL),
    ),
    "server_error": (sent(SERVER_ERROR), ANSWERED, cells(EXHAUSTED, LOOK, LOOK, LOOK, WAIT, NOBODY_CAN_TELL)),
    "unreadable_success": (
        sent(UNREADABLE),
        ANSWERED,
        cells(Resend(ANSWERED + 2 * SECOND), LOOK, LOOK, LOOK, WAIT, NOBODY_CAN_TELL),
    ),
    "client_error_not_on_the_allow_list": (
        sent(CLIENT_ERROR),
        ANSWERED,
        cells(EXHAUSTED, LOOK, LOOK, LOOK, WAIT, NOBODY_CAN_TELL),
    ),
    "throttled_documented_as_refused": (sent(REFUSED), ANSWERED, same(Resend(ANSWERED + 40 * SECOND))),
    "throttled_undocumented": (
        sent(THROTTLED),
        ANSWERED,
        cells(
            Resend(ANSWERED + 40 * SECOND),
            Resend(ANSWERED + 40 * SECOND),
            LOOK,
            LOOK,
            WAIT,
            NOBODY_CAN_TELL,
        ),
    ),
    "busy": (
        sent(BUSY),
        ANSWERED,
        cells(Resend(ANSWERED + 2 * SECOND), LOOK, LOOK, LOOK, WAIT, NOBODY_CAN_TELL),
    ),
    "mismatch": (sent(MISMATCH), ANSWERED, same(AskOperator("content_mismatch"))),
    "exists_naming_a_record": (
        sent(EXISTS),
        ANSWERED,
        cells(*[ProbeAt(ANSWERED, "rec_9")] * 4, EXHAUSTED, NOBODY_CAN_TELL),
    ),
    "exists_naming_none": (
        sent(EXISTS_UNNAMED),
        ANSWERED,
        cells(EXHAUSTED, ProbeAt(ANSWERED), ProbeAt(ANSWERED), LOOK, EXHAUSTED, NOBODY_CAN_TELL),
    ),
    "rejected_on_a_later_send": (
        sent(TIMEOUT, REJECTED),
        LATER,
        cells(EXHAUSTED, LATER_LOOK, LATER_LOOK, LATER_LOOK, LATER_WAIT, NOBODY_CAN_TELL),
    ),
    "client_error_on_a_later_send": (
        sent(TIMEOUT, CLIENT_ERROR),
        LATER,
        cells(EXHAUSTED, LATER_LOOK, LATER_LOOK, LATER_LOOK, LATER_WAIT, NOBODY_CAN_TELL),
    ),
    "not_sent_on_a_later_send": (
        sent(TIMEOUT, NOT_SENT),
        LATER,
        cells(Resend(ANSWERED + MINUTE + 4 * SECOND), LOOK, LOOK, LOOK, WAIT, NOBODY_CAN_TELL),
    ),
    "after_window_and_horizon": (
        sent(TIMEOUT),
        START + 30 * DAY,
        cells(EXHAUSTED, LOOK, LOOK, LOOK, EXHAUSTED, NOBODY_CAN_TELL),
    ),
    "not_sent_and_after_window": (
        sent(NOT_SENT),
        START + 30 * DAY,
        cells(AskOperator("window_closed"), *[Resend(ANSWERED + SECOND)] * 5),
    ),
    "callback_after_timeout": (called(sent(TIMEOUT), "acct_1"), ANSWERED + HOUR, same(Accept("acct_1"))),
    "callback_of_other_content": (
        called(sent(TIMEOUT), "acct_1", ours=False),
        ANSWERED + HOUR,
        same(AskOperator("foreign_record")),
    ),
    "found": (looked(sent(TIMEOUT), (SETTLED, OURS)), SETTLED, same(Accept("acct_1"))),
    "found_several": (looked(sent(TIMEOUT), (SETTLED, SEVERAL)), SETTLED, same(AskOperator("several_records"))),
    "found_foreign": (looked(sent(EXISTS), (ANSWERED, FOREIGN)), SETTLED, same(AskOperator("foreign_record"))),
    "absent_once_after_settling": (
        looked(sent(TIMEOUT), (SETTLED, ABSENT)),
        SETTLED,
        cells(
            Resend(ANSWERED + 2 * SECOND),
            Resend(ANSWERED + SECOND),
            EXHAUSTED,
            ProbeAt(SETTLED + V / 2),
            WAIT,
            NOBODY_CAN_TELL,
        ),
    ),
    "absent_before_settling": (
        looked(sent(TIMEOUT), (SETTLED - SECOND, ABSENT)),
        SETTLED,
        cells(Resend(ANSWERED + 2 * SECOND), LOOK, LOOK, LOOK, WAIT, NOBODY_CAN_TELL),
    ),
    "absent_to_the_horizon": (
        looked(sent(TIMEOUT), (SETTLED, ABSENT), (SETTLED + V / 2, ABSENT), (HORIZON, ABSENT)),
        HORIZON,
        cells(Resend(ANSWERED + 2 * SECOND), Resend(ANSWERED + SECOND), EXHAUSTED, EXHAUSTED, WAIT, NOBODY_CAN_TELL),
    ),
    "exists_and_yet_absent": (
        looked(sent(EXISTS), (ANSWERED, ABSENT), (SETTLED, ABSENT), (SETTLED + V / 2, ABSENT), (HORIZON, ABSENT)),
        HORIZON,
        cells(*[EXHAUSTED] * 5, NOBODY_CAN_TELL),
    ),
}

CELLS = [
    pytest.param(COLUMNS[column], evidence, now, expected, id=f"{row}-{column}")
    for row, (evidence, now, columns) in TABLE.items()
    for column, expected in columns.items()
]


@pytest.mark.parametrize(("contract", "evidence", "now", "expected"), CELLS)
def test_table_cell(contract: Contract, evidence: Evidence, now: datetime, expected: Settlement) -> None:
    assert settle([contract], evidence, now) == expected


# What the parameters of a contract change.


@pytest.mark.parametrize("contract", [RERUN, ONLY_SUCCESS], ids=["rerun", "not_stored"])
def test_c49_failures_that_are_run_again_are_resent_under_the_same_key(contract: Contract) -> None:
    assert settle([contract], sent(SERVER_ERROR), ANSWERED) == Resend(ANSWERED + 2 * SECOND)


def test_where_uniqueness_is_not_enforced_an_absence_permits_no_resend() -> None:
    lax = replace(C2, enforced=False)
    assert settle([lax], sent(TIMEOUT), ANSWERED) == LOOK
    assert settle([lax], looked(sent(TIMEOUT), (SETTLED, ABSENT)), SETTLED) == EXHAUSTED
    assert settle([lax], sent(THROTTLED), ANSWERED) == LOOK


def test_a_record_that_a_resend_would_overwrite_is_looked_at_before_any_resend() -> None:
    overwriting = replace(C2, overwrites=True)
    assert settle([overwriting], sent(THROTTLED), ANSWERED) == LOOK
    assert settle([overwriting], looked(sent(THROTTLED), (SETTLED, ABSENT)), SETTLED) == Resend(ANSWERED + 40 * SECOND)


def test_an_index_that_may_be_out_for_an_hour_is_looked_at_ever_less_often_until_then() -> None:
    patient, evidence, looks = replace(C4, outage_lag=HOUR), sent(TIMEOUT), []
    while isinstance(next_ := settle([patient], evidence, START), ProbeAt):
        looks.append((next_.at - SETTLED).total_seconds())
        evidence = looked(evidence, (next_.at, ABSENT))
    assert (looks, next_) == ([0, 30, 60, 120, 240, 480, 960, 1920, 3600], EXHAUSTED)


def test_a_replay_that_ignores_the_body_changes_nothing_as_the_bytes_are_the_same() -> None:
    compared = replace(BODY_IGNORED, body_compared=True)
    for answer in (TIMEOUT, THROTTLED, BUSY, EXISTS, ACCEPTED):
        assert settle([BODY_IGNORED], sent(answer), ANSWERED) == settle([compared], sent(answer), ANSWERED)


def test_a_strong_absence_permits_a_resend_where_policy_allows_it() -> None:
    assert settle([C3_REPEATS], looked(sent(TIMEOUT), (SETTLED, ABSENT)), SETTLED) == Resend(ANSWERED + SECOND)


def test_a_lagged_absence_permits_a_resend_where_duplicates_are_harmless() -> None:
    looks = ((SETTLED, ABSENT), (SETTLED + V / 2, ABSENT), (HORIZON, ABSENT))
    assert settle([C4_HARMLESS], looked(sent(TIMEOUT), *looks), HORIZON) == Resend(ANSWERED + SECOND)
    assert settle([C4_HARMLESS], looked(sent(TIMEOUT), *looks[:2]), HORIZON) == ProbeAt(HORIZON)


@pytest.mark.parametrize("contract", [C3, C4], ids=["C3", "C4"])
def test_an_undocumented_throttle_is_repeated_once_nothing_was_found(contract: Contract) -> None:
    looks = ((SETTLED, ABSENT), (SETTLED + V / 2, ABSENT), (HORIZON, ABSENT))
    assert settle([contract], looked(sent(THROTTLED), *looks), HORIZON) == Resend(ANSWERED + 40 * SECOND)


def test_an_early_miss_does_not_count_toward_the_misses_of_an_index() -> None:
    early = ((LEASE_END, ABSENT), (SETTLED - SECOND, ABSENT), (HORIZON, ABSENT))
    assert settle([C4], looked(sent(TIMEOUT), *early), HORIZON) == ProbeAt(HORIZON + V / 2)


def test_c62_a_wait_that_was_asked_for_is_kept_also_with_a_server_error() -> None:
    asked = replace(SERVER_ERROR, retry_after=90 * SECOND)
    assert settle([RERUN], sent(asked), ANSWERED) == Resend(ANSWERED + 90 * SECOND)


@pytest.mark.parametrize(
    ("nonsense", "kept"), [(timedelta.max, DAY), (timedelta.min, SECOND)], ids=["beyond_a_day", "in_the_past"]
)
def test_c62_a_nonsensical_wait_is_clamped(nonsense: timedelta, kept: timedelta) -> None:
    assert settle([C2], sent(replace(REFUSED, retry_after=nonsense)), ANSWERED) == Resend(ANSWERED + kept)


def test_c62_a_wait_that_outlasts_the_window_leaves_nothing_to_send() -> None:
    assert settle([C1], sent(replace(REFUSED, retry_after=23 * HOUR)), ANSWERED) == AskOperator("window_closed")


def test_backing_off_doubles_and_stops_at_ten_minutes() -> None:
    waits = [settle([RERUN], sent(*[TIMEOUT] * count), START) for count in range(1, 13)]
    gaps = [
        wait.not_before - ANSWERED - (count - 1) * MINUTE
        for count, wait in enumerate(waits, 1)
        if isinstance(wait, Resend)
    ]
    assert [gap.total_seconds() for gap in gaps] == [2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600, 600]


def test_resends_that_may_have_executed_are_counted_and_refused_ones_are_free() -> None:
    refusals = [REFUSED] * 20
    twice = replace(C1, resends=2)
    assert isinstance(settle([twice], sent(*refusals, TIMEOUT, TIMEOUT), START), Resend)
    assert settle([twice], sent(*refusals, *[TIMEOUT] * 3), START) == EXHAUSTED


def test_refusals_without_end_are_shown_to_a_person() -> None:
    assert isinstance(settle([C6], sent(*[NOT_SENT] * (MAX_SENDS - 1)), START), Resend)
    assert settle([C6], sent(*[NOT_SENT] * MAX_SENDS), START) == AskOperator("sends_exhausted")


@pytest.mark.parametrize("contract", [C2, C3, C4], ids=["C2", "C3", "C4"])
def test_c54_lookups_that_see_nothing_at_all_go_on_and_then_ask(contract: Contract) -> None:
    failing = [(SETTLED + each * MINUTE, Finding(Found.FAILED, "html")) for each in range(MAX_FAILED_LOOKUPS)]
    last = failing[-1][0]
    some, all_ = looked(sent(TIMEOUT), *failing[:-1]), looked(sent(TIMEOUT), *failing)
    assert isinstance(settle([contract], some, last), ProbeAt)
    assert settle([contract], all_, last) == AskOperator("lookups_failing")
    assert settle([contract, C5], all_, last) == WAIT


def test_never_sent_is_not_a_reason_to_send() -> None:
    assert settle([C1], Evidence(), START) == AskOperator("never_sent")
    assert settle([], sent(TIMEOUT), START) == EXHAUSTED


# The declared lists that matter.

STRIPE = (C1, C3)
HUBSPOT_TASK = (C2, C4)
STRIPE_V2 = (RERUN, C3)
QONTO = (BODY_IGNORED,)
ACCOUNT_HOLDER = (C1, C5, C3)


def test_stripe_c48_timeout_is_resent_inside_the_window_and_read_after_it() -> None:
    end = START + 23 * HOUR
    assert settle(STRIPE, sent(TIMEOUT), end - timedelta(microseconds=1)) == Resend(ANSWERED + 2 * SECOND)
    assert settle(STRIPE, sent(TIMEOUT), end) == LOOK
    assert settle(STRIPE, looked(sent(TIMEOUT), (end, OURS)), end) == Accept("acct_1")
    assert settle(STRIPE, looked(sent(TIMEOUT), (end, ABSENT)), end) == EXHAUSTED


def test_stripe_c49_a_stored_500_is_read_and_never_replayed() -> None:
    assert settle(STRIPE, sent(SERVER_ERROR), ANSWERED) == LOOK
    repeats = (C1, C3_REPEATS)
    assert settle(repeats, looked(sent(SERVER_ERROR), (SETTLED, ABSENT)), SETTLED) == EXHAUSTED


def test_stripe_c49_a_late_500_of_the_first_send_stops_the_resends() -> None:
    evidence = late(sent(TIMEOUT, THROTTLED), 1, SERVER_ERROR, LATER)
    assert settle(STRIPE, evidence, LATER) == ProbeAt(SETTLED + MINUTE)


def test_stripe_v2_c49_is_resent_for_thirty_days_and_then_read() -> None:
    end = START + 30 * DAY - HOUR
    assert settle(STRIPE_V2, sent(SERVER_ERROR), end - SECOND) == Resend(ANSWERED + 2 * SECOND)
    assert settle(STRIPE_V2, sent(SERVER_ERROR), end) == LOOK


def test_stripe_c59_a_mismatch_is_our_defect_and_opens_no_new_key() -> None:
    evidence = sent(TIMEOUT, MISMATCH)
    assert settle(STRIPE, evidence, LATER) == AskOperator("content_mismatch")
    assert not may_open_generation(STRIPE, evidence, LATER + 30 * DAY, reversed_=False)


def test_qonto_c48_thirty_minutes_without_another_contract() -> None:
    assert settle(QONTO, sent(TIMEOUT), ANSWERED) == Resend(ANSWERED + 2 * SECOND)
    assert settle(QONTO, sent(TIMEOUT), START + 29 * MINUTE) == EXHAUSTED


def test_hubspot_task_c48_reads_by_key_then_upserts_then_polls_then_asks() -> None:
    few = (replace(C2, resends=1), C4)
    first = looked(sent(TIMEOUT), (SETTLED, ABSENT))
    assert settle(few, first, SETTLED) == Resend(ANSWERED + SECOND)
    both = looked(sent(TIMEOUT, TIMEOUT), (SETTLED + MINUTE, ABSENT))
    assert settle(few, both, SETTLED + MINUTE) == ProbeAt(SETTLED + MINUTE + V / 2)
    polled = looked(both, (SETTLED + MINUTE + V / 2, ABSENT), (HORIZON + MINUTE, ABSENT))
    assert settle(few, polled, HORIZON + MINUTE) == EXHAUSTED


@pytest.mark.parametrize(
    ("finding", "expected"),
    [(OURS, Accept("acct_1")), (FOREIGN, AskOperator("foreign_record")), (ABSENT, LOOK)],
    ids=["a_ours", "b_c_other", "d_nothing_yet"],
)
def test_hubspot_task_c51_a_conflict_is_never_success_by_itself(finding: Finding, expected: Settlement) -> None:
    assert settle(HUBSPOT_TASK, sent(EXISTS), ANSWERED) == ProbeAt(ANSWERED, "rec_9")
    assert settle(HUBSPOT_TASK, looked(sent(EXISTS), (ANSWERED, finding)), ANSWERED) == expected


def test_c51_a_conflict_that_comes_late_for_an_earlier_send_is_looked_at_too() -> None:
    evidence = late(sent(TIMEOUT, TIMEOUT), 1, EXISTS, LATER)
    assert settle(HUBSPOT_TASK, evidence, LATER) == ProbeAt(LATER, "rec_9")


def test_c51_a_conflict_whose_lookup_fails_is_looked_at_again() -> None:
    evidence = looked(sent(EXISTS), (ANSWERED, Finding(Found.FAILED, "503")))
    assert settle(HUBSPOT_TASK, evidence, ANSWERED) == ProbeAt(ANSWERED + 5 * SECOND, "rec_9")


def test_account_holder_goes_from_key_to_callback_to_lookup() -> None:
    assert settle(ACCOUNT_HOLDER, sent(TIMEOUT), ANSWERED) == Resend(ANSWERED + 2 * SECOND)
    assert settle(ACCOUNT_HOLDER, sent(SERVER_ERROR), ANSWERED) == WAIT
    assert settle(ACCOUNT_HOLDER, sent(SERVER_ERROR), LEASE_END + DEADLINE) == LOOK
    assert settle(ACCOUNT_HOLDER, called(sent(SERVER_ERROR), "acct_1"), LATER) == Accept("acct_1")


def test_callback_only_waits_to_its_deadline_and_then_asks() -> None:
    deadline = LEASE_END + DEADLINE
    assert settle([C5], sent(TIMEOUT), deadline - SECOND) == WAIT
    assert settle([C5], sent(TIMEOUT), deadline) == EXHAUSTED


def test_no_recovery_is_sent_again_only_after_proof_that_nothing_left() -> None:
    assert isinstance(settle([C6], sent(NOT_SENT, REFUSED, NOT_SENT), LATER), Resend)
    assert settle([C6], sent(NOT_SENT, TIMEOUT, NOT_SENT), LATER + HOUR) == NOBODY_CAN_TELL


# Rules (a) to (f), and what several answers to one send mean.


def test_rule_b_the_window_counts_from_the_first_send_and_the_shortest_one_binds() -> None:
    evidence = sent(TIMEOUT, TIMEOUT)
    assert window_end(STRIPE, evidence.attempts) == START + 23 * HOUR
    assert window_end((RERUN, BODY_IGNORED), evidence.attempts) == START + 29 * MINUTE
    assert window_end(HUBSPOT_TASK, evidence.attempts) is None
    assert window_end(STRIPE, ()) is None


def test_rule_c_a_resend_restarts_the_time_before_which_absent_counts() -> None:
    twice = looked(sent(TIMEOUT, TIMEOUT), (SETTLED, ABSENT))
    assert settle([C3], twice, SETTLED) == ProbeAt(SETTLED + MINUTE)


def test_rule_d_two_references_are_two_records() -> None:
    evidence = called(sent(ACCEPTED), "acct_2")
    assert settle(STRIPE, evidence, LATER) == AskOperator("several_records")


def test_rule_e_late_evidence_against_a_rejection_asks() -> None:
    assert settle(STRIPE, called(sent(REJECTED), "acct_1"), LATER) == AskOperator("contradicting_answers")


def test_rule_f_unknown_has_a_probe_scheduled_and_an_exhausted_list_has_not() -> None:
    assert isinstance(settle([C3], sent(TIMEOUT), ANSWERED), ProbeAt)
    assert isinstance(settle([C3], looked(sent(TIMEOUT), (SETTLED, ABSENT)), SETTLED), AskOperator)


@pytest.mark.parametrize("first", [True, False], ids=["then_silence", "after_silence"])
def test_c64_silence_recorded_for_a_send_takes_nothing_from_its_real_answer(first: bool) -> None:
    answers = (NOT_SENT, TIMEOUT) if first else (TIMEOUT, NOT_SENT)
    evidence = late(sent(answers[0]), 1, answers[1], LATER)
    assert isinstance(settle([C6], evidence, LATER), Resend)


@pytest.mark.parametrize("refusal", [REJECTED, NOT_SENT, REFUSED], ids=lambda answer: answer.signal)
@pytest.mark.parametrize("refusal_first", [True, False])
def test_i11_contradicting_answers_to_one_send_ask_in_either_order(refusal: Answer, refusal_first: bool) -> None:
    first, second = (refusal, ACCEPTED) if refusal_first else (ACCEPTED, refusal)
    evidence = late(sent(first), 1, second, LATER)
    assert settle(STRIPE, evidence, LATER) == AskOperator("contradicting_answers")
    assert not may_open_generation(STRIPE, evidence, LATER, reversed_=False)


def test_a_late_proof_for_the_first_send_lets_the_second_rejection_count() -> None:
    evidence = late(sent(TIMEOUT, REJECTED), 1, NOT_SENT, LATER)
    assert settle(STRIPE, evidence, LATER) == Reject("invalid_iban")


def test_a_late_rejection_of_the_first_send_closes_although_the_second_never_left() -> None:
    evidence = late(sent(TIMEOUT, NOT_SENT), 1, REJECTED, LATER)
    assert settle(STRIPE, evidence, LATER) == Reject("invalid_iban")


@pytest.mark.parametrize(
    "evidence",
    [
        sent(replace(ACCEPTED, reference=None)),
        sent(replace(ACCEPTED, reference="")),
        looked(sent(TIMEOUT), (SETTLED, Finding(Found.ONE, "ours"))),
        called(sent(TIMEOUT), ""),
    ],
    ids=["c53_null_id", "c53_empty_id", "found_without_id", "callback_without_id"],
)
def test_an_effect_without_a_reference_is_neither_sent_again_nor_accepted(evidence: Evidence) -> None:
    for contract in COLUMNS.values():
        assert settle([contract], evidence, SETTLED) == AskOperator("record_without_reference")


def test_many_rejections_are_judged_in_linear_time() -> None:
    evidence = sent(*[REJECTED] * MAX_SENDS)
    assert all(proved_unexecuted(attempt, evidence.attempts) for attempt in evidence.attempts)


# New generations.


@pytest.mark.parametrize("contract", COLUMNS.values(), ids=COLUMNS.keys())
def test_i9_proof_opens_a_generation_and_doubt_does_not(contract: Contract) -> None:
    for proof in (sent(REJECTED), sent(NOT_SENT), sent(REFUSED), sent(NOT_SENT, REJECTED)):
        assert may_open_generation([contract], proof, START + 60 * DAY, reversed_=False)
    for doubt in (Evidence(), sent(None), sent(TIMEOUT), sent(TIMEOUT, REJECTED), sent(ACCEPTED), sent(EXISTS)):
        assert not may_open_generation([contract], doubt, START + 60 * DAY, reversed_=False)


def test_i9_a_reversal_opens_a_generation_unless_another_record_may_be_left() -> None:
    assert may_open_generation(STRIPE, sent(ACCEPTED), LATER, reversed_=True)
    assert not may_open_generation(STRIPE, called(sent(ACCEPTED), "acct_2"), LATER, reversed_=True)
    in_flight = called(sent(TIMEOUT, None), "acct_1")
    assert not may_open_generation(STRIPE, in_flight, LEASE_END + MINUTE - SECOND, reversed_=True)
    assert may_open_generation(STRIPE, in_flight, LEASE_END + MINUTE, reversed_=True)
