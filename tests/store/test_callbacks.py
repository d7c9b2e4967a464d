"""Callbacks in the store: evidence first and alone, a doubt looked at again, a contradiction before a person."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from eventually import eventually
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from store_builder import STEPS, Book
from together import together
from told import called_back, drawn, heard, made, only_callbacks, swept, told

from business_store.actors import Actor
from business_store.audit import Violation
from business_store.resolving import Resolved
from domain.callbacks import Disposition, Irrelevant
from domain.deliveries import Quarantined
from domain.errors import ResolutionRefused
from domain.execution import Then
from domain.operations import Granted, Line
from domain.permits import Timing
from domain.records import Operation, Standing
from domain.resolutions import Action
from domain.signals import Answer, Doubt, Found, Signal
from domain.states import RunState

LOST = Answer(Signal.UNKNOWN, "timed_out", doubt=Doubt.NO_ANSWER)
PENDING = Answer(Signal.UNKNOWN, "accepted_for_later", "acct-1", Doubt.UNREADABLE, http_status=202)
D = Disposition


@pytest.fixture
def run_id(book: Book, reviewer: Actor) -> str:
    """A run whose first effect may be permitted."""
    made_ = book.accept_trigger()
    book.approved(made_, reviewer)
    return made_


@pytest.fixture
def granted(book: Book, run_id: str) -> Granted:
    """Its first send, under way, for three seconds at most."""
    book.timing = Timing(timedelta(seconds=1), timedelta(seconds=2), timedelta(seconds=30))
    return book.permit(run_id)


def operation(book: Book, run_id: str) -> Operation:
    line = book.facts(run_id).line(STEPS[0])
    assert line is not None
    return line


def settled(book: Book, run_id: str) -> Standing:
    """What the execution does when it is woken."""
    key = operation(book, run_id).key
    line = Line(key, book.contracts[STEPS[0]])
    return book.ledger.settle(book.call(run_id, STEPS[0]), book.process, line)[1]


def stands(book: Book) -> list[tuple[Any, ...]]:
    rows = book.rows(
        "SELECT disposition, run_id, settled_at IS NOT NULL FROM callback_delivery ORDER BY receipt_id, element"
    )
    return [tuple(row) for row in rows]


def broken(book: Book) -> list[Violation]:
    """Promises broken by now. No execution runs here, so nobody starts runs or sees hints."""
    return [found for found in book.audit(timedelta(0)) if (found.invariant, found.table) != ("I14", "run")]


def _confirmed(book: Book, run_id: str, operator: Actor) -> Resolved:
    """Refused as long as the send may still take effect."""
    return book.resolve(run_id, operator, Action.CONFIRM, "acct-1")


# ── A doubt ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_c48_a_callback_settles_what_the_lost_answer_left_in_doubt(book: Book, run_id: str, granted: Granted) -> None:
    book.answer(run_id, granted, LOST)
    hints = book.rows("SELECT nudge FROM run")[0].nudge
    assert called_back(book, made(granted.sendable.key, "acct-1")).disposition is D.TAKEN_UP
    assert book.rows("SELECT nudge FROM run")[0].nudge == hints + 1
    assert settled(book, run_id).then is Then.GO_ON
    line = operation(book, run_id)
    assert (line.outcome, line.reference, line.settled_by) == ("accepted", "acct-1", "evidence")
    assert book.count("probe") == 0
    assert broken(book) == []


def test_a_callback_before_the_answer_agrees_with_it(book: Book, run_id: str, granted: Granted) -> None:
    assert called_back(book, made(granted.sendable.key, "acct-1")).disposition is D.TAKEN_UP
    assert operation(book, run_id).in_flight_until is not None
    assert book.answer(run_id, granted, Answer(Signal.ACCEPTED, "created", "acct-1")).then is Then.GO_ON
    assert called_back(book, made(granted.sendable.key, "acct-1")).disposition is D.NOTED
    assert broken(book) == []


def test_a_callback_before_an_answer_that_is_lost_settles_with_it(book: Book, run_id: str, granted: Granted) -> None:
    called_back(book, made(granted.sendable.key, "acct-1"))
    assert book.answer(run_id, granted, LOST).then is Then.GO_ON
    assert operation(book, run_id).reference == "acct-1"


def test_c51_a_callback_with_our_key_and_other_content_is_not_ours(book: Book, run_id: str, granted: Granted) -> None:
    book.answer(run_id, granted, LOST)
    called_back(book, made(granted.sendable.key, "acct-9", name="Somebody Else"))
    standing = settled(book, run_id)
    assert (standing.run.state, standing.run.reason) == (RunState.NEEDS_OPERATOR, "foreign_record")
    assert [(row.ours, row.code) for row in book.rows("SELECT ours, code FROM callback")] == [(False, "other_name")]


def test_two_ways_that_settle_at_once_do_not_both_win(book: Book, run_id: str, granted: Granted) -> None:
    book.answer(run_id, granted, LOST)
    [callback] = heard(book, told(made(granted.sendable.key, "acct-1")))
    together([lambda: drawn(book, callback)] * 4 + [lambda: settled(book, run_id)] * 4)
    accepted = book.rows("SELECT seq FROM event WHERE reason = 'accepted' AND step = 'create-account'")
    assert len(accepted) == 1
    assert stands(book) in ([("taken_up", run_id, True)], [("noted", run_id, True)])
    assert broken(book) == []


def test_c01_a_callback_that_comes_again_changes_nothing(book: Book, run_id: str, granted: Granted) -> None:
    book.answer(run_id, granted, LOST)
    event = told(made(granted.sendable.key, "acct-1"))
    first = together([lambda: heard(book, event)[0].disposition] * 8)
    assert sorted(map(str, first)) == ["duplicate"] * 7 + ["matched"]
    assert (book.count("callback_delivery"), book.count("callback"), book.count("receipt")) == (1, 1, 2)


def test_the_same_said_in_other_events_is_no_news(book: Book, run_id: str, granted: Granted) -> None:
    """A provider tells of every later change of the record too."""
    book.accepted(run_id, granted)
    before, reference = book.run(run_id), f"ext-{STEPS[0]}"
    assert [called_back(book, made(granted.sendable.key, reference)).disposition for _ in range(3)] == [D.NOTED] * 3
    assert called_back(book, made(granted.sendable.key, reference, name="Renamed")).disposition is D.NOTED
    assert (book.run(run_id).seq, book.count("callback")) == (before.seq, 4)


# ── Matching ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_elements_that_are_about_nothing_of_ours_are_kept_and_said_so(book: Book) -> None:
    strange = [told(made("op-unknown", "acct-1"), 0), Irrelevant(1, "evt-other"), Quarantined(2, "evt-bad", "id: bad")]
    assert [(each.index, each.disposition) for each in heard(book, *strange)] == [  # type: ignore[arg-type]
        (0, D.UNMATCHED),
        (1, D.IRRELEVANT),
        (2, D.QUARANTINED),
    ]
    assert book.count("callback") == 0
    assert [row[0] for row in stands(book)] == ["unmatched", "irrelevant", "quarantined"]


def test_a_callback_by_the_providers_id_is_matched_once_an_answer_names_it(
    book: Book, run_id: str, granted: Granted
) -> None:
    event = made(None, "acct-1")
    [early] = heard(book, told(event), events=[event])
    assert early.disposition is D.UNMATCHED
    assert swept(book) == 0
    book.contracts[STEPS[0]] = book.contracts[STEPS[0]][1:]
    book.answer(run_id, granted, PENDING)
    assert swept(book) == 1
    assert stands(book) == [("taken_up", run_id, True)]
    assert settled(book, run_id).then is Then.GO_ON
    assert operation(book, run_id).reference == "acct-1"
    assert broken(book) == []


def test_a_callback_by_an_id_that_an_answer_has_named_is_matched_at_once(
    book: Book, run_id: str, granted: Granted
) -> None:
    book.answer(run_id, granted, PENDING)
    assert called_back(book, made(None, "acct-1")).disposition is D.TAKEN_UP


def test_evidence_stays_when_the_process_dies_before_anything_follows(
    book: Book, run_id: str, granted: Granted
) -> None:
    book.answer(run_id, granted, LOST)
    heard(book, told(made(granted.sendable.key, "acct-1")))
    assert [violation.table for violation in broken(book)] == ["callback_delivery"]
    assert swept(book) == 1
    assert swept(book) == 0
    assert stands(book) == [("taken_up", run_id, True)]


def test_a_repeat_is_not_permitted_once_a_callback_saw_the_effect(book: Book, run_id: str, granted: Granted) -> None:
    book.answer(run_id, granted, LOST)
    heard(book, told(made(granted.sendable.key, "acct-1")))
    assert book.refused(run_id).then is Then.GO_ON
    assert book.count("attempt") == 1
    assert [found for found in book.audit(timedelta(0)) if found.invariant == "I9"] == []


# ── A contradiction ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_open_run_whose_account_exists_twice_needs_an_operator(book: Book, run_id: str, granted: Granted) -> None:
    book.accepted(run_id, granted)
    assert called_back(book, made(granted.sendable.key, "acct-2")).disposition is D.CONTRADICTS
    run = book.run(run_id)
    assert (run.state, run.reason, run.next_owner) == (RunState.NEEDS_OPERATOR, "contradicting_evidence", "operator")
    assert called_back(book, made(granted.sendable.key, "acct-2")).disposition is D.NOTED
    assert book.run(run_id).seq == run.seq
    assert broken(book) == []


@pytest.mark.parametrize("drawn_late", [False, True], ids=["drawn at once", "drawn after a process died"])
def test_c51_what_lay_before_the_operator_is_no_news_after_their_word(
    book: Book, run_id: str, granted: Granted, operator: Actor, drawn_late: bool
) -> None:
    """Where the run ends does not depend on how soon the consequence of a stranger's record is drawn."""
    book.answer(run_id, granted, LOST)
    [stranger] = heard(book, told(made(granted.sendable.key, "acct-9", name="Somebody Else")))
    if not drawn_late:
        assert drawn(book, stranger).disposition is D.TAKEN_UP
    assert settled(book, run_id).run.reason == "foreign_record"
    eventually(lambda: _confirmed(book, run_id, operator), within=30)
    assert swept(book) == int(drawn_late)
    assert (operation(book, run_id).reference, book.run(run_id).state) == ("acct-1", RunState.RUNNING)
    assert called_back(book, made(granted.sendable.key, "acct-8", name="Another")).disposition is D.CONTRADICTS
    assert broken(book) == []


