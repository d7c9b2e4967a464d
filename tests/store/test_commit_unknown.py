"""C91: the answer to a commit may be lost. Every write is keyed, or asks what became of its transaction."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from cutting_proxy import Cut, CuttingProxy, cutting
from databases import fresh_database
from sqlalchemy import Connection, event, make_url, text
from store_builder import Book
from store_writes import WRITES, Written, counts, history, told

from business_store.database import Store
from domain.errors import CommitUnknown
from stack.postgres import EmbeddedPostgres

NUMBERS = itertools.count(5000)


@pytest.fixture(scope="module")
def shelf(migrated: EmbeddedPostgres) -> Iterator[Book]:
    """One book for all, each test with companies of its own; whoever acts is known in it."""
    with fresh_database(migrated) as database:
        made = Book(database)
        made.person("sonja", "supervisor")
        made.person("olaf", "operator")
        for name in ("trigger", "amending trigger", "amended version", "answer throttled"):
            at = Written(made, f"first-{name}")
            WRITES[name][0](at)
            WRITES[name][1](at)
        yield made
        assert made.audit() == []
        made.close()


@pytest.fixture(scope="module")
def proxy(shelf: Book) -> Iterator[CuttingProxy]:
    port = make_url(shelf.database.url).port
    assert port is not None
    with cutting(port) as made:
        yield made


@pytest.fixture(scope="module")
def cut_off(shelf: Book, proxy: CuttingProxy) -> Iterator[Book]:
    """The same database through the proxy."""
    made = _through(shelf, proxy)
    yield made
    made.close()


def _through(book: Book, proxy: CuttingProxy) -> Book:
    return Book(book.database, make_url(book.database.url).set(port=proxy.port).render_as_string(hide_password=False))


@dataclass
class Twins:
    """Two companies of one book: what is done to the one undisturbed must come out the same for the other."""

    book: Book
    name: str
    marks: Iterator[str] = field(default_factory=lambda: map("{:04}".format, NUMBERS))

    def __post_init__(self) -> None:
        self.book.store.write(lambda connection: connection.execute(CALM))
        self.ones, self.others = (Written(self.book, next(self.marks)) for _ in range(2))
        for at in (self.ones, self.others):
            WRITES[self.name][0](at)

    def undisturbed(self) -> tuple[Any, ...]:
        """Answer, added rows and history."""
        return self._made(self.ones, self.book)

    def disturbed(self, through: Book) -> tuple[Any, ...]:
        """The same for the other company, once `through` is armed."""
        return self._made(self.others, through)

    def _made(self, at: Written, through: Book) -> tuple[Any, ...]:
        before = counts(self.book)
        answer = told(WRITES[self.name][1](at.by(through)))
        added = {table: count - before[table] for table, count in counts(self.book).items()}
        return answer, added, history(at)


CALM = text("UPDATE throttle SET until = clock_timestamp()")
"""What a former test was told to wait for is over."""
REPEATED = {"trigger": "started", "amending trigger": "pending_read", "irrelevant trigger": "irrelevant"}
"""A trigger that was stored before is told apart from a first one: the sender is answered `duplicate`, with 2xx."""


@pytest.mark.parametrize("cut", list(Cut))
@pytest.mark.parametrize("name", WRITES)
def test_c91_every_write_adds_nothing_twice_and_answers_the_same(
    shelf: Book, cut_off: Book, proxy: CuttingProxy, name: str, cut: Cut
) -> None:
    twins, cuts = Twins(shelf, name), proxy.cuts
    answer, added, events = twins.undisturbed()
    cut_off.rows("SELECT 1")
    proxy.cut_next(cut)
    answer_when_cut, added_when_cut, events_when_cut = twins.disturbed(cut_off)
    assert proxy.cuts == cuts + 1
    assert (added_when_cut, events_when_cut) == (added, events)
    if cut is Cut.REPLY and name in REPEATED:
        assert (answer[0]["disposition"], answer_when_cut[0]["disposition"]) == (REPEATED[name], "duplicate")
    else:
        assert answer_when_cut == answer


@pytest.mark.parametrize("name", WRITES)
def test_c91_a_backend_killed_in_the_middle_of_any_write_leaves_no_half(shelf: Book, name: str) -> None:
    twins = Twins(shelf, name)
    expected = twins.undisturbed()
    doomed = Book(shelf.database)
    try:
        killed = _kill_before_commit(doomed)
        assert twins.disturbed(doomed) == expected
        assert len(killed) == 1
    finally:
        doomed.close()


def _kill_before_commit(book: Book) -> list[int]:
    """Ends the backend of the first transaction that wants to commit; its work is done and not kept."""
    killed: list[int] = []

    @event.listens_for(book.store.engine, "commit")
    def kill(connection: Connection) -> None:
        if not killed:
            killed.append(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())
            with psycopg.connect(book.database.superuser_dsn, autocommit=True) as superuser:
                superuser.execute("SELECT pg_terminate_backend(%s, 5000)", [killed[0]])

    return killed


def test_c91_what_the_database_cannot_say_is_said_so_and_not_repeated(
    shelf: Book,
) -> None:
    """The answer is lost and nobody can be reached any more: it may have been recorded."""
    port, made = make_url(shelf.database.url).port, list[int]()
    assert port is not None

    def work(connection: Connection) -> None:
        made.append(connection.execute(text("INSERT INTO actor (id, kind, name) VALUES ('a', 'person', 'A')")).rowcount)
        cutter.cut_next(Cut.REPLY)
        cutter.refuse()

    with cutting(port) as cutter:
        cut_off = _through(shelf, cutter)
        with pytest.raises(CommitUnknown) as unknown:
            cut_off.store.once(work)
        cut_off.close()
    assert unknown.value.next_actions
    assert (made, shelf.count("actor WHERE id = 'a'")) == ([1], 1)


def test_c91_a_transaction_that_the_server_has_not_ended_is_waited_for(shelf: Book) -> None:
    """Its backend holds on to the lost session for a moment; only a transaction that is gone is done again."""
    store, ended = Store(shelf.database.url), list[str]()
    with store.engine.connect() as other:
        transaction = other.execute(text("SELECT pg_current_xact_id()::text")).scalar_one()

        @event.listens_for(store.engine, "before_cursor_execute")
        def end(connection: Connection, cursor: object, statement: str, *more: object) -> None:
            if "pg_xact_status" in statement:
                ended.append(statement)
                if len(ended) == 3:
                    other.rollback()

        assert store._committed(transaction) is False
    assert len(ended) == 3
    store.close()
