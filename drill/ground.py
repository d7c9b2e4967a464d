"""What all schedules share: Postgres, Temporal, the sandbox, and a nursery of drilled processes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

from temporalio.client import Client

from business_store.schema import upgrade
from sandbox.control import SandboxControl
from stack.child import Files
from stack.ports import free_port
from stack.postgres import EmbeddedPostgres, PostgresSettings
from stack.provision import OWNER_ROLE, Passwords, provision
from stack.temporal import EmbeddedTemporal, TemporalSettings
from workflows.plugin import counterfoil_plugin

if TYPE_CHECKING:
    from drill.processes import Nursery

ROOT = Path(__file__).resolve().parent.parent
TEMPLATE = "drill_template"
INDEX_LAG = 0.1
"""Seconds that the practice provider's index lags: less than is declared of it."""
T = TypeVar("T")


class EngineSide:
    """The engine's client on a thread of its own, for callers that are no coroutines."""

    def __init__(self, address: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.client: Client = self.run(Client.connect(address, plugins=[counterfoil_plugin()]))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of this coroutine."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


@dataclass(frozen=True)
class Servers:
    """Where the servers are that were started for the drill or for a test."""

    postgres: EmbeddedPostgres
    passwords: Passwords
    template: str
    temporal: str
    sandbox: str
    folder: Path


@dataclass(frozen=True)
class Ground:
    """The servers, and clients of them that all slots share."""

    servers: Servers
    nursery: Nursery
    engine: EngineSide
    sandbox: SandboxControl


@contextmanager
def servers(folder: Path) -> Iterator[Servers]:
    """Started for the block. Commits are not flushed to the disk: it is our processes that die here, not the server."""
    with ExitStack() as stack:
        passwords = Passwords(owner="drill-owner", app="drill-app", retention="drill-retention")
        settings = PostgresSettings(password="drill-superuser", durable=False)
        postgres = EmbeddedPostgres(folder / "postgres" / "data", free_port(), settings)
        postgres.start()
        stack.callback(postgres.stop)
        provision(postgres.dsn(), passwords, TEMPLATE)
        upgrade(passwords.url(OWNER_ROLE, postgres.port, TEMPLATE))
        temporal = EmbeddedTemporal(TemporalSettings(free_port()), Files.of(folder, "temporal"))
        temporal.start()
        stack.callback(temporal.stop)
        sandbox = stack.enter_context(_sandbox(folder))
        yield Servers(postgres, passwords, TEMPLATE, temporal.address, sandbox, folder)


@contextmanager
def _sandbox(folder: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "sandbox", "--port", "0", "--data", str(folder / "sandbox.sqlite")]
    clean = {name: text for name, text in os.environ.items() if not name.startswith("SANDBOX_")}
    with (
        (folder / "sandbox.log").open("ab") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT, env=clean) as process,
    ):
        try:
            assert process.stdout is not None
            url = process.stdout.readline().removeprefix("sandbox: ").strip()
            with SandboxControl(url) as control:
                control.wait_until_healthy(60)
            yield url
        finally:
            process.kill()


@contextmanager
def ground(given: Servers, command: tuple[str, ...] = ("-m", "drill.nursery")) -> Iterator[Ground]:
    """The drill's own parts over these servers; `command` starts the nursery."""
    from drill.processes import nursery

    with ExitStack() as stack:
        born = stack.enter_context(nursery(given.folder / "nursery.log", command))
        engine = EngineSide(given.temporal)
        stack.callback(engine.close)
        control = stack.enter_context(SandboxControl(given.sandbox))
        control.settings(practice_lag=INDEX_LAG)
        yield Ground(given, born, engine, control)
