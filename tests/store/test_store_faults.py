"""What PostgreSQL can say besides yes, each said by a real server: what is repeated, what is not, what stays true."""

from __future__ import annotations

import threading
from functools import partial

import psycopg
import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from store_builder import STEPS, Book, changed
from store_faults import raising, standby
from store_writes import ANSWERS
from together import together

from business_store.actors import Actor
from business_store.database import STORE_AWAY, Store
from domain.states import RunState

TELL = text("SELECT pg_backend_pid()")


# Serialization failures and deadlocks: rolled back, so done again.


def test_c85_two_decisions_that_cannot_be_ordered_are_one_decision(book: Book, reviewer: Actor) -> None:
    """In a database that serializes, one of two transactions in the same instant is refused with 40001."""
    with psycopg.connect(book.database.superuser_dsn, autocommit=True) as superuser:
        superuser.execute(f'ALTER DATABASE "{book.database.name}" SET default_transaction_isolation = serializable')
    book.store.engine.dispose()
    run_id = book.accept_trigger()
    book.snapshot(run_id)
    outcomes = together([partial(book.decide, run_id, reviewer)] * 3)
    assert not [each for each in outcomes if isinstance(each, Exception)]
    assert (book.count("decision"), book.audit()) == (1, [])


def test_c85_a_transaction_that_read_what_another_changed_is_done_again(book: Book) -> None:
    """Both have read before either writes: the later one is refused with 40001 and repeated on what is true now."""
    run_id, met = book.accept_trigger(), threading.Barrier(2)
    reached: list[str] = []

    def work(connection: Connection) -> None:
        connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
        connection.execute(text("SELECT nudge FROM run"))
        reached.append("read")
        if len(reached) <= 2:
            met.wait(timeout=60)
        connection.execute(text("UPDATE run SET nudge = nudge + 1 WHERE id = :run"), {"run": run_id})

    assert together([partial(book.store.write, work)] * 2) == [None, None]
    assert len(reached) == 3
    assert book.rows("SELECT nudge FROM run")[0].nudge == 2


@pytest.mark.parametrize("state", ["40001", "40P01"])
def test_c88_a_conflict_that_never_ends_is_an_error_after_a_few_tries(book: Book, state: str) -> None:
    with raising(book.database, state), pytest.raises(OperationalError):
        book.deliver(changed())
    assert (book.count("run"), book.count("delivery"), book.count("receipt")) == (0, 0, 0)
    assert book.accept_trigger()


# Full, out of memory, too slow, shutting down: nothing is kept, nothing is repeated in vain, later it works.

WORN_OUT = {
    "53100": "disk full",
    "53200": "out of memory",
    "53300": "too many connections",
    "57014": "statement timeout",
    "55P03": "lock timeout",
    "58030": "I/O error",
    "57P01": "administrator shutdown",
    "57P02": "crash shutdown",
    "57P03": "cannot connect now",
    "XX000": "internal error",
}


@pytest.mark.parametrize("state", WORN_OUT, ids=WORN_OUT.get)
def test_an_exhausted_server_is_away_and_keeps_no_half(book: Book, reviewer: Actor, state: str) -> None:
    run_id = book.accept_trigger()
    book.approved(run_id, reviewer)
    granted, before = book.permit(run_id), book.run(run_id)
    with raising(book.database, state), pytest.raises(STORE_AWAY):
        book.answer(run_id, granted, ANSWERS["accepted"])
    assert (book.run(run_id), book.count("answer")) == (before, 0)
    book.accepted(run_id, granted)
    book.accepted(run_id, book.permit(run_id, STEPS[1]))
    assert book.agree(run_id).run.state is RunState.SUCCEEDED
    assert book.audit() == []


def test_a_real_statement_timeout_rolls_back_and_is_told(book: Book) -> None:
    run_id = book.accept_trigger()

    def slow(connection: Connection) -> None:
        connection.execute(text("UPDATE run SET nudge = nudge + 1 WHERE id = :run"), {"run": run_id})
        connection.execute(text("SET LOCAL statement_timeout = '50ms'"))
        connection.execute(text("SELECT pg_sleep(5)"))

    with pytest.raises(STORE_AWAY) as away:
        book.store.write(slow)
    assert isinstance(away.value, DBAPIError)
    assert getattr(away.value.orig, "sqlstate", None) == "57014"
    assert book.rows("SELECT nudge FROM run")[0].nudge == 0


def test_a_real_quota_that_is_reached_is_away(book: Book) -> None:
    """The role may use no more temporary space: the server says 53400, and nothing of the transaction stays."""

    def greedy(connection: Connection) -> None:
        connection.execute(text("UPDATE run SET nudge = nudge + 1"))
        connection.execute(text("SET LOCAL work_mem = '64kB'"))
        connection.execute(text("SELECT count(*) FROM (SELECT g FROM generate_series(1, 300000) g ORDER BY g DESC) s"))

    book.accept_trigger()
    with psycopg.connect(book.database.superuser_dsn, autocommit=True) as superuser:
        superuser.execute(
            f"ALTER ROLE counterfoil_app IN DATABASE \"{book.database.name}\" SET temp_file_limit = '100kB'"
        )
    book.store.engine.dispose()
    with pytest.raises(STORE_AWAY):
        book.store.write(greedy)
    assert book.rows("SELECT nudge FROM run")[0].nudge == 0


# Connections: all in use, killed, or to a server that may only be read.


def test_c89_an_exhausted_pool_is_away_before_anything_is_done(book: Book) -> None:
    narrow = Store(book.database.url, pool=1)
    narrow.engine.pool._timeout = 0.1  # type: ignore[attr-defined]
    with narrow.reading() as connection:
        connection.execute(TELL)
        with pytest.raises(PoolTimeout):
            narrow.write(lambda inner: inner.execute(text("UPDATE run SET nudge = 9")))
    narrow.close()
    assert issubclass(PoolTimeout, STORE_AWAY)


def test_a_session_on_a_standby_is_dropped_when_the_primary_is_back(book: Book, reviewer: Actor) -> None:
    """Sessions opened while only reading was possible would stay so for ever: 25006 makes the pool forget them."""
    run_id = book.accept_trigger()
    book.snapshot(run_id)
    with standby(book.database):
        read_only = {book.store.read(lambda connection: connection.execute(TELL).scalar_one())}
        assert not book.store.ready()
        with pytest.raises(STORE_AWAY):
            book.decide(run_id, reviewer)
        read_only.add(book.store.read(lambda connection: connection.execute(TELL).scalar_one()))
    assert book.decide(run_id, reviewer).run_id == run_id
    assert book.store.ready()
    assert book.store.read(lambda connection: connection.execute(TELL).scalar_one()) not in read_only
    assert (book.count("decision"), book.audit()) == (1, [])


def test_readiness_alone_finds_the_primary_again(book: Book) -> None:
    """A gateway that is not ready gets no requests that could drop its sessions."""
    with standby(book.database):
        assert not book.store.ready()
    assert book.store.ready()


def test_c90_a_statement_prepared_before_a_migration_is_prepared_again(book: Book) -> None:
    """A column more changes what `SELECT *` returns; PostgreSQL refuses the cached plan with 0A000 once."""
    everything, store = text("SELECT * FROM lease"), Store(book.database.url, pool=1)
    for _ in range(12):
        store.write(lambda connection: connection.execute(everything).all())
    with psycopg.connect(book.database.superuser_dsn, autocommit=True) as superuser:
        superuser.execute("ALTER TABLE lease ADD COLUMN next_release text")
    assert store.write(lambda connection: list(connection.execute(everything).keys()))[-1] == "next_release"
    store.close()
