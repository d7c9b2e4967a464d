"""Callbacks of providers: keep the bytes, judge them, commit what they prove alone, then draw what follows from it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, BackgroundTasks, Request, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from business_store.callbacks import Element, Heard, hear
from business_store.database import STORE_AWAY, Store
from business_store.late_evidence import draw
from domain.boundaries import boundary
from domain.callbacks import CallsBack, Disposition
from domain.deliveries import Receipt, ReceiptVerdict
from domain.errors import CounterfoilError
from domain.process import Process
from gateway.body import read_capped
from gateway.callback_events import parse_standard_callbacks, parse_stripe_events
from gateway.observing import note_callback_refused, note_callbacks
from gateway.reach import Reach
from gateway.signatures import WEBHOOK_ID, standard_webhooks_verdict, stripe_verdict
from gateway.sources import Source, judged

log = logging.getLogger(__name__)
LATER: tuple[type[Exception], ...] = (*STORE_AWAY, CounterfoilError)
WAKES = (Disposition.TAKEN_UP, Disposition.CONTRADICTS)


@dataclass(frozen=True)
class Caller:
    """One provider: who signs, how its events are read, and which of our operations they are about."""

    source: Source[Element]
    provider: CallsBack


@dataclass(frozen=True)
class Hearing:
    """Takes callbacks in for one gateway process. `reach` tells the engine, after the answer has left."""

    store: Store
    processes: Mapping[str, Process[Any]]
    body_limit: int
    reach: Reach

    async def receive(self, caller: Caller, request: Request, later: BackgroundTasks) -> Response:
        """Answer 2xx to whatever is genuine and stored, also when it is not about us; never 5xx for bad input."""
        name = caller.source.name
        body = await self._body(name, request)
        told = judged(caller.source, request.headers, body)
        receipt = Receipt(f"callback/{name}", body, told.verdict)
        heard = await run_in_threadpool(self._hear, receipt, told.elements, caller.provider)
        if told.refusal is not None:
            note_callback_refused(name, told.verdict)
            return told.refusal
        note_callbacks(name, heard)
        for run_id in {each.run_id for each in heard if each.run_id and each.disposition in WAKES}:
            later.add_task(self.reach, run_id)
        return JSONResponse({"elements": [_element(each) for each in heard]}, 202)

    async def _body(self, name: str, request: Request) -> bytes:
        try:
            return await read_capped(request, self.body_limit)
        except CounterfoilError as refused:
            note_callback_refused(name, refused.code)
            raise

    def _hear(self, receipt: Receipt, elements: Sequence[Element], provider: CallsBack) -> list[Heard]:
        with boundary("hear-callback"):
            heard = self.store.write(lambda connection: hear(connection, receipt, elements, provider))
        return [self._drawn(each) for each in heard]

    def _drawn(self, heard: Heard) -> Heard:
        """The evidence is committed; what cannot follow from it now is repeated by the sweep."""
        delivery = heard.delivery
        if delivery is None:
            return heard
        try:
            with boundary("draw-callback"):
                drawn = self.store.write(lambda connection: draw(connection, delivery, self.processes))
        except LATER as problem:
            log.warning("callback kept, what follows from it comes later: %s", type(problem).__name__)
            return heard
        return replace(heard, disposition=drawn.disposition, run_id=drawn.run_id)


def _element(each: Heard) -> dict[str, Any]:
    shown: dict[str, Any] = {"index": each.index, "disposition": each.disposition}
    if each.reason:
        shown["reason"] = each.reason
    if each.run_id:
        shown["run"] = each.run_id
    return shown


def stripe_caller(provider: CallsBack, secrets: Sequence[str]) -> Caller:
    """Stripe's events, signed with the secret of the endpoint that is registered there."""

    def judge(headers: Mapping[str, str], body: bytes) -> ReceiptVerdict:
        return stripe_verdict(secrets, headers, body, datetime.now(UTC))

    return Caller(Source("stripe", judge, lambda _, body: parse_stripe_events(provider, body)), provider)


def standard_webhooks_caller(provider: CallsBack, secrets: Sequence[str]) -> Caller:
    """A provider whose callbacks are Standard Webhooks."""

    def judge(headers: Mapping[str, str], body: bytes) -> ReceiptVerdict:
        return standard_webhooks_verdict(secrets, headers, body, datetime.now(UTC))

    def parse(headers: Mapping[str, str], body: bytes) -> list[Element]:
        return parse_standard_callbacks(provider, headers[WEBHOOK_ID], body)

    return Caller(Source(provider.system, judge, parse), provider)


def callback_routes(hearing: Hearing, callers: Sequence[Caller]) -> APIRouter:
    """`POST /callbacks/NAME` for every provider that calls back."""
    router = APIRouter(prefix="/callbacks", tags=["callbacks"])
    for caller in callers:
        name = caller.source.name
        router.add_api_route(f"/{name}", _endpoint(hearing, caller), methods=["POST"], name=f"callback-{name}")
    return router


def _endpoint(hearing: Hearing, caller: Caller) -> Callable[[Request, BackgroundTasks], Awaitable[Response]]:
    async def receive(request: Request, later: BackgroundTasks) -> Response:
        response = await hearing.receive(caller, request, later)
        response.background = later
        return response

    return receive
