"""One running world for all scenarios that do not need settings of their own; each uses a company of its own."""

from collections.abc import Iterator

import pytest
from databases import fresh_database
from sandboxes import SandboxProcess, sandbox_process
from world import World, world

from stack.postgres import EmbeddedPostgres


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
    """The shared world."""
    folder = tmp_path_factory.mktemp("world")
    with fresh_database(migrated) as database, world(database, temporal_server, sandbox_service, folder) as running:
        yield running
