"""Triggers: keep the bytes, judge them, take in what they say in one transaction, answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, BackgroundTasks, Request, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from business_store.database import Store
from business_store.intake import Accepted, accept
from domain.boundaries import boundary
from domain.canonical import NotJson
from domain.deliveries import Delivery, Disposition, Quarantined, Receipt, ReceiptVerdict
from domain.errors import CounterfoilError
from domain.process import Process
from gateway.body import read_capped
from gateway.hubspot_events import parse_hubspot
from gateway.observing import note_refused, note_taken
from gateway.reach import Reach
from gateway.signatures import WEBHOOK_ID, hubspot_v3_verdict, standard_webhooks_verdict
from gateway.standard_webhooks import parse_standard_webhook
from settings import Settings, several

Elements = Sequence[Delivery | Quarantined]
STARTS = (Disposition.STARTED, Disposition.PENDING_READ)


@dataclass(frozen=True)
class Source:
    """One kind of sender: how its bytes are judged and what they say."""

    name: str
    judge: Callable[[Mapping[str, str], bytes], ReceiptVerdict]
    parse: Callable[[Mapping[str, str], bytes], Elements]


@dataclass(frozen=True)
class Intake:
    """Takes deliveries in for one gateway process. `reach` tells the engine, after the answer has left."""

    store: Store
    processes: Sequence[Process[Any]]
    body_limit: int
    reach: Reach

    async def receive(self, source: Source, request: Request, later: BackgroundTasks) -> Response:
        """Answer 2xx to whatever is genuine and stored, also when it is ignored; never 5xx for bad input."""
        body = await self._body(source, request)
        verdict, elements, problem = _judged(source, request.headers, body)
        receipt = Receipt(source.name, body, verdict)
        with self.reach.taking_in():
            accepted = await run_in_threadpool(self._take, receipt, elements)
        if verdict is ReceiptVerdict.GENUINE:
            note_taken(source.name, elements, accepted)
        else:
            note_refused(source.name, verdict)
        for run_id in {each.run_id for each in accepted if each.run_id and each.disposition in STARTS}:
            later.add_task(self.reach, run_id)
        return _answer(verdict, accepted, problem)

    async def _body(self, source: Source, request: Request) -> bytes:
        try:
            return await read_capped(request, self.body_limit)
        except CounterfoilError as refused:
            note_refused(source.name, refused.code)
            raise

    def _take(self, receipt: Receipt, elements: Elements) -> list[Accepted]:
        with boundary("accept"):
            return self.store.write(lambda connection: accept(connection, receipt, elements, self.processes))


def _judged(
    source: Source, headers: Mapping[str, str], body: bytes
) -> tuple[ReceiptVerdict, Elements, CounterfoilError | None]:
    verdict = source.judge(headers, body)
    if verdict is not ReceiptVerdict.GENUINE:
        return verdict, (), None
    try:
        return verdict, source.parse(headers, body), None
    except CounterfoilError as problem:
        return ReceiptVerdict.UNREADABLE, (), problem


def _answer(verdict: ReceiptVerdict, accepted: Sequence[Accepted], problem: CounterfoilError | None) -> Response:
    if problem is not None:
        return JSONResponse(problem.as_dict(), 400 if isinstance(problem, NotJson) else problem.status)
    if verdict is not ReceiptVerdict.GENUINE:
        return JSONResponse({"error": verdict, "message": "the signature or its time does not fit this body"}, 401)
    return JSONResponse({"elements": [_element(each) for each in accepted]}, 202)


def _element(each: Accepted) -> dict[str, Any]:
    shown: dict[str, Any] = {"index": each.index, "disposition": each.disposition}
    if each.reason:
        shown["reason"] = each.reason
    if each.run_id:
        shown["run"] = each.run_id
    return shown


def hubspot(settings: Settings) -> Source:
    """HubSpot webhooks, signed over the URL as configured there."""
    secrets = several(settings.hubspot_client_secret)

    def judge(headers: Mapping[str, str], body: bytes) -> ReceiptVerdict:
        return hubspot_v3_verdict(secrets, settings.hubspot_public_url, headers, body, datetime.now(UTC))

    return Source("hubspot", judge, lambda _, body: parse_hubspot(body, settings.hubspot_app_id))


def standard_webhooks(settings: Settings) -> Source:
    """Standard Webhooks that carry the inputs themselves."""
    secrets = several(settings.standard_webhooks_secret)

    def judge(headers: Mapping[str, str], body: bytes) -> ReceiptVerdict:
        return standard_webhooks_verdict(secrets, headers, body, datetime.now(UTC))

    return Source("standard-webhooks", judge, lambda headers, body: parse_standard_webhook(headers[WEBHOOK_ID], body))


def trigger_routes(intake: Intake, sources: Sequence[Source]) -> APIRouter:
    """`POST /triggers/SOURCE` for every source."""
    router = APIRouter(prefix="/triggers", tags=["triggers"])
    for source in sources:
        router.add_api_route(f"/{source.name}", _endpoint(intake, source), methods=["POST"], name=source.name)
    return router


def _endpoint(intake: Intake, source: Source) -> Callable[[Request, BackgroundTasks], Awaitable[Response]]:
    async def receive(request: Request, later: BackgroundTasks) -> Response:
        response = await intake.receive(source, request, later)
        response.background = later
        return response

    return receive
