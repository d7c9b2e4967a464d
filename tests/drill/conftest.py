"""The session's servers as the drill's, with a sandbox that tells no other gateway of what happens here."""

from collections.abc import Iterator

import pytest
from databases import PASSWORDS, TEMPLATE
from sandboxes import sandbox_process

from drill.ground import Servers
from stack.postgres import EmbeddedPostgres


@pytest.fixture(scope="package")
def servers(
    migrated: EmbeddedPostgres, temporal_server: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    """What every drill of a test stands on."""
    folder = tmp_path_factory.mktemp("drill")
    with sandbox_process(folder / "sandbox.db") as sandbox:
        yield Servers(migrated, PASSWORDS, TEMPLATE, temporal_server, sandbox.url, folder)
