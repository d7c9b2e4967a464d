"""Connections that rested are asked before they are trusted."""

import psycopg
from databases import Database
from sqlalchemy import Connection, text

from business_store.database import Store


def test_a_server_that_hung_up_on_resting_connections_costs_no_error(
    database: Database,
) -> None:
    store = Store(database.url, 1)
    with store.reading() as connection:
        former = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
    _terminate(database, former)
    with store.reading() as connection:
        assert connection.execute(text("SELECT pg_backend_pid()")).scalar_one() != former
    store.close()


def test_a_read_whose_connection_is_cut_under_it_is_made_again(database: Database) -> None:
    store, backends = Store(database.url, 1), []

    def cut_the_first_time(connection: Connection) -> int:
        backends.append(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())
        if len(backends) == 1:
            _terminate(database, backends[0])
        return int(connection.execute(text("SELECT 7")).scalar_one())

    assert store.read(cut_the_first_time) == 7
    assert len(set(backends)) == 2
    store.close()


def _terminate(database: Database, backend: int) -> None:
    with psycopg.connect(database.superuser_dsn, autocommit=True) as superuser:
        superuser.execute("SELECT pg_terminate_backend(%s, 5000)", [backend])
