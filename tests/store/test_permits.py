"""The permit is the only door to sending: one at a time, for the approved bytes, to the execution that owns the run."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from eventually import eventually
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from store_builder import CONTRACTS, KEY, STEPS, Book
from together import together

from business_store.actors import Actor
from business_store.database import violated
from business_store.decisions import revoke_decision
from business_store.sweeping import raise_epoch
from domain.contracts import Keyed, LookupStrong, Stored
from domain.errors import DecisionRefused, ResolutionRefused, Superseded
from domain.execution import Then
from domain.operations import Answered, Granted, Line
from domain.records import Standing
from domain.resolutions import Action
from domain.signals import Answer, Doubt, Signal

ACCEPTED = Answer(Signal.ACCEPTED, "created", "ext-1")
LOST = Answer(Signal.UNKNOWN, "timed_out", doubt=Doubt.NO_ANSWER)
NOT_SENT = Answer(Signal.NOT_SENT, "connection_refused")


@pytest.fixture
def run_id(book: Book, reviewer: Actor) -> str:
    """A run whose first effect may be permitted."""
    made = book.accept_trigger()
    book.approved(made, reviewer)
    return made


def test_a_permit_writes_operation_attempt_and_event_and_seals(book: Book, run_id: str) -> None:
    granted = book.permit(run_id)
    (row,) = book.rows("SELECT o.outcome, o.in_flight_attempt, a.number, a.send_before <= a.lease_until AS bounded"
                       " FROM operation o JOIN attempt a ON a.operation_key = o.key")  # fmt: skip
    assert tuple(row) == ("unknown", 1, 1, True)
    assert granted.permitted.decision_id == book.rows("SELECT id FROM decision")[0].id
    assert (book.run(run_id).sealed_version, book.run(run_id).reason) == (1, "permitted")


def test_every_attempt_goes_out_in_a_dispatch_of_its_kind(book: Book, run_id: str) -> None:
    granted = book.permit(run_id, token="asked-once")
    book.answer(run_id, granted, LOST)
    book.permit(run_id, token="asked-again")
    sent = book.rows(
        "SELECT d.id, d.system, d.kind, a.operation_key, a.permitted_at = d.permitted_at AS together"
        " FROM dispatch d JOIN attempt a ON a.dispatch_id = d.id ORDER BY a.number"
    )
    key, system, kind = granted.sendable.key, granted.sendable.system, granted.sendable.kind
    assert [tuple(row) for row in sent] == [
        (f"dsp-{token}", system, kind, key, True) for token in ("asked-once", "asked-again")
    ]
    assert [each.dispatch for each in book.facts(run_id).operations[0].evidence.attempts] == [row.id for row in sent]
    named = book.rows("SELECT evidence ->> 'dispatch' AS id FROM event WHERE reason = 'permitted' ORDER BY seq")
    assert [row.id for row in named] == [row.id for row in sent]


MIXED = text("""
    WITH taken_off AS (UPDATE operation SET outcome = 'unknown', in_flight_attempt = 2, in_flight_until = now())
    INSERT INTO attempt SELECT operation_key, 2, run_id, decision_id, epoch, engine_run, clock_timestamp(),
        clock_timestamp() + interval '1 s', clock_timestamp() + interval '2 s', content_sha256, 'forced', 'dsp-other'
    FROM attempt
