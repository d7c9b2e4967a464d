"""The session's servers as the drill's, with a sandbox that tells no other gateway of what happens here."""

from collections.abc import Iterator

import pytest
from databases import PASSWORDS, TEMPLATE
from sandboxes import first_object_id, sandbox_process

from drill.ground import Servers
from sandbox.control import SandboxControl
from stack.postgres import EmbeddedPostgres


@pytest.fixture(scope="package")
def servers(
    migrated: EmbeddedPostgres, temporal_server: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    """What every drill of a test stands on."""
    folder = tmp_path_factory.mktemp("drill")
    with sandbox_process(folder / "sandbox.db") as sandbox, SandboxControl(sandbox.url) as control:
        control.settings(next_object_id=first_object_id())
        yield Servers(migrated, PASSWORDS, TEMPLATE, temporal_server, sandbox.url, folder)
