"""The badge office itself, as a real HTTP server with one fault to order."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "badge-token"


class Office(ThreadingHTTPServer):
    """Badges by id, what was received, and what happens to the next POST."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Desk)
        self.badges: dict[str, dict[str, Any]] = {}
        self.posts: list[bytes] = []
        self.fault = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def issue(self, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        taken = [badge for badge in self.badges.values() if badge["reference"] == asked["reference"]]
        if taken:
            return 409, {"error": "reference_taken", "id": taken[0]["id"]}
        if asked["holder"] == "nobody":
            return 422, {"error": "holder_unknown"}
        badge = {"id": f"bdg_{len(self.badges) + 1}", **asked}
        self.badges[badge["id"]] = badge
        return 201, badge


class Desk(BaseHTTPRequestHandler):
    server: Office

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posts.append(body)
        fault, self.server.fault = self.server.fault, ""
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            return self._say(401, {"error": "unauthenticated"})
        if fault == "throttle":
            return self._say(429, {"error": "slow_down"}, {"Retry-After": "7"})
        if fault == "drop":
            return None
        answer = self.server.issue(json.loads(body))
        if fault == "lose":
            return None
        return self._say(500, {"error": "oops"}) if fault == "break" else self._say(*answer)

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        if self.server.fault == "blind":
            return self._say(500, {"error": "oops"})
        if url.query:
            (wanted,) = parse_qs(url.query)["reference"]
            found = [badge for badge in self.server.badges.values() if badge["reference"] == wanted]
            return self._say(200, {"badges": found})
        badge = self.server.badges.get(url.path.rsplit("/", 1)[1])
        return self._say(200, badge) if badge else self._say(404, {"error": "no_badge"})

    def _say(self, status: int, document: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Nothing on standard error."""


@contextmanager
def badge_server() -> Iterator[Office]:
    """A running office; stopped at the end of the block."""
    with Office() as office:
        thread = threading.Thread(target=office.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield office
        finally:
            office.shutdown()
            thread.join()