def test_a_refused_account_that_exists_after_all_can_be_confirmed(
    book: Book, run_id: str, granted: Granted, operator: Actor
) -> None:
    book.answer(run_id, granted, Answer(Signal.REJECTED, "email_invalid"))
    assert called_back(book, made(granted.sendable.key, "acct-1")).disposition is D.CONTRADICTS
    assert book.run(run_id).reason == "contradicting_evidence"
    with pytest.raises(ResolutionRefused):
        book.resolve(run_id, operator, Action.NOT_EXECUTED)
    book.resolve(run_id, operator, Action.CONFIRM, "acct-1")
    assert operation(book, run_id).reference == "acct-1"
    assert broken(book) == []


def test_a_contradiction_after_success_opens_a_follow_up_and_rewrites_nothing(
    book: Book, reviewer: Actor, operator: Actor
) -> None:
    run_id = book.straight(reviewer)
    before, key = book.run(run_id), operation(book, run_id).key
    follow_up = called_back(book, made(key, "acct-2"))
    assert follow_up.disposition is D.CONTRADICTS
    assert follow_up.run_id not in (None, run_id)
    assert book.run(run_id) == before
    opened = book.run(str(follow_up.run_id))
    assert (opened.kind, opened.state, opened.reason) == ("repair", "needs_operator", "contradicting_evidence")
    [said] = book.rows("SELECT evidence FROM event WHERE run_id = :run ORDER BY seq DESC LIMIT 1", run=opened.id)
    assert (said.evidence["follows"], said.evidence["reference"]) == (run_id, "acct-2")
    assert book.rows("SELECT recipient FROM notification WHERE run_id = :run", run=opened.id)[0].recipient == "operator"
    assert called_back(book, made(key, "acct-3")).run_id == opened.id
    book.resolve(opened.id, operator, Action.RETRY)
    book.look(opened.id)
    book.decide(opened.id, reviewer)
    book.look(opened.id)
    assert book.agree(opened.id).run.state == "succeeded"
    assert broken(book) == []


