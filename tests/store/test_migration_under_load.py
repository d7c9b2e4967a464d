"""C90: a migration gives up soon when somebody holds a lock, comes back, and meanwhile slows nobody down for long."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from alembic import command
from eventually import eventually
from sqlalchemy import Connection, text
from store_builder import Book, company

from business_store import schema
from business_store.actors import Actor
from business_store.requests import Asked, start_run
from domain.states import RunState


@pytest.fixture
def altering(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The next revision, as far as locks go: it adds a column to the busiest table. What each try ended with."""
    tries: list[str] = []

    def alter(config: object, revision: str) -> None:
        connection: Connection = config.attributes["connection"]  # type: ignore[attr-defined]
        tries.append("began")
        connection.execute(text("ALTER TABLE run ADD COLUMN IF NOT EXISTS next_release text"))
        tries.append("done")

    monkeypatch.setattr(command, "upgrade", alter)
    monkeypatch.setattr(schema, "LOCK_TIMEOUT", "200ms")
    return tries


def test_c90_it_fails_fast_is_tried_again_and_others_only_wait(
    book: Book, reviewer: Actor, altering: list[str]
) -> None:
    run_id = book.accept_trigger()
    with psycopg.connect(book.database.superuser_dsn) as idle, ThreadPoolExecutor(1) as pool:
        idle.execute("SELECT FROM run")
        migration = pool.submit(schema.upgrade, book.database.owner_url)
        eventually(lambda: altering.count("began") >= 2)
        assert "done" not in altering
        book.snapshot(run_id)
        others = [book.accept_trigger(f"busy-{number}") for number in range(5)]
        idle.rollback()
        assert migration.result(timeout=60) == schema.head()
    assert altering[-1] == "done"
    assert [book.run(other).state for other in others] == [RunState.QUEUED] * 5
    assert book.decide(run_id, reviewer).run_id == run_id


def test_c90_twenty_workers_go_on_while_it_runs(book: Book, reviewer: Actor, altering: list[str]) -> None:
    stop, failures, done = threading.Event(), list[Exception](), list[str]()

    def work(number: int) -> None:
        asked = Asked(book.process, company(f"w-{number}"), "counterfoil", rehearsal=True)
        while not stop.is_set():
            try:
                run_id, _ = book.store.write(lambda connection: start_run(connection, asked))
                book.snapshot(run_id)
                done.append(run_id)
            except Exception as error:
                failures.append(error)
                return

    with ThreadPoolExecutor(20) as pool:
        for number in range(20):
            pool.submit(work, number)
        try:
            eventually(lambda: len(done) >= 20, within=30)
            schema.upgrade(book.database.owner_url)
            after = len(done)
            eventually(lambda: len(done) >= after + 20, within=30)
        finally:
            stop.set()
    assert failures == []
    assert altering[-1] == "done"
    run_id = book.straight(reviewer)
    assert book.run(run_id).state is RunState.SUCCEEDED
    assert book.audit() == []


def test_c90_two_deployments_at_once_migrate_one_after_the_other(book: Book) -> None:
    with ThreadPoolExecutor(2) as pool:
        heads = list(pool.map(schema.upgrade, [book.database.owner_url] * 2))
    assert heads == [schema.head()] * 2
