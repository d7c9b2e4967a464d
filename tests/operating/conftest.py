"""A world with every way of looking at it switched on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from databases import Database, fresh_database
from raw_server import closed_port
from sandboxes import sandbox_process
from watching import Collector, Watched, carried_out, collector
from world import world

from stack.ports import free_port
from stack.postgres import EmbeddedPostgres


def everything_on() -> dict[str, str]:
    """Settings that switch on all that is off by default, on ports that are free."""
    ports = ("gateway_metrics_port", "worker_health_port", "engine_metrics_port")
    return {"log_format": "json", **{name: str(free_port()) for name in ports}}


@pytest.fixture
def own(
    database: Database, temporal_server: str, tmp_path: Path, traces: Collector, telling: None
) -> Iterator[Watched]:
    """A world of one test's own, whose processes are stopped or whose store goes away: no busy machine makes it give
    up an answer before that."""
    settings = {**everything_on(), "send_timeout": "20"}
    with (
        sandbox_process(tmp_path / "sandbox.db") as sandbox,
        world(database, temporal_server, sandbox, tmp_path, **settings) as running,
    ):
        yield Watched(running, tmp_path, traces)


@pytest.fixture(scope="session")
def traces() -> Iterator[Collector]:
    """One collector; spans tell apart what they are about."""
    with collector() as running:
        yield running


@pytest.fixture(scope="session")
def telling(traces: Collector) -> Iterator[None]:
    """Processes that are started while this is in force send their spans to the collector."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", traces.url)
        environment.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        yield


@pytest.fixture(scope="session")
def watched(
    migrated: EmbeddedPostgres,
    temporal_server: str,
    traces: Collector,
    telling: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Watched]:
    """One watched world with a sandbox of its own for the tests that break nothing."""
    folder: Path = tmp_path_factory.mktemp("watched")
    with (
        fresh_database(migrated) as database,
        sandbox_process(folder / "sandbox.db") as sandbox,
        world(database, temporal_server, sandbox, folder, **everything_on()) as running,
    ):
        yield Watched(running, folder, traces)


@pytest.fixture
def without_engine(database: Database, tmp_path: Path, traces: Collector) -> Iterator[Watched]:
    """A world whose engine is away; gateway and worker are up."""
    with (
        closed_port() as nowhere,
        sandbox_process(tmp_path / "sandbox.db") as sandbox,
        world(database, nowhere, sandbox, tmp_path, **everything_on()) as running,
    ):
        yield Watched(running, tmp_path, traces)


@pytest.fixture(scope="session")
def approved(watched: Watched) -> str:
    """A run that went from trigger to success."""
    return carried_out(watched)
