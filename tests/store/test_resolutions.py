"""An operator's word: when it may be given, against what automation does in the same instant, and for many at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from functools import partial

import psycopg
import pytest
from eventually import eventually
from store_builder import STEPS, Book
from store_faults import raising
from store_writes import ANSWERS

from business_store.actors import Actor
from business_store.resolving import ResolutionAsked, Resolved, resolve_each
from business_store.views import run_view
from domain.contracts import LookupStrong
from domain.errors import CounterfoilError, ResolutionRefused
from domain.operations import Granted
from domain.permits import Timing
from domain.recovery import may_execute_until
from domain.resolutions import Action
from domain.signals import Answer, Doubt, Found, Signal
from domain.states import RunState

BAD_GATEWAY = Answer(Signal.UNKNOWN, "http_502", doubt=Doubt.SERVER_ERROR)
WAITING = """
    SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
    AND strpos(query, 'run_facts_locked') > 0
"""


@pytest.fixture
def run_id(book: Book, reviewer: Actor) -> str:
    """A run whose first effect may be permitted, by permits that last a moment."""
    book.timing = Timing(timedelta(milliseconds=200), timedelta(milliseconds=200), timedelta(seconds=30))
    made = book.accept_trigger()
    book.approved(made, reviewer)
    return made


def doubted(book: Book, run_id: str, answer: Answer = ANSWERS["mismatch"]) -> Granted:
    """Something was sent and its outcome is in doubt; a person is asked."""
    granted = book.permit(run_id)
    book.answer(run_id, granted, answer)
    book.ledger.ask_operator(book.call(run_id, STEPS[0]), book.process, "own_defect")
    assert book.run(run_id).state is RunState.NEEDS_OPERATOR
    return granted


def said(book: Book, run_id: str) -> list[str]:
    """The actions that every door shows as permitted."""
    with book.store.reading() as connection:
        view = run_view(connection, run_id, book.declared)
    return [action.split()[3] for action in view["next_actions"]]


# When.


@pytest.mark.parametrize("action", [Action.NOT_EXECUTED, Action.CONFIRM, Action.WRITE_OFF])
def test_nothing_is_resolved_before_lease_and_settle_time_are_over(
    book: Book, run_id: str, operator: Actor, action: Action
) -> None:
    """A gateway's 502 says nothing of the server behind it, which may still be at work for H after the lease."""
    book.contracts[STEPS[0]] = (LookupStrong(timedelta(seconds=4), "by key"),)
    doubted(book, run_id, BAD_GATEWAY)
    (operation,) = book.facts(run_id).operations
    (attempt,) = operation.evidence.attempts
    assert operation.in_flight_until is None
    until = may_execute_until(book.contracts[STEPS[0]], operation.evidence)
    assert until == attempt.lease_until + timedelta(seconds=4)
    with pytest.raises(ResolutionRefused) as refused:
        book.resolve(run_id, operator, action, "ext-1")
    assert (refused.value.fields["until"], refused.value.next_actions) == (until.isoformat(), ("wait",))
    assert book.count("resolution") == 0
    resolved = eventually(partial(_unless_refused, lambda: book.resolve(run_id, operator, action, "ext-1")))
    assert resolved.proposed is (action is Action.WRITE_OFF)
    assert book.facts(run_id).now >= until


def _unless_refused(work: Callable[[], Resolved]) -> Resolved | None:
    try:
        return work()
    except ResolutionRefused:
        return None


def test_a_conclusive_answer_ends_the_wait(book: Book, run_id: str, operator: Actor) -> None:
    """The request is over when the server itself says that it knows the key with other content."""
    book.contracts[STEPS[0]] = (LookupStrong(timedelta(hours=1), "by key"),)
    doubted(book, run_id)
    assert book.resolve(run_id, operator, Action.NOT_EXECUTED).state == "running"


# What: the function that chooses automatic actions decides.


def test_where_automation_may_still_act_it_may_be_told_to(book: Book, run_id: str, operator: Actor) -> None:
    book.contracts[STEPS[0]] = (LookupStrong(timedelta(hours=1), "by key"),)
    granted = doubted(book, run_id, BAD_GATEWAY)
    assert said(book, run_id) == ["confirm", "not_executed", "write_off", "retry"]
    assert book.resolve(run_id, operator, Action.RETRY).state == "running"
    assert book.probe(run_id, granted, Found.ONE, "ext-1").run.state is RunState.RUNNING
    assert book.facts(run_id).operations[0].outcome == "accepted"
    assert book.audit() == []


def test_where_it_may_not_a_new_look_is_refused(book: Book, run_id: str, operator: Actor) -> None:
    doubted(book, run_id)
    assert said(book, run_id) == ["confirm", "not_executed", "write_off"]
    with pytest.raises(ResolutionRefused) as refused:
        book.resolve(run_id, operator, Action.RETRY)
    assert list(refused.value.next_actions) == said(book, run_id)


def test_what_was_seen_is_not_offered_as_never_done(book: Book, run_id: str, operator: Actor) -> None:
    granted = doubted(book, run_id)
    book.answer(run_id, granted, ANSWERS["accepted"])
    assert "not_executed" not in said(book, run_id)
    with pytest.raises(ResolutionRefused):
        book.resolve(run_id, operator, Action.NOT_EXECUTED)


# Against automation, in the same instant: the request lock orders them, and both orders end well.


def _both_wait(book: Book, first: Callable[[], object], second: Callable[[], object]) -> list[Future[object]]:
    """Both have asked for the request lock, `first` before `second`, when it is given free."""
    with psycopg.connect(book.database.superuser_dsn) as holder, ThreadPoolExecutor(2) as pool:
        holder.execute("SELECT FROM request FOR UPDATE")
        begun = []
        for number, work in enumerate((first, second), start=1):
            begun.append(pool.submit(work))
            eventually(partial(_waiting, book, number))
        holder.rollback()
        return begun


