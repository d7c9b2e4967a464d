"""A server on a bare socket, for what no well-behaved server does: drip, cut, hang up, close while idle."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence

SECONDS = 60.0


class Peer:
    """One accepted connection."""

    def __init__(self, connection: socket.socket, log: list[bytes]) -> None:
        self.connection = connection
        self._log = log

    def request(self) -> bytes:
        """Read one whole request and log it; empty at the end of the connection."""
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._some()
        head, _, body = data.partition(b"\r\n\r\n")
        while len(body) < _content_length(head):
            body += self._some()
        self._log.append(head + b"\r\n\r\n" + body)
        return self._log[-1]

    def _some(self) -> bytes:
        data = self.connection.recv(65536)
        if not data:
            raise EOFError
        return data

    def write(self, data: bytes) -> None:
        self.connection.sendall(data)

    def answer(self, body: bytes, status: int = 200, *headers: str) -> None:
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Content-Type: application/json", *headers]
        self.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)


def _content_length(head: bytes) -> int:
    lines = (line.partition(b":") for line in head.split(b"\r\n"))
    return next((int(value) for name, _, value in lines if name.lower() == b"content-length"), 0)


class RawServer:
    """Runs `behave` for each connection in a thread of its own and closes the connection when it returns."""

    def __init__(self, behave: Callable[[Peer], None]) -> None:
        self._behave = behave
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self.requests: list[bytes] = []
        self.connections = 0
        self.closed = threading.Semaphore(0)
        self._threads[0].start()

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def wait_closed(self) -> None:
        """Until one more connection has been closed by the server."""
        assert self.closed.acquire(timeout=SECONDS)

    def stop(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join(SECONDS)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(SECONDS)
        with connection, contextlib.suppress(OSError, EOFError, StopIteration):
            self._behave(Peer(connection, self.requests))
        self.closed.release()


@contextlib.contextmanager
def raw_server(behave: Callable[[Peer], None]) -> Iterator[RawServer]:
    """A running server; stopped at the end of the block."""
    server = RawServer(behave)
    try:
        yield server
    finally:
        server.stop()


def json_answers(answers: Sequence[object]) -> Callable[[Peer], None]:
    """Answers requests with these values in turn: JSON with 200, or (status, JSON). Then it hangs up."""
    remaining = iter(answers)

    def behave(peer: Peer) -> None:
        while True:
            peer.request()
            value = next(remaining)
            status, body = value if isinstance(value, tuple) else (200, value)
            peer.answer(json.dumps(body).encode(), status)

    return behave


@contextlib.contextmanager
def closed_port() -> Iterator[str]:
    """An address that refuses connections for as long as the block runs: bound, and never listening."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"
