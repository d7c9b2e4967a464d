"""Triggers: keep the bytes, judge them, take in what they say in one transaction, answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from fastapi import APIRouter, BackgroundTasks, Request, Response
from fastapi.responses import JSONResponse

from business_store.database import Store
from business_store.intake import Accepted, Received, accept_all
from domain.boundaries import boundary
from domain.deliveries import Delivery, Disposition, Quarantined, Receipt, ReceiptVerdict
from domain.errors import CounterfoilError
from domain.process import Process
from gateway.batches import Batches
from gateway.body import read_capped
from gateway.hubspot_events import parse_hubspot
from gateway.observing import note_refused, note_taken
from gateway.reach import Reach
from gateway.signatures import WEBHOOK_ID, hubspot_v3_verdict, standard_webhooks_verdict
from gateway.sources import Source, judged
from gateway.standard_webhooks import parse_standard_webhook
from settings import Settings, several

Element = Delivery | Quarantined
Elements = Sequence[Element]
STARTS = (Disposition.STARTED, Disposition.PENDING_READ)


@dataclass(frozen=True)
class Intake:
    """Takes deliveries in for one gateway process. `reach` tells the engine, after the answer has left."""

    store: Store
    processes: Sequence[Process[Any]]
    body_limit: int
    reach: Reach

    async def receive(self, source: Source[Element], request: Request, later: BackgroundTasks) -> Response:
        """Answer 2xx to whatever is genuine and stored, also when it is ignored; never 5xx for bad input."""
        body = await self._body(source, request)
        told = judged(source, request.headers, body)
        receipt = Receipt(source.name, body, told.verdict)
        with self.reach.taking_in():
            accepted = await self._batches.stored(Received(receipt, told.elements))
        if told.verdict is ReceiptVerdict.GENUINE:
            note_taken(source.name, told.elements, accepted)
        else:
            note_refused(source.name, told.verdict)
        for run_id in {each.run_id for each in accepted if each.run_id and each.disposition in STARTS}:
            later.add_task(self.reach, run_id)
        return told.refusal or _answer(accepted)

    async def _body(self, source: Source[Element], request: Request) -> bytes:
        try:
            return await read_capped(request, self.body_limit)
        except CounterfoilError as refused:
            note_refused(source.name, refused.code)
            raise

    @cached_property
    def _batches(self) -> Batches:
        return Batches(self._take)

    def _take(self, bodies: Sequence[Received]) -> list[list[Accepted]]:
        with boundary("accept"):
            return self.store.write(lambda connection: accept_all(connection, bodies, self.processes))


def _answer(accepted: Sequence[Accepted]) -> Response:
    return JSONResponse({"elements": [_element(each) for each in accepted]}, 202)


def _element(each: Accepted) -> dict[str, Any]:
    shown: dict[str, Any] = {"index": each.index, "disposition": each.disposition}
    if each.reason:
        shown["reason"] = each.reason
    if each.run_id:
        shown["run"] = each.run_id
    return shown


def hubspot(settings: Settings) -> Source[Element]:
    """HubSpot webhooks, signed over the URL as configured there."""
    secrets = several(settings.hubspot_client_secret)

    def judge(headers: Mapping[str, str], body: bytes) -> ReceiptVerdict:
        return hubspot_v3_verdict(secrets, settings.hubspot_public_url, headers, body, datetime.now(UTC))

    return Source("hubspot", judge, lambda _, body: parse_hubspot(body, settings.hubspot_app_id))


def standard_webhooks(settings: Settings) -> Source[Element]:
    """Standard Webhooks that carry the inputs themselves."""
    secrets = several(settings.standard_webhooks_secret)

    def judge(headers: Mapping[str, str], body: bytes) -> ReceiptVerdict:
        return standard_webhooks_verdict(secrets, headers, body, datetime.now(UTC))

    return Source("standard-webhooks", judge, lambda headers, body: parse_standard_webhook(headers[WEBHOOK_ID], body))


def trigger_routes(intake: Intake, sources: Sequence[Source[Element]]) -> APIRouter:
    """`POST /triggers/SOURCE` for every source."""
    router = APIRouter(prefix="/triggers", tags=["triggers"])
    for source in sources:
        router.add_api_route(f"/{source.name}", _endpoint(intake, source), methods=["POST"], name=source.name)
    return router


def _endpoint(intake: Intake, source: Source[Element]) -> Callable[[Request, BackgroundTasks], Awaitable[Response]]:
    async def receive(request: Request, later: BackgroundTasks) -> Response:
        response = await intake.receive(source, request, later)
        response.background = later
        return response

    return receive