def _waiting(book: Book, number: int) -> bool:
    with psycopg.connect(book.database.superuser_dsn) as looking:
        return looking.execute(WAITING).fetchall() == [(number,)]


@pytest.mark.parametrize("kind", ["answer", "probe"])
def test_evidence_first_then_the_operator_is_told(book: Book, run_id: str, operator: Actor, kind: str) -> None:
    granted = doubted(book, run_id)
    evidence = _evidence(book, run_id, granted, kind)
    saved, resolved = _both_wait(book, evidence, lambda: book.resolve(run_id, operator, Action.NOT_EXECUTED))
    assert saved.exception() is None
    assert isinstance(resolved.exception(), ResolutionRefused)
    assert resolved.exception().next_actions  # type: ignore[union-attr]
    assert (book.count("resolution"), book.run(run_id).state) == (0, RunState.NEEDS_OPERATOR)
    assert book.resolve(run_id, operator, Action.CONFIRM, "ext-1").state == "running"
    assert book.audit() == []


@pytest.mark.parametrize("kind", ["answer", "probe"])
def test_the_operator_first_then_automation_is_told(book: Book, run_id: str, operator: Actor, kind: str) -> None:
    """The evidence is kept, contradicts what was declared, and asks again; nothing is sent in between."""
    granted = doubted(book, run_id)
    evidence = _evidence(book, run_id, granted, kind)
    resolved, saved = _both_wait(book, lambda: book.resolve(run_id, operator, Action.NOT_EXECUTED), evidence)
    assert isinstance(resolved.result(), Resolved)
    assert saved.exception() is None
    run = book.run(run_id)
    assert (run.state, run.reason) == (RunState.NEEDS_OPERATOR, "contradicting_evidence")
    assert said(book, run_id) == ["confirm", "write_off"]
    assert book.count("attempt") == 1
    assert book.audit() == []


def _evidence(book: Book, run_id: str, granted: Granted, kind: str) -> Callable[[], object]:
    if kind == "answer":
        return lambda: book.answer(run_id, granted, ANSWERS["accepted"])
    facts = book.facts(run_id)
    assert facts.operations
    return lambda: book.probe(run_id, granted, Found.ONE, "ext-1")


# The same word again, and many words at once.


def test_the_same_word_again_is_answered_as_before(book: Book, run_id: str, operator: Actor) -> None:
    doubted(book, run_id)
    first = book.resolve(run_id, operator, Action.NOT_EXECUTED)
    again = book.resolve(run_id, operator, Action.NOT_EXECUTED)
    assert again == replace(first, repeated=True)
    other = book.person("otto", "operator")
    with pytest.raises(ResolutionRefused):
        book.resolve(run_id, other, Action.NOT_EXECUTED)
    assert book.count("resolution") == 1


def test_a_proposal_again_is_one_proposal(book: Book, run_id: str, operator: Actor) -> None:
    doubted(book, run_id)
    first = book.resolve(run_id, operator, Action.WRITE_OFF)
    assert book.resolve(run_id, operator, Action.WRITE_OFF) == replace(first, repeated=True)
    assert book.count("resolution") == 1
    assert book.resolve(run_id, book.person("otto", "operator"), Action.WRITE_OFF).state == "failed"


def test_the_same_word_on_a_new_question_is_a_new_word(book: Book, run_id: str, operator: Actor) -> None:
    for count in (1, 2):
        book.ledger.ask_operator(book.call(run_id), book.process, "own_defect")
        assert not book.resolve(run_id, operator, Action.RETRY).repeated
        assert book.count("resolution") == count


def test_of_many_each_is_judged_by_itself(book: Book, reviewer: Actor, operator: Actor) -> None:
    runs = [book.accept_trigger(str(number)) for number in range(4)]
    for run_id in runs[:3]:
        book.approved(run_id, reviewer)
        doubted(book, run_id)
    refused_one = ResolutionAsked(runs[1], Action.FAIL, "r", "e")
    items = [ResolutionAsked(run_id, Action.NOT_EXECUTED, "r", "e") for run_id in (runs[0], runs[2], runs[3], "run-?")]
    asked = [items[0], refused_one, *items[1:], replace(items[0], reason=" ")]
    results = resolve_each(book.store, operator, asked, book.declared)
    codes = [each.code if isinstance(each, CounterfoilError) else each.state for each in results]
    assert codes == [
        "running", "resolution_refused", "running", "resolution_refused", "not_found", "invalid_input"
    ]  # fmt: skip
    again = resolve_each(book.store, operator, asked, book.declared)
    assert [isinstance(each, Resolved) and each.repeated for each in again] == [True, False, True, False, False, False]
    assert book.count("resolution") == 2
    assert book.audit() == []


def test_an_item_that_the_store_cannot_take_stops_no_other(book: Book, reviewer: Actor, operator: Actor) -> None:
    runs = [book.accept_trigger(str(number)) for number in range(2)]
    for run_id in runs:
        book.approved(run_id, reviewer)
        doubted(book, run_id)
    asked = [ResolutionAsked(run_id, Action.NOT_EXECUTED, "r", "e") for run_id in runs]
    with raising(book.database, "53100", "resolution"):
        results = resolve_each(book.store, operator, asked, book.declared)
    assert [isinstance(each, CounterfoilError) and each.fields["why"] for each in results] == ["store_exhausted"] * 2
    assert [run.state for run in map(book.run, runs)] == [RunState.NEEDS_OPERATOR] * 2
    assert all(isinstance(each, Resolved) for each in resolve_each(book.store, operator, asked, book.declared))
