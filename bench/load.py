"""A load of prepared HTTP requests over a few kept connections: cheap enough to leave the cores to what is measured."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Loaded:
    """What became of a load: seconds from first to last answer, and how often each status was answered."""

    seconds: float
    statuses: Counter[int]


def prepared(url: str, body: bytes, headers: dict[str, str]) -> bytes:
    """One HTTP/1.1 request as bytes."""
    parts = urlsplit(url)
    named = {"Host": parts.netloc, "Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    lines = [f"POST {parts.path} HTTP/1.1", *(f"{name}: {text}" for name, text in named.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def load(url: str, requests: Sequence[bytes], clients: int) -> Loaded:
    """Send all requests, `clients` at a time."""
    parts = urlsplit(url)
    waiting, statuses = iter(requests), Counter[int]()
    started = time.monotonic()
    await asyncio.gather(
        *(_client(parts.hostname or "127.0.0.1", parts.port or 80, waiting, statuses) for _ in range(clients))
    )
    return Loaded(time.monotonic() - started, statuses)


async def _client(host: str, port: int, waiting: Iterator[bytes], statuses: Counter[int]) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    for request in waiting:
        writer.write(request)
        statuses[await _answer(reader)] += 1
    writer.close()


async def _answer(reader: asyncio.StreamReader) -> int:
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    length = next(int(line.split(b":")[1]) for line in lines if line.lower().startswith(b"content-length:"))
    await reader.readexactly(length)
    return int(lines[0].split()[1])
