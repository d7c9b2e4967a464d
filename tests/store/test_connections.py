"""Connections that rested are asked before they are trusted."""

import psycopg
import pytest
from databases import Database
from sqlalchemy import text

from business_store import database as database_module
from business_store.database import Store


def test_a_server_that_hung_up_on_resting_connections_costs_no_error(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "IDLE_SECONDS", 0.0)
    store = Store(database.url, 1)
    with store.reading() as connection:
        former = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
    with psycopg.connect(database.superuser_dsn, autocommit=True) as superuser:
        superuser.execute("SELECT pg_terminate_backend(%s, 5000)", [former])
    with store.reading() as connection:
        assert connection.execute(text("SELECT pg_backend_pid()")).scalar_one() != former
    store.close()
