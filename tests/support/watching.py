"""What an operator's tools see of a running world: traces, scrapes and log lines; and a store that goes away."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import psycopg
from databases import Database
from eventually import ANSWER_SECONDS
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families
from psycopg import sql
from world import World

from stack.postgres import EmbeddedPostgres


@dataclass(frozen=True)
class SeenSpan:
    """A span as it left the process."""

    service: str
    name: str
    trace: str
    attributes: dict[str, str]


@dataclass
class Collector:
    """Receives OTLP over HTTP as a tracing back end would."""

    url: str = ""
    bodies: list[bytes] = field(default_factory=list, repr=False)

    def spans(self) -> list[SeenSpan]:
        return [span for body in list(self.bodies) for span in _spans(ExportTraceServiceRequest.FromString(body))]

    def trace_of(self, name: str, **attributes: str) -> list[SeenSpan]:
        """Every span of the one trace in which a span of this name with these attributes is."""
        spans = self.spans()
        traces = {s.trace for s in spans if s.name == name and attributes.items() <= s.attributes.items()}
        assert len(traces) == 1, (name, traces)
        return [span for span in spans if span.trace in traces]


def _spans(request: ExportTraceServiceRequest) -> Iterator[SeenSpan]:
    for resource in request.resource_spans:
        service = _texts(resource.resource.attributes)["service.name"]
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield SeenSpan(service, span.name, span.trace_id.hex(), _texts(span.attributes))


def _texts(attributes: Any) -> dict[str, str]:  # noqa: ANN401 (a repeated protobuf field)
    return {each.key: each.value.string_value or str(each.value.int_value) for each in attributes}


@contextlib.contextmanager
def collector() -> Iterator[Collector]:
    """A running collector on a free port."""
    seen = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Not on the test's output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    seen.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Watched:
    """A world and what is seen of it."""

    world: World
    folder: Path
    collector: Collector

    def setting(self, name: str) -> str:
        return self.world.environment[f"COUNTERFOIL_{name}"]

    def lines(self, program: str) -> list[dict[str, Any]]:
        """What this program logged, each line by itself; one that is being written is none yet."""
        whole, _, _ = (self.folder / f"{program}.log").read_text().rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    def get(self, port: str, path: str) -> httpx.Response:
        """From the health and metrics port that this setting names."""
        return httpx.get(f"http://127.0.0.1:{self.setting(port)}{path}", timeout=ANSWER_SECONDS, trust_env=False)

    def metric(self, port: str, name: str, **labels: str) -> float:
        """Sum of all samples of this name with these labels; 0 when there is none."""
        families = text_string_to_metric_families(self.get(port, "/metrics").text)
        samples = [sample for family in families for sample in family.samples if sample.name == name]
        return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())

    def gateway(self, name: str, **labels: str) -> float:
        return self.metric("GATEWAY_METRICS_PORT", name, **labels)

    def worker(self, name: str, **labels: str) -> float:
        return self.metric("WORKER_HEALTH_PORT", name, **labels)


def carried_out(watched: Watched) -> str:
    """A run from trigger to success."""
    company = watched.world.seed().company_id
    run_id = watched.world.submit(company)
    watched.world.wait_state(run_id, "awaiting_review")
    assert watched.world.decide(run_id).is_success
    watched.world.wait_state(run_id, "succeeded")
    return run_id


@contextlib.contextmanager
def store_away(server: EmbeddedPostgres, database: Database) -> Iterator[None]:
    """Every connection to this database is cut and none is let in while the block runs."""
    _administer(server, "ALTER DATABASE {} ALLOW_CONNECTIONS false", database)
    try:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
            connection.execute(cut, (database.name,))
        yield
    finally:
        _administer(server, "ALTER DATABASE {} ALLOW_CONNECTIONS true", database)


def _administer(server: EmbeddedPostgres, statement: str, database: Database) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(sql.Identifier(database.name)))