""")


def test_the_database_refuses_attempts_of_two_kinds_in_one_dispatch(book: Book, run_id: str) -> None:
    book.answer(run_id, book.permit(run_id), NOT_SENT)
    other = text("INSERT INTO dispatch VALUES ('dsp-other', 'stripe', 'another_kind', now())")
    book.store.write(lambda connection: connection.execute(other))
    with pytest.raises(IntegrityError) as refused:
        book.store.write(lambda connection: connection.execute(MIXED))
    assert violated(refused.value) == "dispatch_of_one_kind"


def test_an_attempt_of_the_former_release_brings_its_own_dispatch(book: Book, run_id: str) -> None:
    """A migration leaves the running code working: it knows nothing of dispatches."""
    book.answer(run_id, book.permit(run_id), NOT_SENT)
    book.store.write(lambda connection: connection.execute(FORCED))
    assert [row.dispatch_id for row in book.rows("SELECT dispatch_id FROM attempt WHERE number = 2")] == ["dsp-forced"]
    assert book.rows("SELECT system, kind FROM dispatch WHERE id = 'dsp-forced'") == book.rows(
        "SELECT system, kind FROM operation"
    )


def test_two_workers_ask_at_once_and_one_may_send(book: Book, run_id: str) -> None:
    given = together([lambda: book.ask_permit(book.call(run_id, STEPS[0]))[1]] * 8)
    assert len([each for each in given if isinstance(each, Granted)]) == 1
    assert {type(each) for each in given} == {Granted, Standing}
    assert (book.count("operation"), book.count("attempt")) == (1, 1)
    assert book.audit() == []


def test_a_lost_commit_is_found_by_its_token(book: Book, run_id: str) -> None:
    first = book.permit(run_id, token="asked-once")
    again = book.permit(run_id, token="asked-once")
    assert (again.permitted, again.sendable.content) == (first.permitted, first.sendable.content)
    assert book.count("attempt") == 1


def test_in_flight_leads_to_waiting_for_its_outcome(book: Book, run_id: str) -> None:
    book.permit(run_id)
    assert book.refused(run_id).run.state == "outcome_unknown"


def test_a_newer_version_after_the_seal_is_held(book: Book, run_id: str) -> None:
    """What was approved and begun is finished; the newer version waits and changes no later effect."""
    book.accepted(run_id, book.permit(run_id))
    amended = book.taken(run_id, partner_email="new@suedwind.example")
    granted = book.permit(run_id, STEPS[1], taken=amended)
    assert book.facts(run_id).operations[1].input_version == 1
    assert [event.reason for event in book.rows("SELECT reason FROM event WHERE reason = 'amendment_held'")]
    book.accepted(run_id, granted)
    assert book.audit() == []


def test_a_change_in_the_permits_own_reading_goes_back_to_review(book: Book, run_id: str) -> None:
    amended = book.taken(run_id, iban="DE02120300000000202051")
    assert book.refused(run_id, taken=amended).then is Then.REVIEW
    assert book.look(run_id).run.state == "awaiting_review"
    assert (book.count("operation"), book.facts(run_id).newest.version.number) == (0, 2)  # type: ignore[union-attr]


def test_a_stale_reading_permits_no_first_send(book: Book, run_id: str) -> None:
    book.timing = replace(book.timing, fresh_for=timedelta(0))
    standing = book.refused(run_id)
    assert (standing.then, standing.until is not None) == (Then.WAIT, True)
    assert book.count("attempt") == 0


def test_a_first_send_without_a_reading_is_refused(book: Book, run_id: str) -> None:
    call = book.call(run_id, STEPS[0])
    given = book.ledger.permit(call, book.process, None, book.wanted(STEPS[0]))[1]
    assert isinstance(given, Standing)
    assert book.count("attempt") == 0


def test_an_unread_delivery_permits_no_first_send(book: Book, run_id: str) -> None:
    taken = book.taken(run_id)
    book.accept_trigger("501", dedupe_key="later", property_name="iban")
    assert book.refused(run_id, taken=taken).then is Then.WAIT
    assert book.count("attempt") == 0


def test_a_revoked_decision_leads_back_to_review(book: Book, run_id: str, reviewer: Actor) -> None:
    book.store.write(lambda connection: revoke_decision(connection, reviewer, run_id, "second thoughts"))
    standing = book.refused(run_id)
    assert standing.then is Then.REVIEW
    assert (book.look(run_id).run.state, book.run(run_id).reason) == ("awaiting_review", "decision_revoked")
    assert book.count("attempt") == 0


def test_an_expired_decision_leads_back_to_review(book: Book, reviewer: Actor) -> None:
    run_id = book.accept_trigger()
    book.approved(run_id, reviewer)
    with book.forged() as superuser:
        superuser.execute("UPDATE decision SET valid_until = clock_timestamp()")
    assert book.refused(run_id).then is Then.REVIEW
    assert (book.look(run_id).run.state, book.run(run_id).reason) == ("awaiting_review", "decision_expired")
    assert book.count("attempt") == 0


def test_a_revocation_after_the_permit_is_too_late(book: Book, run_id: str, reviewer: Actor) -> None:
    granted = book.permit(run_id)
    with pytest.raises(DecisionRefused) as refused:
        book.store.write(lambda connection: revoke_decision(connection, reviewer, run_id, "second thoughts"))
    assert (refused.value.fields["why"], refused.value.fields["operation"]) == ("too_late", granted.sendable.key)
    assert book.count("revocation") == 0


def test_revocation_and_permit_at_once_leave_one_winner(book: Book, run_id: str, reviewer: Actor) -> None:
    def revoke() -> object:
        return book.store.write(lambda connection: revoke_decision(connection, reviewer, run_id, "second thoughts"))

    revoked, given = together([revoke, lambda: book.ask_permit(book.call(run_id, STEPS[0]))[1]])
    assert isinstance(given, Granted) is isinstance(revoked, DecisionRefused)
    assert book.audit() == []


def test_a_revocation_on_a_run_that_is_over_is_an_answer_not_a_crash(
    book: Book, run_id: str, reviewer: Actor, operator: Actor
) -> None:
    book.ledger.ask_operator(book.call(run_id), book.process, "own_defect")
    book.resolve(run_id, operator, Action.FAIL)
    book.store.write(lambda connection: revoke_decision(connection, reviewer, run_id, "never again"))
    assert (book.count("revocation"), book.run(run_id).state) == (1, "failed")


# Fencing: the newest execution of the highest epoch owns the run.


def test_an_older_execution_neither_sends_nor_moves_and_still_adds_answers(book: Book, run_id: str) -> None:
    granted = book.permit(run_id)
    book.ledger.look(book.call(run_id, engine_run="exec-2"))
    before = book.run(run_id)
    with pytest.raises(Superseded):
        book.ask_permit(book.call(run_id, STEPS[1]))
    with pytest.raises(Superseded):
        book.snapshot(run_id)
    with pytest.raises(Superseded):
        book.answer(run_id, granted, ACCEPTED)
    assert book.run(run_id) == before
    assert [row.signal for row in book.rows("SELECT signal FROM answer")] == ["accepted"]


def test_a_late_answer_wakes_the_owner_who_settles_on_it(book: Book, run_id: str) -> None:
    granted = book.permit(run_id)
    book.ledger.look(book.call(run_id, engine_run="exec-2"))
    with pytest.raises(Superseded):
        book.answer(run_id, granted, ACCEPTED)
    assert book.rows("SELECT nudge > nudge_seen AS told FROM run")[0].told
    line = book.facts(run_id).line(STEPS[0])
    assert line is not None
    assert line.outcome == "unknown"
    call = book.call(run_id, STEPS[0], engine_run="exec-2")
    assert book.ledger.settle(call, book.process, Line(line.key, CONTRACTS[STEPS[0]]))[1].then is Then.GO_ON
    assert book.audit() == []


def test_an_execution_of_a_lower_epoch_is_superseded(book: Book, run_id: str) -> None:
    granted = book.permit(run_id)
    book.store.write(lambda connection: raise_epoch(connection, run_id, 1))
    before = book.run(run_id)
    with pytest.raises(Superseded):
        book.snapshot(run_id)
    with pytest.raises(Superseded):
        book.ask_permit(book.call(run_id, STEPS[1]))
    with pytest.raises(Superseded):
        book.answer(run_id, granted, ACCEPTED)
    assert (book.run(run_id), book.count("answer")) == (before, 1)


def test_a_superseded_execution_does_not_come_back(book: Book, run_id: str) -> None:
    """A reset makes a new execution; the old one never takes over again, however often it asks."""
    for engine_run in ("exec-2", "exec-3"):
        book.ledger.look(book.call(run_id, engine_run=engine_run))
    for engine_run in ("exec-1", "exec-2"):
        with pytest.raises(Superseded):
            book.ledger.look(book.call(run_id, engine_run=engine_run))
    assert book.run(run_id).engine_run == "exec-3"


# Repeats.


def test_a_repeat_carries_the_same_key_and_bytes(book: Book, run_id: str) -> None:
    first = book.permit(run_id)
    book.answer(run_id, first, NOT_SENT)
    second = eventually(lambda: _granted(book, run_id))
    assert (second.sendable.key, second.sendable.content) == (first.sendable.key, first.sendable.content)
    assert (second.permitted.attempt, book.count("operation"), book.count("attempt")) == (2, 1, 2)
    book.accepted(run_id, second)
    assert book.audit() == []


def _granted(book: Book, run_id: str) -> Granted | None:
    given = book.ask_permit(book.call(run_id, STEPS[0]))[1]
    return given if isinstance(given, Granted) else None


def test_looking_again_at_the_same_evidence_adds_no_event(book: Book, run_id: str) -> None:
    granted = book.permit(run_id)
    book.answer(run_id, granted, LOST)
    line, before = Line(granted.sendable.key, (LookupStrong(timedelta(hours=1), "by key"),)), book.count("event")
    for _ in range(3):
        book.ledger.settle(book.call(run_id, STEPS[0]), book.process, line)
    assert book.count("event") == before + 1


def test_no_repeat_after_the_window(book: Book, run_id: str) -> None:
    closed = Keyed(timedelta(milliseconds=1), timedelta(0), Stored.ALL_STARTED, KEY, backoff=timedelta(0))
    book.answer(run_id, book.permit(run_id), LOST)
    book.contracts[STEPS[0]] = (closed,)
    standing = book.refused(run_id)
    assert standing.run.state == "needs_operator"
    assert book.count("attempt") == 1


FORCED = text("""
    WITH taken_off AS (UPDATE operation SET outcome = 'unknown', in_flight_attempt = 2, in_flight_until = now())
    INSERT INTO attempt SELECT operation_key, 2, run_id, decision_id, epoch, engine_run, clock_timestamp(),
        clock_timestamp() + interval '1 s', clock_timestamp() + interval '2 s', content_sha256, 'forced' FROM attempt
