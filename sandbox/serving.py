"""Runs the application under uvicorn, with connections that can be closed unanswered."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from sandbox.app import Sandbox
from sandbox.settings import Settings

_GRACE_SECONDS = 1
# as long as the real services keep an idle connection, so that clients rarely meet a closing one
_IDLE_SECONDS = 75


class _Connection(H11Protocol):
    """A connection that the application can end, found in the request's state."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.app_state = {**self.app_state, "connection": self}
        super().connection_made(transport)  # type: ignore[arg-type]

    def hang_up(self, *, flushed: bool) -> None:
        # told at once, uvicorn does not answer 500 for a call that ends without a whole answer
        self.cycle.disconnected = True
        if flushed:
            self.transport.close()
        else:
            self.transport.abort()


def bound(settings: Settings) -> socket.socket:
    """The listening socket; port 0 takes a free one. Raises OSError for a port in use."""
    # the protocol is named because asyncio sets TCP_NODELAY on such sockets only; without it answers take 40 ms more
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError:
        listening.close()
        raise
    return listening


async def serve(settings: Settings, listening: socket.socket) -> None:
    """Until SIGTERM or SIGINT."""
    sandbox = Sandbox(settings)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    config = uvicorn.Config(
        sandbox,
        http=_Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    delivering = asyncio.create_task(sandbox.delivery.run())
    try:
        await uvicorn.Server(config).serve(sockets=[listening])
    finally:
        delivering.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await delivering
        sandbox.close()
