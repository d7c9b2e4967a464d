"""The parts that every figure stands on: durable Postgres, Temporal on a file, sandbox, and programs of our own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from sandbox.control import SandboxControl
from stack.child import Files
from stack.ports import free_ports
from stack.postgres import EmbeddedPostgres, PostgresSettings
from stack.provision import APP_ROLE, OWNER_ROLE, Passwords, provision
from stack.temporal import EmbeddedTemporal, TemporalSettings

ROOT = Path(__file__).resolve().parent.parent
PASSWORDS = Passwords(owner="bench-owner", app="bench-app", retention="bench-retention")
STRIPE_KEY, HUBSPOT_TOKEN, SECRET = "sk_test_sandbox", "pat-sandbox-token", "bench-client-secret"
PORTAL, APP = "90210001", "7700123"
QUEUE = "bench"


@dataclass(frozen=True)
class Ground:
    """Addresses of the parts, and the environment of our programs."""

    database_url: str
    superuser_dsn: str
    temporal: str
    sandbox: SandboxControl
    gateway_url: str
    environment: Mapping[str, str]
    folder: Path


@contextmanager
def ground(folder: Path) -> Iterator[Ground]:
    """Start everything but our own programs; stop all of it at the end."""
    postgres_port, temporal_port, sandbox_port, gateway_port = free_ports(4)
    with ExitStack() as stack:
        postgres = EmbeddedPostgres(folder / "postgres" / "data", postgres_port, PostgresSettings("bench-superuser"))
        postgres.start()
        stack.callback(postgres.stop)
        provision(postgres.dsn(), PASSWORDS)
        settings = TemporalSettings(temporal_port, database=folder / "temporal.db")
        temporal = EmbeddedTemporal(settings, Files.of(folder, "temporal"))
        temporal.start()
        stack.callback(temporal.stop)
        environment = _environment(postgres_port, temporal.address, sandbox_port, gateway_port)
        command = ["sandbox", "--port", str(sandbox_port), "--data", str(folder / "sandbox.sqlite")]
        stack.enter_context(program(command, environment, folder / "sandbox.log"))
        control = stack.enter_context(SandboxControl(f"http://127.0.0.1:{sandbox_port}"))
        control.wait_until_healthy(120)
        _migrate(environment)
        gateway_url = f"http://127.0.0.1:{gateway_port}"
        url = PASSWORDS.url(APP_ROLE, postgres_port)
        yield Ground(url, postgres.dsn("counterfoil"), temporal.address, control, gateway_url, environment, folder)


def _environment(postgres_port: int, temporal: str, sandbox_port: int, gateway_port: int) -> dict[str, str]:
    gateway, sandbox = f"http://127.0.0.1:{gateway_port}", f"http://127.0.0.1:{sandbox_port}"
    own = {
        "DATABASE_URL": PASSWORDS.url(APP_ROLE, postgres_port),
        "DATABASE_OWNER_URL": PASSWORDS.url(OWNER_ROLE, postgres_port),
        "GATEWAY_PORT": str(gateway_port),
        "PUBLIC_URL": gateway,
        "TASK_QUEUE": QUEUE,
        "HUBSPOT_BASE_URL": sandbox,
        "HUBSPOT_TOKEN": HUBSPOT_TOKEN,
        "HUBSPOT_CLIENT_SECRET": SECRET,
        "HUBSPOT_PUBLIC_URL": f"{gateway}/triggers/hubspot",
        "HUBSPOT_PORTAL_ID": PORTAL,
        "HUBSPOT_APP_ID": APP,
        "STRIPE_BASE_URL": sandbox,
        "STRIPE_SECRET_KEY": STRIPE_KEY,
        "STANDARD_WEBHOOKS_SECRET": "whsec_AAAA",
    }
    foreign = ("COUNTERFOIL_", "TEMPORAL_", "SANDBOX_")
    clean = {name: text for name, text in os.environ.items() if not name.startswith(foreign)}
    return {**clean, "TEMPORAL_ADDRESS": temporal, **{f"COUNTERFOIL_{name}": text for name, text in own.items()}}


def _migrate(environment: Mapping[str, str]) -> None:
    from business_store.schema import upgrade

    upgrade(environment["COUNTERFOIL_DATABASE_OWNER_URL"])


@contextmanager
def program(arguments: list[str], environment: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """One of our programs as a process: a script, or else a module."""
    command = arguments if arguments[0].endswith(".py") else ["-m", *arguments]
    with log.open("ab") as written:
        process = subprocess.Popen(
            [sys.executable, *command], cwd=ROOT, env=dict(environment), stdout=written, stderr=written
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(90)


@contextmanager
def gateway(ground: Ground) -> Iterator[subprocess.Popen[bytes]]:
    """Our gateway, answering."""
    with program(["gateway"], ground.environment, ground.folder / "gateway.log") as process:
        until(lambda: answers(f"{ground.gateway_url}/health/live"))
        yield process


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=1).is_success
    except httpx.TransportError:
        return False


def until(condition: Callable[[], bool], within: float = 60, pause: float = 0.02) -> None:
    """Wait for `condition`. Raises TimeoutError after `within` seconds."""
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"a condition of the bench was not met within {within} s")
        time.sleep(pause)
