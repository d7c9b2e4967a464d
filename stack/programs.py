"""The parts of a whole Counterfoil, in the order they start in; they stop in the reverse of it."""

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from stack.child import Child, ChildNotReady, Command, Files, Stopping, open_log, tethered
from stack.files import CHECKOUT, Paths
from stack.ports import Ports, listening
from stack.postgres import EmbeddedPostgres, PostgresSettings
from stack.provision import provision
from stack.secret_values import Secrets
from stack.temporal import EmbeddedTemporal, TemporalSettings

# Longer than the longest send, whose answer is worth waiting for.
WORKER_GRACE = Stopping(grace_seconds=60.0)


@dataclass(frozen=True)
class Job:
    """Something to be done once, in its place between the children."""

    name: str
    run: Callable[[], None]


@dataclass(frozen=True)
class Plan:
    """What the parts are built from."""

    ports: Ports
    secrets: Secrets
    paths: Paths
    environment: Mapping[str, str] = field(repr=False)


Part = Child | Job
Parts = Callable[[Plan], Sequence[Part]]


def counterfoil(plan: Plan) -> Sequence[Part]:
    """The gateway starts last and stops first: nothing is accepted that nobody works on."""
    database = embedded_postgres(plan)
    return [database.child, embedded_temporal(plan).child, migration(plan, database), *programs(plan)]


def embedded_postgres(plan: Plan) -> EmbeddedPostgres:
    settings = PostgresSettings(plan.secrets.postgres_password)
    files = Files.of(plan.paths.root, "postgres")
    return EmbeddedPostgres(plan.paths.postgres, plan.ports.postgres_port, settings, files)


def embedded_temporal(plan: Plan) -> EmbeddedTemporal:
    settings = TemporalSettings(plan.ports.temporal_port, plan.ports.temporal_ui_port, plan.paths.temporal)
    return EmbeddedTemporal(settings, Files.of(plan.paths.root, "temporal"))


def migration(plan: Plan, database: EmbeddedPostgres) -> Job:
    def run() -> None:
        provision(database.dsn(), plan.secrets.passwords)
        upgrade = (str(Path(sys.executable).with_name("counterfoil")), "db", "upgrade")
        run_to_end("migration", our_command(plan, upgrade), Files.of(plan.paths.root, "migration").log)

    return Job("migration", run)


def programs(plan: Plan) -> Sequence[Child]:
    python, port = sys.executable, str(plan.ports.sandbox_port)
    sandbox_argv = (python, "-m", "sandbox", "--port", port, "--data", str(plan.paths.sandbox.absolute()))
    sandbox = program(plan, "sandbox", sandbox_argv)
    sandbox.ready = partial(listening, plan.ports.sandbox_port)
    worker = program(plan, "worker", (python, "worker.py"))
    worker.stopping = WORKER_GRACE
    gateway = program(plan, "gateway", (python, "-m", "gateway"))
    gateway.ready = partial(listening, plan.ports.gateway_port)
    return [sandbox, worker, gateway]


def program(plan: Plan, name: str, argv: tuple[str, ...]) -> Child:
    return Child(name, lambda: our_command(plan, argv), Files.of(plan.paths.root, name))


def our_command(plan: Plan, argv: tuple[str, ...]) -> Command:
    return Command(argv, {**plan.environment, "PYTHONUNBUFFERED": "1"}, cwd=CHECKOUT)


def run_to_end(name: str, command: Command, log: Path) -> None:
    """Raises ChildNotReady when the command fails."""
    with open_log(log) as output:
        done = subprocess.run(
            tethered(command),
            cwd=command.cwd,
            env=dict(command.environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode:
        raise ChildNotReady(name, log, f"failed with exit code {done.returncode}")
