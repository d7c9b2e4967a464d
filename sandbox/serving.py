"""Runs the application under uvicorn, with each connection's transport in reach so that it can be closed unanswered."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from sandbox.app import Sandbox
from sandbox.settings import Settings

_GRACE_SECONDS = 1


class _Protocol(H11Protocol):
    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 (as in uvicorn)
        self.app_state = {**self.app_state, "transport": transport}
        super().connection_made(transport)


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
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
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