def test_a_contradiction_after_a_failed_run_opens_a_follow_up_in_which_it_is_confirmed(
    book: Book, run_id: str, granted: Granted, operator: Actor
) -> None:
    book.answer(run_id, granted, Answer(Signal.REJECTED, "email_invalid"))
    book.resolve(run_id, operator, Action.FAIL)
    opened = called_back(book, made(granted.sendable.key, "acct-1")).run_id
    assert opened is not None
    assert book.run(run_id).state == "failed"
    assert broken(book) == []
    book.resolve(opened, operator, Action.CONFIRM, "acct-1")
    assert operation(book, opened).outcome == "accepted"
    assert broken(book) == []


def test_an_answer_that_comes_after_the_end_and_contradicts_it_opens_a_follow_up(
    book: Book, run_id: str, granted: Granted, operator: Actor
) -> None:
    book.answer(run_id, granted, Answer(Signal.REJECTED, "email_invalid"))
    book.resolve(run_id, operator, Action.FAIL)
    book.answer(run_id, granted, Answer(Signal.ACCEPTED, "created", "acct-1"))
    opened = book.rows("SELECT id, state, reason FROM run WHERE kind = 'repair'")
    assert [(row.state, row.reason) for row in opened] == [("needs_operator", "contradicting_evidence")]
    assert book.run(run_id).state == "failed"
    assert broken(book) == []


