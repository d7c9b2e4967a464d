"""C93: one instant everywhere, whatever zone the process, the session or the database lives in."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from sqlalchemy import create_engine, text
from store_builder import Book, changed

from business_store.actors import Actor
from business_store.decisions import revoke_decision

DEADLINE = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(params=["Asia/Kolkata", "America/New_York"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """This process lives in another zone than the database, whose sessions default to Tokyo's."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def tokyo(book: Book) -> None:
    with psycopg.connect(book.database.superuser_dsn, autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{book.database.name}" SET timezone = "Asia/Tokyo"')


def test_c93_every_column_of_time_knows_its_zone(book: Book) -> None:
    naive = book.rows("""
        SELECT table_name, column_name FROM information_schema.columns
        WHERE table_schema = 'public' AND data_type IN ('timestamp without time zone', 'time without time zone')
    """)
    assert naive == []


@pytest.mark.usefixtures("tokyo")
def test_c93_an_instant_comes_back_as_it_went_in(book: Book, zone: str) -> None:
    book.accept_trigger(occurred_at=DEADLINE)
    assert time.tzname[0] not in ("UTC", "GMT"), zone
    assert book.rows("SELECT occurred_at FROM delivery")[0].occurred_at == DEADLINE
    seen = create_engine(book.database.owner_url)
    with seen.connect() as connection:
        assert connection.execute(text("SHOW timezone")).scalar() == "Asia/Tokyo"
        assert connection.execute(text("SELECT occurred_at FROM delivery")).scalar() == DEADLINE
        hashed = connection.execute(text("SELECT bool_and(hash = event_hash(event)) FROM event")).scalar()
    seen.dispose()
    assert hashed, "the hash of an event must not depend on the zone in which it is read"


@pytest.mark.usefixtures("tokyo", "zone")
def test_c93_a_whole_run_holds_in_any_zone(book: Book, reviewer: Actor) -> None:
    run_id = book.accept_trigger()
    before = book.facts(run_id).now
    book.snapshot(run_id)
    review = book.facts(run_id).reviews[0]
    assert before + book.terms.deadline <= review.deadline <= book.facts(run_id).now + book.terms.deadline
    assert abs(datetime.now(UTC) - book.facts(run_id).now) < timedelta(minutes=5)
    book.decide(run_id, reviewer)
    book.look(run_id)
    book.carry_out(run_id)
    book.agree(run_id)
    assert book.run(run_id).state == "succeeded"
    assert book.audit() == []


@pytest.mark.usefixtures("zone")
def test_c93_events_of_both_zones_make_one_chain(book: Book, reviewer: Actor) -> None:
    run_id = book.accept_trigger()
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()
    book.approved(run_id, reviewer)
    book.store.write(lambda connection: revoke_decision(connection, reviewer, run_id, "zone"))
    book.deliver(changed(dedupe_key="later", property_name="iban", occurred_at=DEADLINE))
    assert book.audit() == []
