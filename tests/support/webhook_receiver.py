"""A server that webhooks are sent to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Receiver:
    """A server that keeps what it is sent and answers with the next of `statuses`, 204 once they are used up."""

    url: str
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)

    def events(self) -> list[dict[str, Any]]:
        return [event for body in self.bodies for event in json.loads(body)]

    def of(self, subscription: str) -> list[dict[str, Any]]:
        return [event for event in self.events() if event["subscriptionType"] == subscription]


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            receiver.headers.append({name.lower(): value for name, value in self.headers.items()})
            receiver.bodies.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(receiver.statuses.pop(0) if receiver.statuses else 204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


@contextmanager
def receiving(path: str) -> Iterator[Receiver]:
    """On a free port until the block ends."""
    receiver = Receiver("")
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(receiver)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        receiver.url = f"http://127.0.0.1:{server.server_port}{path}"
        yield receiver
        server.shutdown()
        thread.join()
