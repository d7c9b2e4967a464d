"""Bring a database to the newest schema, safe under load: fail fast on a lock, try again, slow nobody down."""

from __future__ import annotations

import random
import time
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import OperationalError

from business_store.policies import record_policies
from domain.processes import PROCESSES

MIGRATIONS = Path(__file__).parent / "migrations"
LOCK_TIMEOUT = "2s"
TRIES = 30
"""An ALTER that waits makes every reader queue behind it, so it gives up soon and comes back."""

LOCK_NOT_AVAILABLE, DEADLOCK = "55P03", "40P01"


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    return config


def head() -> str:
    """The newest revision that this code knows."""
    return str(ScriptDirectory.from_config(_config()).get_current_head())


def upgrade(owner_url: str) -> str:
    """Migrate as the owning role and record the declared policy versions; return the revision.

    Raises sqlalchemy.exc.OperationalError when a lock could not be had in all tries.
    """
    engine = create_engine(owner_url)
    try:
        _try_often(engine)
    finally:
        engine.dispose()
    return head()


def _try_often(engine: Engine) -> None:
    for tries_left in reversed(range(TRIES)):
        try:
            with engine.begin() as connection:
                return _migrate(connection)
        except OperationalError as refused:
            if not tries_left or getattr(refused.orig, "sqlstate", None) not in (LOCK_NOT_AVAILABLE, DEADLOCK):
                raise
            time.sleep(random.uniform(0.2, 1.0))


def _migrate(connection: Connection) -> None:
    connection.execute(text("SELECT pg_advisory_xact_lock(727172)"))
    connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'"))
    command.upgrade(_config(connection), "head")
    record_policies(connection, list(PROCESSES.values()))
