"""What a real PostgreSQL says besides yes, planted in one test's database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
from databases import Database

CLEAR_OUT = """
    SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
    WHERE usename = 'counterfoil_app' AND datname = current_database()
"""


@contextmanager
def raising(database: Database, state: str, table: str = "event") -> Iterator[Callable[[], bool]]:
    """Every insert into this table ends as PostgreSQL ends it with this SQLSTATE; yields whether one has."""
    with psycopg.connect(database.superuser_dsn, autocommit=True) as superuser:
        superuser.execute("SET lock_timeout = '10s'")
        superuser.execute("CREATE SEQUENCE refused")
        superuser.execute(
            "CREATE FUNCTION broken() RETURNS trigger SECURITY DEFINER LANGUAGE plpgsql AS $$ BEGIN"
            f" PERFORM nextval('refused'); RAISE EXCEPTION 'planted' USING ERRCODE = '{state}'; END $$"
        )
        superuser.execute(f"CREATE TRIGGER broken BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION broken()")
        try:
            yield lambda: bool(superuser.execute("SELECT is_called FROM refused").fetchall()[0][0])
        finally:
            superuser.execute("DROP FUNCTION broken CASCADE")
            superuser.execute("DROP SEQUENCE refused")


@contextmanager
def standby(database: Database) -> Iterator[Callable[[], bool]]:
    """As after a failover: who connects now reaches a server that may only be read, until this ends."""
    alter = f'ALTER DATABASE "{database.name}"'
    with psycopg.connect(database.superuser_dsn, autocommit=True) as superuser:
        superuser.execute(f"{alter} SET default_transaction_read_only = on")
        superuser.execute(CLEAR_OUT)
        try:
            yield lambda: True
        finally:
            superuser.execute(f"{alter} RESET default_transaction_read_only")


@contextmanager
def locked_out(database: Database) -> Iterator[Callable[[], bool]]:
    """The application may not connect, and whoever was connected is thrown out."""
    limit = f'ALTER DATABASE "{database.name}" CONNECTION LIMIT'
    with psycopg.connect(database.superuser_dsn, autocommit=True) as superuser:
        superuser.execute(f"{limit} 0")
        superuser.execute(CLEAR_OUT)
        try:
            yield lambda: True
        finally:
            superuser.execute(f"{limit} -1")
