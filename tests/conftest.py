"""The servers that tests share: one PostgreSQL and one Temporal for the session, one database for each test."""

import asyncio
import secrets
from collections.abc import Iterator

import pytest
from databases import Database, fresh_database, make_template
from temporalio.client import Client

from stack.child import Files
from stack.ports import free_port
from stack.postgres import EmbeddedPostgres, PostgresSettings
from stack.temporal import EmbeddedTemporal, TemporalSettings


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """An empty server; most tests want `database`."""
    settings = PostgresSettings(password=secrets.token_urlsafe(), durable=False)
    server = EmbeddedPostgres(tmp_path_factory.mktemp("postgres") / "data", free_port(), settings)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def migrated(postgres: EmbeddedPostgres) -> EmbeddedPostgres:
    """The server with the template that every test's database is copied from."""
    make_template(postgres)
    return postgres


@pytest.fixture
def database(migrated: EmbeddedPostgres) -> Iterator[Database]:
    """A migrated database of this test's own."""
    with fresh_database(migrated) as fresh:
        yield fresh


@pytest.fixture(scope="session")
def temporal_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Temporal server with our search attributes, in memory and without UI."""
    files = Files.of(tmp_path_factory.mktemp("temporal"), "temporal")
    server = EmbeddedTemporal(TemporalSettings(free_port()), files)
    server.start()
    try:
        yield server.address
    finally:
        server.stop()


@pytest.fixture(scope="session")
def runner() -> Iterator[asyncio.Runner]:
    """The session's event loop: `runner.run(something())` in an ordinary test function."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="session")
def temporal_client(temporal_server: str, runner: asyncio.Runner) -> Client:
    """Bound to `runner`'s loop."""
    return runner.run(Client.connect(temporal_server))
