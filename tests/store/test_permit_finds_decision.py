"""A permit asked for while the run still waits for its review: it finds the decision itself, or sends nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from store_builder import STEPS, Book

from business_store.actors import Actor
from domain.approvals import Outcome
from domain.execution import StepCall, Then
from domain.records import Standing


@pytest.fixture
def run_id(book: Book) -> str:
    """A run whose question is open."""
    made = book.accept_trigger()
    book.snapshot(made)
    return made


def reasons(book: Book, run_id: str) -> list[str]:
    return [row.reason for row in book.rows("SELECT reason FROM event WHERE run_id = :run ORDER BY seq", run=run_id)]


def woken(book: Book, run_id: str) -> StepCall:
    return replace(book.call(run_id, STEPS[0]), woken=True)


def test_the_decision_and_the_permit_that_rests_on_it_are_one_transaction(
    book: Book, run_id: str, reviewer: Actor
) -> None:
    decided = book.decide(run_id, reviewer)
    assert book.permit(run_id).permitted.decision_id == decided.id
    assert reasons(book, run_id)[-2:] == ["approved", "permitted"]
    written = "SELECT DISTINCT xmin::text FROM event WHERE reason IN ('approved', 'permitted')"
    assert len(book.rows(written)) == 1
    assert book.audit() == []


def test_without_a_decision_the_question_stays_and_nothing_is_written(book: Book, run_id: str) -> None:
    before = reasons(book, run_id)
    standing = book.refused(run_id)
    assert (standing.then, standing.run.state, standing.refused) == (Then.REVIEW, "awaiting_review", "")
    assert standing.until is not None
    assert (reasons(book, run_id), book.count("operation")) == (before, 0)


def test_a_hint_with_nothing_behind_it_is_noted_once(book: Book, run_id: str) -> None:
    given = book.ask_permit(woken(book, run_id))[1]
    assert isinstance(given, Standing)
    assert (given.then, reasons(book, run_id)[-2:]) == (Then.REVIEW, ["review_opened"] * 2)
    noted = "SELECT evidence FROM event WHERE evidence ? 'unmatched_signal'"
    assert len(book.rows(noted)) == 1


def test_a_recorded_hint_is_not_taken_for_a_foreign_one(book: Book, run_id: str, reviewer: Actor) -> None:
    book.decide(run_id, reviewer)
    book.ask_permit(woken(book, run_id))
    assert book.rows("SELECT FROM event WHERE evidence ? 'unmatched_signal'") == []


def test_a_rejection_found_by_the_permit_ends_the_run(book: Book, run_id: str, reviewer: Actor) -> None:
    book.decide(run_id, reviewer, Outcome.REJECTED)
    standing = book.refused(run_id)
    assert (standing.then, standing.run.state, standing.run.reason) == (Then.ENDED, "failed", "rejected")
    assert book.count("attempt") == 0


def test_a_record_that_changed_after_the_decision_is_asked_about_again(
    book: Book, run_id: str, reviewer: Actor
) -> None:
    """The reading that came with the permit is another version than the approved one."""
    book.decide(run_id, reviewer)
    standing = book.refused(run_id, taken=book.taken(run_id, iban="DE02120300000000202051"))
    assert (standing.then, standing.run.state) == (Then.REVIEW, "awaiting_review")
    assert standing.refused == "decision_missing"
    assert [(row.version, row.status) for row in book.rows("SELECT version, status FROM review ORDER BY version")] == [
        (1, "decided"),
        (2, "open"),
    ]
    assert (book.count("operation"), book.audit()) == (0, [])


def test_an_approval_is_taken_up_although_the_record_cannot_be_read(book: Book, run_id: str, reviewer: Actor) -> None:
    """Approved and unread is a retry and not a wait for an approval."""
    book.decide(run_id, reviewer)
    standing = book.ledger.retry_later(book.call(run_id, STEPS[0]), book.process, "unreachable")[1]
    assert (standing.then, standing.run.state, standing.run.reason) == (Then.WAIT, "retrying", "unreachable")
    assert "approved" in reasons(book, run_id)