def test_an_answer_that_comes_after_the_end_and_fits_changes_nothing(book: Book, reviewer: Actor) -> None:
    run_id = book.accept_trigger()
    book.approved(run_id, reviewer)
    first = book.permit(run_id)
    book.accepted(run_id, first)
    book.accepted(run_id, book.permit(run_id, STEPS[1]))
    book.agree(run_id)
    book.accepted(run_id, first)
    assert book.count("run") == 1


def test_an_operators_word_and_a_callback_at_the_same_instant(
    book: Book, run_id: str, granted: Granted, operator: Actor
) -> None:
    """Whichever is first, the sighting ends before a person and nothing is made anew."""
    book.contracts[STEPS[0]] = ()
    book.answer(run_id, granted, LOST)

    def declared() -> str:
        try:
            return book.resolve(run_id, operator, Action.NOT_EXECUTED).state
        except ResolutionRefused:
            return "refused"

    together([declared, lambda: called_back(book, made(granted.sendable.key, "acct-1"))])
    run = book.run(run_id)
    assert run.state == "needs_operator"
    eventually(lambda: _confirmed(book, run_id, operator), within=30)
    assert book.count("operation") == 1
    assert broken(book) == []


# ── C5 alone ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_under_c5_alone_the_callback_is_waited_for_until_its_deadline_and_then_a_person_is_asked(
    book: Book, run_id: str, granted: Granted, operator: Actor
) -> None:
    only_callbacks(book, within=3600)
    waiting = book.answer(run_id, granted, LOST)
    assert (waiting.run.state, waiting.run.reason) == (RunState.OUTCOME_UNKNOWN, "awaiting_callback")
    assert waiting.until is not None
    only_callbacks(book, within=-3600)
    asked = settled(book, run_id)
    assert (asked.run.state, asked.run.reason) == (RunState.NEEDS_OPERATOR, "contracts_exhausted")

    assert called_back(book, made(granted.sendable.key, "acct-1")).disposition is D.TAKEN_UP
    shown = book.run(run_id)
    assert (shown.state, shown.reason, shown.seq) == (asked.run.state, asked.run.reason, asked.run.seq + 1)
    [said] = book.rows("SELECT evidence FROM event ORDER BY seq DESC LIMIT 1")
    assert (said.evidence["reference"], said.evidence["ours"]) == ("acct-1", True)
    assert book.count("notification") == 2
    with pytest.raises(ResolutionRefused):
        book.resolve(run_id, operator, Action.NOT_EXECUTED)
    eventually(lambda: _confirmed(book, run_id, operator), within=30)
    assert operation(book, run_id).outcome == "accepted"
    assert broken(book) == []


def test_under_c5_alone_the_callback_settles(book: Book, run_id: str, granted: Granted) -> None:
    only_callbacks(book, within=3600)
    book.answer(run_id, granted, LOST)
    called_back(book, made(granted.sendable.key, "acct-1"))
    assert settled(book, run_id).then is Then.GO_ON
    assert book.permit(run_id, STEPS[1])


# ── What holds it ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "change",
    [
        *(f"UPDATE callback_delivery SET {name} = {name}" for name in ("told_key", "reference", "receipt_id")),
        "UPDATE callback SET ours = ours",
        "DELETE FROM callback",
        "DELETE FROM callback_delivery",
    ],
)
def test_what_was_said_stays_and_only_what_became_of_it_may_change(book: Book, change: str) -> None:
    with pytest.raises(DBAPIError) as refused:
        book.store.write(lambda connection: connection.execute(text(change)))
    assert isinstance(refused.value.orig, psycopg.errors.InsufficientPrivilege)


def test_a_look_that_sees_what_the_callback_told_agrees(book: Book, run_id: str, granted: Granted) -> None:
    book.answer(run_id, granted, LOST)
    heard(book, told(made(granted.sendable.key, "acct-1")))
    assert book.probe(run_id, granted, Found.ONE, "acct-1").then is Then.GO_ON
    assert swept(book) == 1
    assert stands(book)[0][0] == "noted"