""")


def test_the_database_refuses_an_attempt_of_a_run_that_was_asked_to_stop(book: Book, run_id: str) -> None:
    book.answer(run_id, book.permit(run_id), NOT_SENT)
    stop = text("UPDATE run SET cancel_requested_at = clock_timestamp() WHERE id = :run")
    book.store.write(lambda connection: connection.execute(stop, {"run": run_id}))
    assert isinstance(book.ask_permit(book.call(run_id, STEPS[0]))[1], Standing)
    with pytest.raises(IntegrityError) as refused:
        book.store.write(lambda connection: connection.execute(FORCED))
    assert violated(refused.value) == "attempt_permit"


def test_nothing_leaves_a_rehearsal(book: Book, run_id: str) -> None:
    rehearsal = book.rehearse()
    book.snapshot(rehearsal)
    assert isinstance(book.ask_permit(book.call(rehearsal, STEPS[0]))[1], Standing)
    assert (book.count("operation"), book.count("notification")) == (0, 1)
    assert book.audit() == []


# New content needs a new operation: bytes that were approved as one version never go out under another's approval.


def test_after_the_seal_is_lifted_the_new_version_is_what_is_sent(book: Book, run_id: str, reviewer: Actor) -> None:
    first = book.permit(run_id)
    book.answer(run_id, first, NOT_SENT)
    book.snapshot(run_id, partner_email="new@suedwind.example")
    book.snapshot(run_id, partner_email="new@suedwind.example")
    assert book.run(run_id).state == "awaiting_review"
    book.decide(run_id, reviewer)
    book.look(run_id)
    second = book.permit(run_id, taken=book.taken(run_id, partner_email="new@suedwind.example"))
    assert b"new@suedwind.example" in second.sendable.content
    assert second.sendable.key != first.sendable.key
    assert book.audit() == []


def test_an_answer_saved_twice_is_one(book: Book, run_id: str) -> None:
    granted = book.permit(run_id)
    answered = Answered("the-answer", granted.sendable.key, 1, ACCEPTED, granted.sendable.account)
    for _ in range(2):
        book.save(book.call(run_id, STEPS[0]), answered)
    assert book.count("answer") == 1


def test_no_word_of_an_operator_takes_back_what_was_seen(book: Book, run_id: str, operator: Actor) -> None:
    granted = book.permit(run_id)
    book.answer(run_id, granted, Answer(Signal.MISMATCH, "key_taken"))
    book.answer(run_id, granted, ACCEPTED)
    with pytest.raises(ResolutionRefused) as refused:
        book.resolve(run_id, operator, Action.NOT_EXECUTED)
    assert refused.value.next_actions == (Action.CONFIRM, Action.WRITE_OFF)
    assert book.count("resolution") == 0
    book.resolve(run_id, operator, Action.CONFIRM, "ext-1")
    assert book.audit() == []


def test_a_key_whose_window_closed_before_anything_left_gives_way_to_another(
    book: Book, run_id: str, operator: Actor
) -> None:
    """Nobody could send for a day; what never left must not keep the run from ever going on."""
    granted = book.permit(run_id)
    assert book.answer(run_id, granted, NOT_SENT).run.state == "running"
    book.contracts[STEPS[0]] = (Keyed(timedelta(hours=1), timedelta(hours=1), Stored.ALL_STARTED, KEY),)
    standing = book.refused(run_id)
    assert (standing.run.state, standing.run.reason) == ("needs_operator", "window_closed")
    book.resolve(run_id, operator, Action.NOT_EXECUTED)
    book.contracts[STEPS[0]] = CONTRACTS[STEPS[0]]
    again = book.permit(run_id)
    assert (again.sendable.generation, again.sendable.key != granted.sendable.key) == (2, True)
    book.accepted(run_id, again)
    assert book.audit() == []


def test_evidence_that_a_former_generation_exists_bars_the_next(book: Book, run_id: str, operator: Actor) -> None:
    granted = book.permit(run_id)
    book.answer(run_id, granted, Answer(Signal.MISMATCH, "key_taken"))
    book.resolve(run_id, operator, Action.NOT_EXECUTED)
    with book.forged() as connection:
        connection.execute(
            "INSERT INTO answer (id, operation_key, attempt, signal, code, reference)"
            " SELECT 'late', key, 1, 'accepted', 'created', 'ext-late' FROM operation"
        )
    standing = book.refused(run_id)
    assert (standing.run.state, standing.run.reason) == ("needs_operator", "former_generation_exists")
    assert book.count("attempt") == 1


def test_an_effect_seen_after_it_was_declared_absent_can_be_confirmed(book: Book, run_id: str, operator: Actor) -> None:
    granted = book.permit(run_id)
    book.answer(run_id, granted, Answer(Signal.MISMATCH, "key_taken"))
    book.resolve(run_id, operator, Action.NOT_EXECUTED)
    assert book.accepted(run_id, granted).run.reason == "contradicting_evidence"
    book.resolve(run_id, operator, Action.CONFIRM, "ext-create-account")
    book.accepted(run_id, book.permit(run_id, STEPS[1]))
