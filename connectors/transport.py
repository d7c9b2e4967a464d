"""One HTTP request per attempt: no retries, no redirects, one deadline over everything, and proof of what left.

Built on httpcore, the engine under httpx: httpx's own timeouts bound each read or write, so a server that drips bytes
outlives them, and they do not tell whether a byte of the request was written. Bodies and headers are never logged.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from ssl import SSLContext
from typing import TypeAlias
from urllib.parse import quote, urlencode

import httpcore
import httpx

from connectors.credentials import Fixed
from domain.credentials import UNAUTHENTICATED, Credential, Verdict
from domain.errors import InvalidInput
from domain.ports import Until, Within

MAX_ANSWER = 8 * 1024 * 1024
"""Bytes of an answer's body after which reading stops; a page of a hundred Stripe accounts is about half a megabyte."""

_IDLE_KEPT = timedelta(seconds=5)
_CONNECTIONS = 100

_Through: TypeAlias = "httpcore.HTTPConnection | httpcore.ConnectionPool"
SocketOption: TypeAlias = "tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]"


@dataclass(frozen=True, slots=True)
class Request:
    """What to ask; the transport adds host and credentials. `path` is already percent-encoded."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def target(self) -> str:
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with its status line. `defect` is empty if the body is whole, else `cut`, `timeout` or `too_large`."""

    status: int
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    body: bytes = field(default=b"", repr=False)
    defect: str = ""
    verdict: Verdict | None = None
    """After a 401: what became of the credential that was refused."""

    def header(self, name: str) -> tuple[str, ...]:
        """Every value of this header, in order."""
        return tuple(value for key, value in self.headers if key == name)

    @property
    def media_type(self) -> str:
        return next(iter(self.header("content-type")), "").split(";")[0].strip().lower()


@dataclass(frozen=True, slots=True)
class Lost:
    """No answer. `sent` is False only if it is proved that no byte of the request was written."""

    code: str
    sent: bool


@cache
def _tls() -> SSLContext:
    """One context for all: reading the certificate authorities takes tens of milliseconds."""
    return httpx.create_ssl_context()


def segment(value: str) -> str:
    """One path segment, percent-encoded: an id can never become another path."""
    return quote(value, safe="")


class _Budget:
    """The time left for one request, and whether any byte of it may have left."""

    def __init__(self, within: Within) -> None:
        self._end = within.at if isinstance(within, Until) else time.monotonic() + within.total_seconds()
        self.sent = False

    def left(self) -> float:
        """Seconds left. Raises httpcore.TimeoutException when there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise httpcore.TimeoutException
        return left


# the pool reads through streams that it keeps between requests, so the budget follows the thread, not the stream
_current: ContextVar[_Budget] = ContextVar("request_budget")


class _BoundedStream(httpcore.NetworkStream):
    """A connection whose every operation ends with the budget of the request that uses it."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _current.get().left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        budget = _current.get()
        left = budget.left()
        budget.sent = budget.sent or bool(buffer)
        self._stream.write(buffer, left)

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _BoundedStream(self._stream.start_tls(ssl_context, server_hostname, _current.get().left()))

    def get_extra_info(self, info: str) -> object:
        return self._stream.get_extra_info(info)


class _BoundedBackend(httpcore.NetworkBackend):
    def __init__(self) -> None:
        self._backend = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SocketOption] | None = None,
    ) -> httpcore.NetworkStream:
        left = _current.get().left()
        return _BoundedStream(self._backend.connect_tcp(host, port, left, local_address, socket_options))


