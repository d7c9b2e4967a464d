"""Rows of a former release after the migration: each is given what newer rows must have, and nothing else changes."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from alembic import command
from databases import PASSWORDS
from sqlalchemy import create_engine

from business_store import schema
from stack.postgres import EmbeddedPostgres
from stack.provision import OWNER_ROLE, provision

NAME = "former_release"
ROWS = """
    INSERT INTO operation (key, request_id, run_id, step, input_version, policy_version, system, kind, content,
        content_sha256, outcome)
    SELECT 'op-' || n, 'req', 'run', 'step-' || n, 1, 'p', 'system-' || n, 'make', 'x', sha256('x'), 'unknown'
    FROM generate_series(1, 3) n;
    INSERT INTO attempt (operation_key, number, run_id, epoch, engine_run, permitted_at, send_before, lease_until,
        content_sha256, token)
    SELECT 'op-' || n, m, 'run', 1, 'exec', now(), now() + interval '1 s', now() + interval '2 s', sha256('x'),
        'token-' || n || m FROM generate_series(1, 3) n, generate_series(1, 2) m;
"""


def _upgrade(url: str, revision: str) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        command.upgrade(schema._config(connection), revision)
    engine.dispose()


@pytest.fixture
def former(migrated: EmbeddedPostgres) -> Iterator[psycopg.Connection]:
    """A database with attempts that know of no dispatch, migrated since."""
    provision(migrated.dsn(), PASSWORDS, NAME)
    owner = PASSWORDS.url(OWNER_ROLE, migrated.port, NAME)
    _upgrade(owner, "0004")
    with psycopg.connect(migrated.dsn(NAME)) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(ROWS)
        connection.commit()
        schema.upgrade(owner)
        yield connection
    with psycopg.connect(migrated.dsn(), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {NAME} WITH (FORCE)")


def test_every_attempt_of_a_former_release_gets_a_dispatch_of_its_own(former: psycopg.Connection) -> None:
    rows = former.execute(
        "SELECT a.token, d.id, d.system, d.permitted_at = a.permitted_at FROM attempt a"
        " JOIN dispatch d ON d.id = a.dispatch_id ORDER BY a.token"
    ).fetchall()
    assert rows == [
        (f"token-{n}{m}", f"dsp-token-{n}{m}", f"system-{n}", True) for n in range(1, 4) for m in range(1, 3)
    ]


def test_attempts_are_insert_only_again(former: psycopg.Connection) -> None:
    former.execute("SET session_replication_role = origin")
    with pytest.raises(psycopg.errors.IntegrityConstraintViolation, match="insert-only"):
        former.execute("UPDATE attempt SET token = token")
