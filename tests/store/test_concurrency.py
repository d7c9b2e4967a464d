"""Workers that meet in one row: nothing is lost, nothing waits for ever, no session outlives its transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial

import psycopg
import pytest
from connector_cases import hubspot_to
from eventually import eventually
from raw_server import Peer, raw_server
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from store_builder import AMENDER, STEPS, Book, changed
from store_faults import locked_out
from together import together

from activities.effects import Effects
from activities.questions import Questions
from activities.snapshots import Snapshots
from activities.tools import Tools, Waits
from business_store.actors import Actor
from business_store.database import Store
from business_store.ledger import Ledger
from business_store.runs import Move, lock_run, move
from domain.errors import RaceLost
from domain.processes import PROCESSES
from domain.records import Run
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
        met = iter([lambda: held.wait(timeout=60)])

        def work(connection: Connection) -> None:
            connection.execute(raised, {"run": one})
            next(met, lambda: 0)()
            connection.execute(raised, {"run": other})

        book.store.write(work)

    outcomes = together([partial(crossing, first, second), partial(crossing, second, first)])
    assert outcomes == [None, None]
    assert [row.nudge for row in book.rows("SELECT nudge FROM run")] == [2, 2]


# C89: nothing is held while somebody outside is waited for.


class Outside:
    """A service that takes requests and answers none before it is told to; then it hangs up."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def __call__(self, peer: Peer) -> None:
        peer.request()
        self.released.wait(timeout=60)


def _effects(book: Book, store: Store, url: str) -> Effects:
    """Real activities on this store, whose CRM listens at `url`."""
    ledger = Ledger(store, lambda _: book.terms, lambda _: book.patience)
    waits = Waits(timedelta(hours=1), timedelta(seconds=30))
    away = (DBAPIError, PoolTimeout)
    tools = Tools(ledger, {"hubspot": hubspot_to(url)}, {}, PROCESSES, book.timing, waits, str, away)
    snapshots = Snapshots({})
    return Effects(tools, snapshots, Questions(tools, snapshots))


def _half_done(book: Book, reviewer: Actor, object_id: str) -> str:
    """A run whose next send goes to the CRM."""
    run_id = book.accept_trigger(object_id)
    book.approved(run_id, reviewer)
    book.accepted(run_id, book.permit(run_id))
    return run_id


@pytest.fixture
def narrow(book: Book) -> Iterator[Store]:
    """A store with a single connection."""
    store = Store(book.database.url, pool=1)
    yield store
    store.close()


def test_c89_six_calls_out_on_a_pool_of_one(book: Book, reviewer: Actor, narrow: Store) -> None:
    runs, outside = [_half_done(book, reviewer, str(number)) for number in range(6)], Outside()
    with raw_server(outside) as server:
        effects = _effects(book, narrow, server.url)

        def carry_out(run_id: str) -> RunState:
            facts = effects.tools.ledger.facts(run_id)
            return effects.carry_out(book.call(run_id, STEPS[1]), facts, book.process)[1].run.state

        def watch() -> RunState:
            try:
                eventually(lambda: len(server.requests) == 6)
                assert [state for state, _ in _sessions(book) if state != "idle"] == []
                return RunState.RUNNING
            finally:
                outside.released.set()

        works: list[Callable[[], RunState]] = [watch, *(partial(carry_out, run_id) for run_id in runs)]
        outcomes = together(works)
    assert outcomes == [RunState.RUNNING, *[RunState.OUTCOME_UNKNOWN] * 6]
    assert len(server.requests) == 6
    assert book.audit() == []


def test_c89_an_outcome_is_saved_when_the_store_comes_back_and_never_sent_again(
    book: Book, reviewer: Actor, narrow: Store
) -> None:
    run_id, outside = _half_done(book, reviewer, "1"), Outside()
    with raw_server(outside) as server:
        effects, facts = _effects(book, narrow, server.url), book.facts(run_id)

        def carry_out() -> RunState:
            return effects.carry_out(book.call(run_id, STEPS[1]), facts, book.process)[1].run.state

        def lock_out() -> RunState:
            eventually(lambda: len(server.requests) == 1)
            tries = _refused_connections(narrow)
            with locked_out(book.database):
                outside.released.set()
                eventually(lambda: len(tries) >= 3)
            return RunState.RUNNING

        outcomes = together([carry_out, lock_out])
    book.store.engine.dispose()
    assert outcomes == [RunState.OUTCOME_UNKNOWN, RunState.RUNNING]
    assert (len(server.requests), book.count("attempt"), book.count("answer")) == (1, 2, 2)


def _refused_connections(store: Store) -> list[object]:
    """Grows with every connection that the store tries to open."""
    tries: list[object] = []
    event.listen(store.engine, "do_connect", lambda *asked: tries.append(None))
    return tries


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
