"""A commit whose answer is lost may have happened. Every write is keyed: asking again finds the row, or makes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from cutting_proxy import Cut, CuttingProxy, cutting
from databases import Database
from sqlalchemy import make_url
from store_builder import STEPS, Book, changed

from business_store.actors import Actor
from domain.operations import Answered
from domain.signals import Answer, Signal

Work = Callable[[Book], object]


@pytest.fixture
def proxy(database: Database) -> Iterator[CuttingProxy]:
    port = make_url(database.url).port
    assert port is not None
    with cutting(port) as made:
        yield made


@pytest.fixture
def cut_off(book: Book, proxy: CuttingProxy) -> Iterator[Book]:
    """The same database through the proxy."""
    url = make_url(book.database.url).set(port=proxy.port).render_as_string(hide_password=False)
    made = Book(book.database, url)
    try:
        yield made
    finally:
        made.close()


def _run_of(book: Book) -> str:
    return str(book.rows("SELECT id FROM run")[0].id)


def _nothing(book: Book) -> None:
    assert book.count("run") == 0


def _asked(book: Book) -> None:
    book.snapshot(book.accept_trigger())


def _approved(book: Book) -> None:
    book.approved(book.accept_trigger(), book.actor("sonja"))


def _permitted(book: Book) -> None:
    _approved(book)
    book.permit(_run_of(book))


def _accept(book: Book) -> object:
    return book.deliver(changed())


def _decide(book: Book) -> object:
    return book.decide(_run_of(book), book.actor("sonja"))


def _move(book: Book) -> object:
    return book.look(_run_of(book))


def _permit(book: Book) -> object:
    return book.permit(_run_of(book), token="the-asker")


def _answer(book: Book) -> object:
    key = book.rows("SELECT key FROM operation")[0].key
    answered = Answered("the-answer", key, 1, Answer(Signal.ACCEPTED, "created", "ext-1"))
    return book.save(book.call(_run_of(book), STEPS[0]), answered)


def _decided(book: Book) -> None:
    _asked(book)
    _decide(book)


CASES = {
    "run": (_nothing, _accept, ("run", "request", "delivery", "event")),
    "decision": (_asked, _decide, ("decision",)),
    "event": (_decided, _move, ("decision", "review")),
    "permit": (_approved, _permit, ("operation", "attempt")),
    "answer": (_permitted, _answer, ("answer",)),
}


@pytest.mark.parametrize("cut", list(Cut))
@pytest.mark.parametrize("case", CASES)
def test_c91_exactly_one_row(
    book: Book, reviewer: Actor, cut_off: Book, proxy: CuttingProxy, case: str, cut: Cut
) -> None:
    before, work, tables = CASES[case]
    before(book)
    cut_off.rows("SELECT 1")
    proxy.cut_next(cut)
    work(cut_off)
    assert proxy.cuts == 1
    assert {table: book.count(table) for table in tables} == dict.fromkeys(tables, 1)
    events = book.rows("SELECT run.seq, count(*) AS events FROM run JOIN event ON run_id = run.id GROUP BY run.id")
    assert [row.seq for row in events] == [row.events for row in events]
    assert book.audit() == []


@pytest.mark.parametrize("case", CASES)
def test_c91_a_lost_answer_adds_no_event(
    book: Book, reviewer: Actor, cut_off: Book, proxy: CuttingProxy, case: str
) -> None:
    """The history is the same as if nothing had been lost."""
    before, work, _ = CASES[case]
    before(book)
    proxy.cut_next(Cut.REPLY)
    work(cut_off)
    said = [tuple(row) for row in book.rows("SELECT step, reason FROM event")]
    assert len(said) == len(set(said))