class Transport:
    """Requests to one base URL with one credential; None sends none.

    Writes go over a fresh connection each, so that a connection the server closed while idle never puts a write in
    doubt; reads share a pool.
    """

    def __init__(
        self, base_url: str, credential: Credential | str | None, headers: Mapping[str, str] | None = None
    ) -> None:
        self._url = checked_base(base_url)
        self._headers = dict(headers or {})
        self._credential = Fixed(checked_secret(credential)) if isinstance(credential, str) else credential
        self._tls = _tls()
        self._backend = _BoundedBackend()
        self._pool = httpcore.ConnectionPool(
            ssl_context=self._tls,
            max_connections=_CONNECTIONS,
            keepalive_expiry=_IDLE_KEPT.total_seconds(),
            network_backend=self._backend,
        )

    def close(self) -> None:
        self._pool.close()

    def credential_mark(self) -> str:
        """A name for the credential in use, from which it cannot be found out; empty if there is none."""
        return "" if self._credential is None else self._credential.mark()

    def write(self, request: Request, within: Within) -> Reply | Lost:
        """One request over its own connection, none of whose bytes is written too late.

        Never raises for anything the network does.
        """
        connection = httpcore.HTTPConnection(
            self._url.origin, ssl_context=self._tls, network_backend=self._backend, retries=0
        )
        with connection:
            return self._authorized(connection, request, within, {"Connection": "close"})

    def read(self, request: Request, within: timedelta) -> Reply | Lost:
        """One request without effect, over a pooled connection, and once more with a token that was renewed meanwhile.

        Never raises for anything the network does.
        """
        reply = self._authorized(self._pool, request, within, {})
        if isinstance(reply, Reply) and reply.verdict is Verdict.RENEWED:
            return self._authorized(self._pool, request, within, {})
        return reply

    def _authorized(self, through: _Through, request: Request, within: Within, extra: dict[str, str]) -> Reply | Lost:
        """A 401 is the credential's affair: it is told which token was refused."""
        if self._credential is None:
            return self._exchange(through, request, within, extra)
        token = self._credential.bearer()
        if token is None:
            return Lost(UNAUTHENTICATED if self._credential.held() else "no_token_now", sent=False)
        reply = self._exchange(through, request, within, {**extra, "Authorization": f"Bearer {token}"})
        if isinstance(reply, Reply) and reply.status == 401:
            return replace(reply, verdict=self._credential.refused(token))
        return reply

    def _exchange(self, through: _Through, request: Request, within: Within, extra: dict[str, str]) -> Reply | Lost:
        with _budgeted(within) as budget:
            try:
                with _closing(through.handle_request(self._rendered(request, extra, budget))) as response:
                    return _received(response)
            except _FAILURES as failure:
                return Lost(_code(failure, budget), budget.sent)

    def _rendered(self, request: Request, extra: dict[str, str], budget: _Budget) -> httpcore.Request:
        headers = self._rendered_headers(request) | extra
        target = self._url.target.rstrip(b"/") + request.target.encode("ascii")
        url = httpcore.URL(scheme=self._url.scheme, host=self._url.host, port=self._url.port, target=target)
        timeouts = {"timeout": {"pool": budget.left()}}
        return httpcore.Request(
            request.method, url, headers=list(headers.items()), content=request.body, extensions=timeouts
        )

    def _rendered_headers(self, request: Request) -> dict[str, str]:
        length = {"Content-Length": str(len(request.body))} if request.body or request.method != "GET" else {}
        common = {"Host": self._host(), "Accept": "application/json", "Accept-Encoding": "identity"}
        return {**common, **self._headers, **request.headers, **length}

    def _host(self) -> str:
        host = self._url.host.decode("ascii")
        return host if self._url.port is None else f"{host}:{self._url.port}"


_FAILURES = (
    httpcore.TimeoutException,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    OSError,
)


def _code(failure: Exception, budget: _Budget) -> str:
    if isinstance(failure, httpcore.TimeoutException):
        return "timeout" if budget.sent else "connect_timeout"
    return "connection_lost" if budget.sent else "connect_failed"


@contextmanager
def _budgeted(within: Within) -> Iterator[_Budget]:
    budget = _Budget(within)
    token = _current.set(budget)
    try:
        yield budget
    finally:
        _current.reset(token)


@contextmanager
def _closing(response: httpcore.Response) -> Iterator[httpcore.Response]:
    try:
        yield response
    finally:
        response.close()


def _received(response: httpcore.Response) -> Reply:
    headers = tuple((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in response.headers)
    body = bytearray()
    defect = ""
    try:
        for piece in response.iter_stream():
            body += piece
            if len(body) > MAX_ANSWER:
                defect = "too_large"
                break
    except httpcore.TimeoutException:
        defect = "timeout"
    except _FAILURES:
        defect = "cut"
    return Reply(response.status, headers, bytes(body[:MAX_ANSWER]), defect)


def checked_base(base_url: str) -> httpcore.URL:
    """A base URL that can be called. Raises InvalidInput."""
    try:
        url = httpx.URL(base_url)
        url.host.encode("idna")
    except (httpx.InvalidURL, UnicodeError):
        raise _not_a_base() from None
    if url.scheme not in ("http", "https") or not url.host or url.query or url.userinfo:
        raise _not_a_base()
    return httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)


def _not_a_base() -> InvalidInput:
    return InvalidInput("base_url", "an http or https address without user, password or query")


def checked_secret(secret: str) -> str:
    """A credential that fits into a header. Raises InvalidInput, which does not repeat it."""
    if not secret or not secret.isascii() or not secret.isprintable() or " " in secret:
        raise InvalidInput("credential", "printable ASCII without spaces")
    return secret
