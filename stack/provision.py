"""The accounts and the database that Counterfoil expects on a PostgreSQL server: made once, set right every time."""

from dataclasses import dataclass, field

import psycopg
from psycopg import sql

from stack.ports import LOOPBACK

OWNER_ROLE = "counterfoil_owner"
APP_ROLE = "counterfoil_app"
RETENTION_ROLE = "counterfoil_retention"
DATABASE = "counterfoil"


@dataclass(frozen=True)
class Passwords:
    owner: str = field(repr=False)
    app: str = field(repr=False)
    retention: str = field(repr=False)

    def by_role(self) -> dict[str, str]:
        return {OWNER_ROLE: self.owner, APP_ROLE: self.app, RETENTION_ROLE: self.retention}

    def url(self, role: str, port: int, database: str = DATABASE) -> str:
        """A SQLAlchemy URL; passwords are made of characters that need no quoting."""
        return f"postgresql+psycopg://{role}:{self.by_role()[role]}@{LOOPBACK}:{port}/{database}"


def provision(dsn: str, passwords: Passwords, database: str = DATABASE) -> None:
    """As superuser: the owner migrates and grants, the others hold only what the migrations grant them."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for role, password in passwords.by_role().items():
            _ensure_role(connection, role, password)
        _ensure_database(connection, database)


def _ensure_role(connection: psycopg.Connection, role: str, password: str) -> None:
    known = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone()
    verb = sql.SQL("ALTER ROLE" if known else "CREATE ROLE")
    connection.execute(sql.SQL("{} {} LOGIN PASSWORD {}").format(verb, sql.Identifier(role), sql.Literal(password)))


def _ensure_database(connection: psycopg.Connection, database: str) -> None:
    if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [database]).fetchone():
        return
    statement = sql.SQL("CREATE DATABASE {} OWNER {}")
    connection.execute(statement.format(sql.Identifier(database), sql.Identifier(OWNER_ROLE)))
