"""The servers that tests share: one PostgreSQL and one Temporal for the session, one database for each test."""

import asyncio
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from databases import Database, fresh_database, make_template
from engine_view import EngineView
from hypothesis import HealthCheck, settings
from sandboxes import SandboxProcess, sandbox_process
from temporalio.client import Client
from world import World, world

from stack.child import Files
from stack.ports import free_port
from stack.postgres import EmbeddedPostgres, PostgresSettings
from stack.temporal import EmbeddedTemporal, TemporalSettings

# How long an example takes says something of the machine alone.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
TESTS = Path(__file__).parent
SHORT = {"cli", "connectors", "docs", "domain", "gateway", "sandbox"}
"""Folders whose files are quickly through."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Processes side by side begin with what waits for whole stacks, so that all of them end together."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.path.relative_to(TESTS).parts[0] in SHORT)


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


@pytest.fixture(scope="session")
def sandbox_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxProcess]:
    """CRM and provider as one process of their own."""
    with sandbox_process(tmp_path_factory.mktemp("sandbox") / "sandbox.db") as process:
        yield process


@pytest.fixture(scope="session")
def shared(
    migrated: EmbeddedPostgres,
    temporal_server: str,
    sandbox_service: SandboxProcess,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[World]:
    """One running world for all tests that need no settings of their own; each uses a company of its own."""
    folder = tmp_path_factory.mktemp("world")
    with fresh_database(migrated) as database, world(database, temporal_server, sandbox_service, folder) as running:
        yield running


@pytest.fixture(scope="session")
def engine(shared: World, temporal_client: Client, runner: asyncio.Runner) -> EngineView:
    """The shared world's executions, as an operator with Temporal's own tools sees them."""
    return EngineView(shared, temporal_client, runner)
