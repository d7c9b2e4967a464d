"""A TCP proxy in front of PostgreSQL that can lose the answer to a COMMIT, or the COMMIT itself."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

COMMIT = (b"Q\x00\x00\x00\x0bCOMMIT\x00", b"COMMIT\x00")
"""How a client spells it: as a simple query, or inside a parse message."""


class Cut(StrEnum):
    """Which half of the exchange is lost."""

    REPLY = "reply"
    COMMIT = "commit"


class CuttingProxy:
    """Forwards everything; `cut_next` loses one COMMIT or its reply, and the connection with it."""

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._armed: Cut | None = None
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._refusing = False
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def cut_next(self, what: Cut) -> None:
        """Lose this half of the next commit on any connection."""
        with self._lock:
            self._armed = what

    def refuse(self) -> None:
        """Take no further connections."""
        self._refusing = True

    def close(self) -> None:
        """End every connection and stop listening."""
        for each in (self._listener, *self._open):
            _end(each)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._refusing:
                    _end(client)
                    continue
                server = socket.create_connection(self._target)
                self._open += [client, server]
                _Exchange(self, client, server).start()

    def disarm(self) -> Cut | None:
        """The cut that this commit suffers; only one does."""
        with self._lock:
            armed, self._armed = self._armed, None
            self.cuts += armed is not None
            return armed


class _Exchange:
    """One connection, pumped both ways."""

    def __init__(self, proxy: CuttingProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._reply_lost = threading.Event()

    def start(self) -> None:
        for pump in (self._up, self._down):
            threading.Thread(target=pump, daemon=True).start()

    def _up(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._client.recv(65536):
                if not self._forward(data):
                    break
        self._finish()

    def _forward(self, data: bytes) -> bool:
        cut = self._proxy.disarm() if any(spelled in data for spelled in COMMIT) else None
        if cut is Cut.COMMIT:
            return False
        if cut is Cut.REPLY:
            self._reply_lost.set()
        self._server.sendall(data)
        return True

    def _down(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._server.recv(65536):
                if self._reply_lost.is_set():
                    break
                self._client.sendall(data)
        self._finish()

    def _finish(self) -> None:
        _end(self._client)
        _end(self._server)


def _end(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()


@contextmanager
def cutting(port: int) -> Iterator[CuttingProxy]:
    """A proxy before the server on this port."""
    proxy = CuttingProxy(port)
    try:
        yield proxy
    finally:
        proxy.close()
