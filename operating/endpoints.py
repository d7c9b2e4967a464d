"""A small HTTP server in a thread of its own for health and metrics, apart from the port that others reach."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from operating.metrics import exposition

SLOW_CLIENT = 5.0
"""Seconds after which a client that sends nothing is hung up on."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What an endpoint says."""

    status: int
    media_type: str
    body: bytes


NO_SUCH_PATH = Answered(404, "application/json", b'{"error": "not_found"}')
Endpoint = Callable[[], Answered]


def as_json(document: Mapping[str, object], ok: bool = True) -> Answered:
    """200, or 503 where something is wanting."""
    return Answered(200 if ok else 503, "application/json", json.dumps(document).encode())


def metrics() -> Answered:
    """All metrics of this process in Prometheus' text format."""
    media_type, body = exposition()
    return Answered(200, media_type, body)


@dataclass(frozen=True, slots=True)
class Listening:
    """Where to listen, port 0 for nowhere, and the setting that says so."""

    host: str
    port: int
    setting: str


class PortTaken(Exception):
    """Another process listens there, or the address is not this machine's. Next: change the setting it names."""

    def __init__(self, at: Listening) -> None:
        super().__init__(f"{at.setting}: port {at.port} is taken, or {at.host} is no address of this machine")
        self.at = at


class Endpoints:
    """Serves while the process lives. Raises PortTaken."""

    def __init__(self, at: Listening, paths: Mapping[str, Endpoint]) -> None:
        self._server = _server(at, paths) if at.port else None
        if self._server is not None:
            self._server.daemon_threads = True
            threading.Thread(target=self._server.serve_forever, name="endpoints", daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


def _server(at: Listening, paths: Mapping[str, Endpoint]) -> ThreadingHTTPServer:
    try:
        return ThreadingHTTPServer((at.host, at.port), _handler(paths))
    except OSError as refused:
        raise PortTaken(at) from refused


def _handler(paths: Mapping[str, Endpoint]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = SLOW_CLIENT

        def do_GET(self) -> None:
            endpoint = paths.get(self.path.partition("?")[0])
            self._say(endpoint() if endpoint else NO_SUCH_PATH)

        def _say(self, answered: Answered) -> None:
            self.send_response(answered.status)
            self.send_header("Content-Type", answered.media_type)
            self.send_header("Content-Length", str(len(answered.body)))
            self.end_headers()
            self.wfile.write(answered.body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: ANN401 (the base class's own)
            """A scrape every few seconds is no news."""

    return Handler
