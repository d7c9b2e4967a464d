"""Reading a body over real HTTP: what is too long or compressed is refused before it is read."""

import gzip
import http.client
import json
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field

import pytest
import uvicorn
from eventually import eventually
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from domain.errors import CounterfoilError
from gateway.body import read_capped
from stack.ports import LOOPBACK, free_port

LIMIT = 5_000_000
MEGABYTE = 1_000_000


@dataclass
class Reader:
    """An HTTP server that answers with the length of what it read, or with the refusal."""

    port: int = field(default_factory=free_port)
    refusals: list[str] = field(default_factory=list)

    async def read(self, request: Request) -> JSONResponse:
        try:
            return JSONResponse({"length": len(await read_capped(request, LIMIT))})
        except CounterfoilError as refusal:
            self.refusals.append(refusal.code)
            return JSONResponse(refusal.as_dict(), status_code=refusal.status)

    def server(self) -> uvicorn.Server:
        app = Starlette(routes=[Route("/", self.read, methods=["POST"])])
        return uvicorn.Server(
            uvicorn.Config(app, host=LOOPBACK, port=self.port, ws="none", lifespan="off", log_config=None)
        )


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    running = Reader()
    server = running.server()
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        eventually(lambda: server.started)
        yield running
    finally:
        server.should_exit = True
        thread.join()


def post(
    reader: Reader, body: bytes | Iterable[bytes], headers: Mapping[str, str] | None = None
) -> tuple[int, dict[str, object]]:
    """One complete request; a body given in parts goes out chunked, without Content-Length."""
    with closing(http.client.HTTPConnection(LOOPBACK, reader.port, timeout=30)) as connection:
        connection.request("POST", "/", body, dict(headers or {}), encode_chunked=not isinstance(body, bytes))
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def answered_to(reader: Reader, head: str, sent: Iterable[bytes] = ()) -> int:
    """The status given to a request of which no more than `sent` ever arrives."""
    with closing(socket.create_connection((LOOPBACK, reader.port), timeout=30)) as connection:
        connection.sendall(f"POST / HTTP/1.1\r\nHost: test\r\n{head}\r\n\r\n".encode())
        for part in sent:
            connection.sendall(part)
        return int(connection.makefile("rb").readline().split()[1])


def chunk(size: int) -> bytes:
    return b"%x\r\n%s\r\n" % (size, b"x" * size)


@pytest.mark.parametrize("size", [0, 1, 1_900_000, 2_200_000, 4_400_000, LIMIT])
def test_c14_up_to_the_limit_every_byte_arrives(reader: Reader, size: int) -> None:
    assert post(reader, b"x" * size) == (200, {"length": size})


@pytest.mark.parametrize("parts", [1, 4, 5])
def test_c14_chunked_up_to_the_limit(reader: Reader, parts: int) -> None:
    body = [b"x" * MEGABYTE] * parts
    assert post(reader, iter(body), {"Transfer-Encoding": "chunked"}) == (200, {"length": parts * MEGABYTE})


@pytest.mark.parametrize("declared", [str(LIMIT + 1), "10000000", "00010000000", "9" * 18])
def test_c14_a_declared_length_is_refused_before_any_of_it_arrives(reader: Reader, declared: str) -> None:
    assert answered_to(reader, f"Content-Length: {declared}") == 413


def test_c14_a_chunked_body_is_refused_as_soon_as_it_passes_the_limit(reader: Reader) -> None:
    head = "Transfer-Encoding: chunked"
    assert answered_to(reader, head, [*([chunk(MEGABYTE)] * 5), chunk(1)]) == 413


def test_c14_the_refusal_names_the_limit_and_what_to_do(reader: Reader) -> None:
    status, answer = post(reader, b"x" * (LIMIT + 1))
    assert (status, answer["error"], answer["limit"]) == (413, "body_too_large", LIMIT)
    assert answer["next_actions"]


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "br", "identity, gzip", "gzip\r\nContent-Encoding: identity"])
def test_c14_a_compressed_body_is_refused_before_any_of_it_arrives(reader: Reader, encoding: str) -> None:
    assert answered_to(reader, f"Content-Encoding: {encoding}\r\nContent-Length: 1000") == 415


def test_c14_a_complete_gzip_body_is_refused(reader: Reader) -> None:
    status, answer = post(reader, gzip.compress(b"x" * MEGABYTE), {"Content-Encoding": "gzip"})
    assert (status, answer["error"]) == (415, "encoding_refused")


@pytest.mark.parametrize("encoding", ["identity", "Identity", ""])
def test_identity_is_no_encoding(reader: Reader, encoding: str) -> None:
    assert post(reader, b"x", {"Content-Encoding": encoding})[0] == 200


def test_a_sender_that_hangs_up_is_a_typed_refusal(reader: Reader) -> None:
    reader.refusals.clear()
    with closing(socket.create_connection((LOOPBACK, reader.port), timeout=30)) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\nhalf")
    assert eventually(lambda: reader.refusals) == ["body_cut_short"]
