"""The table of permitted moves holds in the database too, and a run cannot move without its event."""

import pytest
from sqlalchemy import TextClause, text
from sqlalchemy.exc import IntegrityError
from store_builder import Book

from business_store.actors import Actor
from business_store.database import violated
from domain.states import MOVES, OPEN, TERMINAL, RunState

EVENT = text("""
    INSERT INTO event (run_id, seq, request_id, step, previous, next, reason, actor_kind, actor_id, at,
        workflow_version, policy_version, correlation_id, next_owner, previous_hash, hash)
    SELECT id, seq + 1, request_id, 'test', state, :next, 'tried', :kind, 'counterfoil', clock_timestamp(), '1',
        policy_version, correlation_id, 'operator', '', '' FROM run WHERE id = :run
""")
MOVE = text("UPDATE run SET state = :next, seq = seq + 1, reason = 'tried' WHERE id = :run")


def _refused(book: Book, *statements: TextClause, **named: str) -> str | None:
    """The constraint that refused these statements, when they committed at the latest."""
    with pytest.raises(IntegrityError) as refused:
        book.store.write(lambda connection: [connection.execute(each, named) for each in statements])
    return violated(refused.value)


def test_the_rows_are_the_table(book: Book) -> None:
    rows = book.rows("SELECT actor_kind, previous, next FROM permitted_move")
    assert {tuple(row) for row in rows} == {tuple(map(str, move)) for move in MOVES}


def test_nothing_leaves_a_terminal_state(book: Book) -> None:
    rows = book.rows("SELECT previous FROM permitted_move")
    assert {row[0] for row in rows} == {str(state) for state in OPEN}


FOREIGN_KEY = "event_actor_kind_previous_next_fkey"
BAD = [("worker", "awaiting_review"), ("worker", "succeeded"), ("sweep", "running"), ("nobody", "running")]


@pytest.mark.parametrize(("kind", "to"), BAD)
def test_a_bad_move_fails_in_sql(book: Book, kind: str, to: str) -> None:
    run_id = book.accept_trigger()
    assert _refused(book, EVENT, run=run_id, next=to, kind=kind) == FOREIGN_KEY
    assert book.run(run_id).state is RunState.QUEUED


def test_a_good_move_passes_in_sql(book: Book) -> None:
    run_id = book.accept_trigger()
    with book.store.engine.begin() as connection:
        connection.execute(EVENT, {"run": run_id, "next": "running", "kind": "worker"})
        connection.execute(MOVE, {"run": run_id, "next": "running"})
    assert book.run(run_id).state is RunState.RUNNING


def test_an_event_without_the_run_moving_fails_at_commit(book: Book) -> None:
    run_id = book.accept_trigger()
    assert _refused(book, EVENT, run=run_id, next="running", kind="worker") == "event_moves_run"
    assert book.count("event") == 1


def test_a_run_moving_without_event_fails_at_commit(book: Book) -> None:
    run_id = book.accept_trigger()
    assert _refused(book, MOVE, run=run_id, next="running") == "run_equals_last_event"
    reason_alone = text("UPDATE run SET reason = 'other' WHERE id = :run")
    assert _refused(book, reason_alone, run=run_id) == "run_equals_last_event"


def test_a_gap_in_the_events_fails(book: Book) -> None:
    run_id = book.accept_trigger()
    twice = text("UPDATE run SET seq = seq + 1 WHERE id = :run")
    assert _refused(book, twice, EVENT, run=run_id, next="running", kind="worker") == "event_gapless"


def test_an_event_that_follows_on_another_state_fails(book: Book) -> None:
    run_id = book.accept_trigger()
    lied = text("UPDATE run SET state = 'running' WHERE id = :run")
    assert _refused(book, lied, EVENT, run=run_id, next="waiting", kind="worker") == "event_gapless"


CHANGES = ["state = 'running'", "reason = 'other'", "deadline = now()", "cancel_requested_at = now()", "nudge = 9"]


@pytest.mark.parametrize("change", CHANGES)
def test_a_terminal_row_refuses_change(book: Book, reviewer: Actor, change: str) -> None:
    run_id = book.straight(reviewer)
    assert book.run(run_id).state in TERMINAL
    before = book.rows("SELECT to_jsonb(run) FROM run")
    assert _refused(book, text(f"UPDATE run SET {change} WHERE id = :run"), run=run_id) == "run_terminal"
    assert book.rows("SELECT to_jsonb(run) FROM run") == before


@pytest.mark.parametrize("change", ["kind = 'repair'", "number = 7", "engine_epoch = 0"])
def test_identity_and_epoch_never_go_back(book: Book, change: str) -> None:
    run_id = book.accept_trigger()
    assert _refused(book, text(f"UPDATE run SET {change} WHERE id = :run"), run=run_id) is not None


def test_a_request_to_cancel_is_never_unset(book: Book) -> None:
    run_id = book.accept_trigger()
    with book.store.engine.begin() as connection:
        connection.execute(text("UPDATE run SET cancel_requested_at = clock_timestamp()"))
    unset = text("UPDATE run SET cancel_requested_at = NULL WHERE id = :run")
    assert _refused(book, unset, run=run_id) == "run_identity"
