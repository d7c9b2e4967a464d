"""What was recorded stays: the application may only add, and even the owner is refused."""

from collections.abc import Iterator

import psycopg
import pytest
from databases import Database
from store_builder import Book

from business_store.actors import Actor
from business_store.audit.immutability import INSERT_ONLY

SELDOM = (
    *("callback", "carry_over", "erased_receipt", "erased_request", "erasure", "probe", "refused_decision"),
    *("resolution", "revocation"),
)
FILLED = tuple(table for table in INSERT_ONLY if table not in SELDOM)
"""Insert-only tables that a straight run writes to."""


@pytest.fixture
def filled(book: Book, reviewer: Actor) -> Database:
    book.straight(reviewer)
    return book.database


@pytest.fixture
def application(filled: Database) -> Iterator[psycopg.Connection]:
    with psycopg.connect(_libpq(filled.url)) as connection:
        yield connection


@pytest.fixture
def owner(filled: Database) -> Iterator[psycopg.Connection]:
    with psycopg.connect(_libpq(filled.owner_url)) as connection:
        yield connection


def _libpq(url: str) -> str:
    return url.replace("postgresql+psycopg", "postgresql")


def _column(connection: psycopg.Connection, table: str) -> str:
    """A column that a statement may name on the left of SET."""
    found = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND attidentity = ''"
        " ORDER BY attnum LIMIT 1",
        [table],
    ).fetchone()
    assert found is not None
    return str(found[0])


def _refusal(connection: psycopg.Connection, statement: str, table: str) -> psycopg.Error | None:
    """Why this statement failed, or None when it did not."""
    complete = statement.format(table=table, column=_column(connection, table))
    try:
        with connection.transaction():
            connection.execute(complete)
    except psycopg.Error as refused:
        return refused
    return None


def test_a_straight_run_fills_these_tables(filled: Database, application: psycopg.Connection) -> None:
    empty = [table for table in FILLED if application.execute(f"SELECT 1 FROM {table}").fetchone() is None]
    assert empty == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {table} SET {column} = {column}",
        "DELETE FROM {table}",
        "TRUNCATE {table} CASCADE",
        "ALTER TABLE {table} DISABLE TRIGGER insert_only",
        "DROP TABLE {table} CASCADE",
        "DROP TRIGGER insert_only ON {table}",
    ],
)
def test_the_application_may_only_add(application: psycopg.Connection, statement: str) -> None:
    refusals = {table: type(_refusal(application, statement, table)) for table in INSERT_ONLY}
    assert refusals == dict.fromkeys(INSERT_ONLY, psycopg.errors.InsufficientPrivilege)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO permitted_move VALUES ('worker', 'succeeded', 'running')",
        "SET session_replication_role = replica",
        "INSERT INTO erasure (asked_by, reason, cutoff, requests, receipts) VALUES ('x', 'x', now(), 1, 1)",
        "INSERT INTO erased_request SELECT id, 1 FROM request",
        "SET ROLE counterfoil_retention",
        "DELETE FROM run",
        "DELETE FROM operation",
        "DELETE FROM review",
        "CREATE TABLE mine (id int)",
        "CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    ],
)
def test_the_application_cannot_change_the_rules(application: psycopg.Connection, statement: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        application.execute(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE delivery SET inputs = 'x', inputs_sha256 = sha256('x')",
        "UPDATE operation SET content = NULL",
        "UPDATE operation SET content = 'x', content_sha256 = sha256('x')",
    ],
)
def test_contents_stay_where_the_row_is_a_projection(application: psycopg.Connection, statement: str) -> None:
    with pytest.raises(psycopg.IntegrityError) as refused:
        application.execute(statement.encode())
    assert refused.value.diag.constraint_name in ("insert_only", "operation_fixed")


@pytest.mark.parametrize(
    "statement", ["UPDATE {table} SET {column} = {column}", "DELETE FROM {table}", "TRUNCATE {table} CASCADE"]
)
def test_even_the_owner_is_refused(owner: psycopg.Connection, statement: str) -> None:
    refusals = {table: _refusal(owner, statement, table) for table in FILLED}
    named = {table: refused.diag.constraint_name for table, refused in refusals.items() if refused is not None}
    assert named == dict.fromkeys(FILLED, "insert_only")
