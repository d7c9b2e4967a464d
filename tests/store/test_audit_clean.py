"""A store whose runs came about through its own doors breaks no promise."""

from datetime import timedelta

from store_builder import Book

from business_store.actors import Actor
from domain.approvals import Outcome
from domain.resolutions import Action
from domain.signals import Answer, Doubt, Found, Signal

LOST = Answer(Signal.UNKNOWN, "timed_out", doubt=Doubt.NO_ANSWER)


def test_an_empty_store_breaks_nothing(book: Book) -> None:
    assert book.audit(timedelta(0)) == []


def test_a_straight_run_breaks_nothing(book: Book, reviewer: Actor) -> None:
    run_id = book.straight(reviewer)
    assert book.run(run_id).state == "succeeded"
    assert book.audit() == []


def test_detours_break_nothing(book: Book, reviewer: Actor, operator: Actor) -> None:
    rejected = book.accept_trigger("601")
    book.snapshot(rejected)
    book.decide(rejected, reviewer, Outcome.REJECTED)
    assert book.look(rejected).run.state == "failed"

    doubted = book.accept_trigger("602")
    book.approved(doubted, reviewer)
    granted = book.permit(doubted)
    assert book.answer(doubted, granted, LOST).run.state == "outcome_unknown"
    book.probe(doubted, granted, Found.ONE, "ext-found")
    granted = book.permit(doubted, "verification-task")
    book.answer(doubted, granted, Answer(Signal.MISMATCH, "mismatch"))
    book.resolve(doubted, operator, Action.CONFIRM, "ext-confirmed")
    assert book.agree(doubted).run.state == "succeeded"

    rehearsal = book.rehearse("603")
    book.snapshot(rehearsal)
    assert book.run(rehearsal).state == "running"
    assert book.audit() == []
