"""The sandbox's own durable records: one SQLite file, used from one thread."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SCHEMA = """
create table if not exists state (name text primary key, value text not null);
create table if not exists objects (
  seq integer primary key autoincrement, type text not null, id text not null, properties text not null,
  history text not null, created_ms integer not null, updated_ms integer not null, archived_ms integer,
  unique (type, id));
create table if not exists unique_values (
  type text, property text, value text, id text not null, primary key (type, property, value));
create table if not exists associations (
  from_type text, from_id text, to_type text, to_id text, type_id integer,
  primary key (from_type, from_id, to_type, to_id, type_id));
create table if not exists owners (id text primary key, user_id integer not null, body text not null);
create table if not exists properties (
  type text, name text, is_unique integer not null, primary key (type, name));
create table if not exists webhooks (
  seq integer primary key autoincrement, url text not null, scheme text not null, event text not null,
  attempt integer not null default 0, due_ms integer not null, state text not null default 'pending');
create index if not exists webhooks_due on webhooks (state, due_ms);
create table if not exists accounts (
  seq integer primary key autoincrement, id text not null unique, created integer not null,
  body text not null, deleted integer not null default 0);
create table if not exists idempotency_keys (
  key text primary key, endpoint text not null, parameters text not null, status integer not null,
  body text not null, started_ms integer not null);
create table if not exists practice_accounts (
  seq integer primary key autoincrement, mode text not null, id text not null unique, reference text not null,
  body text not null, created_ms integer not null, visible_ms integer not null);
create index if not exists practice_references on practice_accounts (mode, reference);
create table if not exists practice_keys (
  mode text not null, key text not null, body_sha256 text not null, status integer not null, answer text not null,
  started_ms integer not null, primary key (mode, key));
create table if not exists practice_late (request integer primary key, due_ms integer not null, call text not null);
create table if not exists faults (
  id integer primary key autoincrement, rule text not null, remaining integer not null);
create table if not exists requests (
  id integer primary key autoincrement, method text not null, path text not null, query text not null,
  headers text not null, body text not null, idempotency_key text, received_ms integer not null,
  fault text, status integer, executed integer not null default 0, answered_ms integer);
"""
TABLES = (
    "state",
    "objects",
    "unique_values",
    "associations",
    "owners",
    "properties",
    "webhooks",
    "accounts",
    "idempotency_keys",
    "practice_accounts",
    "practice_keys",
    "practice_late",
    "faults",
    "requests",
    "sqlite_sequence",
)
Row = sqlite3.Row


class Records:
    """Opens (and creates) the file. A committed write survives SIGKILL of the process."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, timeout=10)
        self._db.row_factory = sqlite3.Row
        self._db.execute("pragma journal_mode = wal")
        self._db.execute("pragma synchronous = normal")
        self._db.executescript(SCHEMA)

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commits at the end, rolls back on any exception. Joins a transaction that is already open."""
        if self._db.in_transaction:
            yield
            return
        self._db.execute("begin immediate")
        try:
            yield
        except BaseException:
            self._db.execute("rollback")
            raise
        self._db.execute("commit")

    def rows(self, sql: str, *values: object) -> list[Row]:
        return self._db.execute(sql, values).fetchall()

    def row(self, sql: str, *values: object) -> Row | None:
        found: Row | None = self._db.execute(sql, values).fetchone()
        return found

    def write(self, sql: str, *values: object) -> int:
        """Runs one statement; the row id it inserted."""
        return self._db.execute(sql, values).lastrowid or 0

    def kept(self, name: str, default: object) -> Any:  # noqa: ANN401 (whatever JSON was kept)
        found = self.row("select value from state where name = ?", name)
        return default if found is None else json.loads(found["value"])

    def keep(self, name: str, value: object) -> None:
        self.write("insert or replace into state values (?, ?)", name, json.dumps(value))

    def next_number(self, name: str, first: int) -> int:
        number = int(self.kept(name, first))
        self.keep(name, number + 1)
        return number

    def clear(self) -> None:
        with self.transaction():
            for table in TABLES:
                self.write(f"delete from {table}")
