"""A fresh copy of the migrated database for one test."""

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec

import psycopg
from psycopg import sql

from stack.postgres import EmbeddedPostgres
from stack.provision import APP_ROLE, OWNER_ROLE, RETENTION_ROLE, Passwords, provision

TEMPLATE = "counterfoil_template"
PASSWORDS = Passwords(owner="owner-secret", app="app-secret", retention="retention-secret")

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Database:
    """One test's own database. URLs are SQLAlchemy's; `superuser_dsn` is libpq's, for planting what nobody may do."""

    name: str
    url: str
    owner_url: str
    retention_url: str
    superuser_dsn: str


def make_template(server: EmbeddedPostgres) -> None:
    provision(server.dsn(), PASSWORDS, TEMPLATE)
    if find_spec("business_store.schema"):
        from business_store.schema import upgrade

        upgrade(PASSWORDS.url(OWNER_ROLE, server.port, TEMPLATE))


@contextmanager
def fresh_database(server: EmbeddedPostgres, template: str = TEMPLATE) -> Iterator[Database]:
    name = f"test_{os.getpid()}_{next(_numbers)}"
    _administer(server, "CREATE DATABASE {} TEMPLATE {} OWNER {}", name, template, OWNER_ROLE)
    try:
        yield _described(server, name)
    finally:
        _administer(server, "DROP DATABASE {} WITH (FORCE)", name)


def _described(server: EmbeddedPostgres, name: str) -> Database:
    return Database(
        name=name,
        url=PASSWORDS.url(APP_ROLE, server.port, name),
        owner_url=PASSWORDS.url(OWNER_ROLE, server.port, name),
        retention_url=PASSWORDS.url(RETENTION_ROLE, server.port, name),
        superuser_dsn=server.dsn(name),
    )


def _administer(server: EmbeddedPostgres, statement: str, *names: str) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(*(sql.Identifier(name) for name in names)))
