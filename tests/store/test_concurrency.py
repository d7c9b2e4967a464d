"""Workers that meet in one row: nothing is lost, nothing waits for ever, no session outlives its transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import psycopg
import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from store_builder import AMENDER, STEPS, Book, changed
from together import together

from business_store.actors import Actor
from business_store.runs import Move, lock_run, move
from domain.errors import RaceLost
from domain.operations import Granted
from domain.records import Run, Standing
from domain.states import RunState

BUSY = "SELECT state, wait_event_type FROM pg_stat_activity WHERE datname = current_database() AND usename = '{role}'"


# C85: a write that rests on what another worker has changed since.


def test_c85_a_stale_note_never_takes_a_terminal_state_back(book: Book, reviewer: Actor) -> None:
    run_id = book.accept_trigger()
    book.approved(run_id, reviewer)
    book.carry_out(run_id)
    stale = book.run(run_id)
    book.agree(run_id)
    note = Move(stale.state, "noted", "test", evidence={"note": 1})
    with pytest.raises(RaceLost):
        book.store.write(lambda connection: move(connection, stale, note))
    assert book.run(run_id).state is RunState.SUCCEEDED


def test_c85_two_workers_move_at_once(book: Book) -> None:
    run_id = book.accept_trigger()
    queued = book.run(run_id)
    started = Move(RunState.RUNNING, "started", "test")
    works: list[Callable[[], Run]] = [lambda: book.store.write(lambda c: move(c, queued, started))] * 2
    outcomes = together(works)
    assert {type(each) for each in outcomes} == {Run, RaceLost}
    assert (book.run(run_id).seq, book.count("event")) == (2, 2)


def test_c85_under_the_lock_both_notes_are_kept(book: Book) -> None:
    run_id = book.accept_trigger()
    book.snapshot(run_id)

    def note(number: int) -> Run:
        def noted(connection: Connection) -> Run:
            run = lock_run(connection, run_id)
            made = Move(run.state, "noted", "test", 0, run.next_owner, run.deadline, {"note": number})
            return move(connection, run, made)

        return book.store.write(noted)

    before = book.count("event")
    assert not [
        each for each in together([partial(note, number) for number in range(8)]) if isinstance(each, Exception)
    ]
    assert book.count("event") == before + 8
    assert book.audit() == []


# C88: two batches that name the same records in opposite orders.


def test_c88_crossing_batches_lose_nothing(book: Book) -> None:
    for object_id in ("1", "2", "3"):
        book.accept_trigger(object_id)
    order = ["1", "2", "3"]

    def batch(number: int) -> object:
        ids = order if number % 2 else order[::-1]
        elements = [
            changed(object_id, index=place, dedupe_key=f"{number}-{place}", property_name="iban", by=AMENDER)
            for place, object_id in enumerate(ids)
        ]
        return book.deliver(*elements)

    outcomes = together([partial(batch, number) for number in range(8)])
    assert not [each for each in outcomes if isinstance(each, Exception)]
    assert book.count("delivery") == 3 + 24
    assert [row.nudge for row in book.rows("SELECT nudge FROM run")] == [8, 8, 8]


def test_c88_a_deadlock_is_repeated_by_itself(book: Book) -> None:
    """Locks taken in opposite orders on purpose: the server ends one, and it is done again."""
    first, second = book.accept_trigger("1"), book.accept_trigger("2")
    held = threading.Barrier(2)
    raised = text("UPDATE run SET nudge = nudge + 1 WHERE id = :run")

    def crossing(one: str, other: str) -> None:
        met = iter([lambda: held.wait(timeout=10)])

        def work(connection: Connection) -> None:
            connection.execute(raised, {"run": one})
            next(met, lambda: 0)()
            connection.execute(raised, {"run": other})

        book.store.write(work)

    outcomes = together([partial(crossing, first, second), partial(crossing, second, first)])
    assert outcomes == [None, None]
    assert [row.nudge for row in book.rows("SELECT nudge FROM run")] == [2, 2]


# C89: nothing is held while somebody outside is waited for.


def test_c89_no_session_is_in_a_transaction_while_a_call_is_out(book: Book, reviewer: Actor) -> None:
    """From the permit to the answer the worker holds no connection: a pool of one serves everybody else meanwhile."""
    run_id = book.accept_trigger()
    book.approved(run_id, reviewer)
    asked, answered = threading.Event(), threading.Event()

    def send() -> Standing:
        granted = book.ask_permit(book.call(run_id, STEPS[0]))[1]
        assert isinstance(granted, Granted)
        asked.set()
        assert answered.wait(timeout=10)
        return book.accepted(run_id, granted)

    def watch() -> Standing:
        assert asked.wait(timeout=10)
        try:
            sessions = _sessions(book)
            assert [state for state, _ in sessions if state != "idle"] == []
            assert len(sessions) > 0
            return book.look(run_id)
        finally:
            answered.set()

    outcomes = together([send, watch])
    assert [type(each) for each in outcomes] == [Standing, Standing]


def _sessions(book: Book) -> list[tuple[str, str]]:
    with psycopg.connect(book.database.superuser_dsn) as connection:
        return connection.execute(BUSY.format(role="counterfoil_app")).fetchall()


def test_c89_a_failed_piece_of_work_gives_its_connection_back(book: Book) -> None:
    def broken(connection: Connection) -> None:
        connection.execute(text("SELECT 1"))
        raise ValueError("own defect")

    for _ in range(30):
        with pytest.raises(ValueError, match="own defect"):
            book.store.write(broken)
    assert book.store.engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    assert [state for state, _ in _sessions(book) if state != "idle"] == []


def test_c89_a_forgotten_transaction_is_ended_by_the_server(book: Book) -> None:
    """Every session of the application carries the limit, so that no lock is held for ever."""
    names = ("idle_in_transaction_session_timeout", "lock_timeout", "statement_timeout")
    limits = {name: book.rows(f"SHOW {name}")[0][0] for name in names}
    assert limits == dict(zip(names, ("30s", "10s", "20s"), strict=True))


def test_a_lock_that_is_never_given_up_is_an_error_and_no_hang(book: Book) -> None:
    run_id = book.accept_trigger()
    with psycopg.connect(book.database.superuser_dsn) as holder:
        holder.execute("SELECT FROM run WHERE id = %s FOR UPDATE", [run_id])

        def locked(connection: Connection) -> Run:
            connection.execute(text("SET LOCAL lock_timeout = '100ms'"))
            return lock_run(connection, run_id)

        with pytest.raises(DBAPIError):
            book.store.write(locked)
    assert book.store.write(lambda connection: lock_run(connection, run_id)).id == run_id
