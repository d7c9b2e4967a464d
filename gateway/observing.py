"""What every request leaves behind: a count, its length, and a span for those that may change something."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from business_store.callbacks import Heard
from business_store.intake import Accepted
from domain.deliveries import Delivery, Quarantined
from operating.joining import joined
from operating.metrics import CALLBACK_ELEMENTS, CALLBACK_RECEIPTS, ELEMENTS, RECEIPTS, REQUEST_SECONDS, REQUESTS
from operating.traces import span

log = logging.getLogger(__name__)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
UNANSWERED = 500


@dataclass
class _Exchange:
    """One request as it is answered."""

    scope: Scope
    send: Send
    began: float = field(default_factory=time.monotonic)
    status: int = UNANSWERED

    @property
    def method(self) -> str:
        """A name from a closed set, whatever was sent."""
        return self.scope["method"] if self.scope["method"] in METHODS else "other"

    @property
    def route(self) -> str:
        """The route's pattern, never the path with its ids."""
        return getattr(self.scope.get("route"), "path", "unmatched")

    async def pass_on(self, message: Message) -> None:
        """To the client; the last piece ends the measured time, though work may follow in the background."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self.send(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            self.count()

    def count(self) -> None:
        REQUESTS.labels(self.route, self.method, str(self.status)).inc()
        REQUEST_SECONDS.labels(self.route).observe(time.monotonic() - self.began)


class Observed:
    """Around the whole application. The span lasts until the engine was told, so that a start is part of its trace."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, send)
        try:
            await self._traced(exchange, receive)
        except Exception:
            if exchange.status == UNANSWERED:
                exchange.count()
            raise

    async def _traced(self, exchange: _Exchange, receive: Receive) -> None:
        if exchange.method != "POST":
            await self._app(exchange.scope, receive, exchange.pass_on)
            return
        with span("POST", "server") as shown:
            await self._app(exchange.scope, receive, exchange.pass_on)
            if shown is not None:
                shown.update_name(f"POST {exchange.route}")
                shown.set_attributes({"http.route": exchange.route, "http.response.status_code": exchange.status})


def note_refused(source: str, verdict: str) -> None:
    """A body that was not taken in: too large, not genuine, not readable."""
    RECEIPTS.labels(source, verdict).inc()
    log.warning("trigger from %s refused: %s", source, verdict)


def note_callback_refused(source: str, verdict: str) -> None:
    """A callback's body that was not taken in."""
    CALLBACK_RECEIPTS.labels(source, verdict).inc()
    log.warning("callback from %s refused: %s", source, verdict)


def note_callbacks(source: str, heard: Sequence[Heard]) -> None:
    """A genuine callback and what became of its elements; what concerns a run is one log line."""
    CALLBACK_RECEIPTS.labels(source, "genuine").inc()
    for each in heard:
        CALLBACK_ELEMENTS.labels(source, each.disposition).inc()
        if each.run_id:
            with joined(run=each.run_id):
                log.info("callback from %s: %s", source, each.disposition)


def note_taken(source: str, elements: Sequence[Delivery | Quarantined], accepted: Sequence[Accepted]) -> None:
    """A genuine body and what became of its elements; what concerns a run is one log line."""
    RECEIPTS.labels(source, "genuine").inc()
    subjects = {each.index: str(each.subject) for each in elements if isinstance(each, Delivery)}
    for each in accepted:
        ELEMENTS.labels(source, each.disposition).inc()
        if each.run_id:
            _note_run(source, each, subjects)


def _note_run(source: str, each: Accepted, subjects: Mapping[int, str]) -> None:
    with joined(run=each.run_id or "", subject=subjects.get(each.index, ""), correlation=each.correlation):
        log.info("trigger from %s: %s", source, each.disposition)
