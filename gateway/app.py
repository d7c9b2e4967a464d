"""The gateway process: one HTTP application over the store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from business_store.database import STORE_AWAY, away_because
from composition import Parts
from domain.errors import CounterfoilError
from gateway.bulk import bulk_routes
from gateway.callbacks import Caller, Hearing, callback_routes, stripe_caller
from gateway.observing import Observed
from gateway.pages import refusal_page, wants_page
from gateway.reach import Reach
from gateway.runs import RunDesk, run_routes
from gateway.triggers import Intake, hubspot, standard_webhooks, trigger_routes
from settings import several
from sweep.engine import connect

log = logging.getLogger(__name__)
RETRY_AFTER = {"Retry-After": "5"}
SAID = {True: "ok", False: "unreachable"}


def application(parts: Parts) -> FastAPI:
    """The whole HTTP surface."""
    reach = Reach()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        reach.engine = parts.engine(await connect(lazy=True))
        yield
        await reach.drained()
        parts.close()

    app = FastAPI(title="Counterfoil", lifespan=lifespan, docs_url="/docs", redoc_url=None)
    processes = [parts.processes[name] for name in sorted(parts.processes)]
    intake = Intake(parts.store, processes, parts.settings.body_limit, reach)
    sources = (hubspot(parts.settings), standard_webhooks(parts.settings))
    app.include_router(trigger_routes(intake, sources))
    hearing = Hearing(parts.store, parts.processes, parts.settings.body_limit, reach)
    app.include_router(callback_routes(hearing, callers(parts)))
    desk = RunDesk(parts.store, parts.terms, parts.contracts(), reach)
    app.include_router(run_routes(desk))
    app.include_router(bulk_routes(desk))
    _health(app, parts, reach)
    app.add_middleware(Observed)
    app.add_exception_handler(CounterfoilError, _refused)
    for away in STORE_AWAY:
        if not issubclass(away, CounterfoilError):
            app.add_exception_handler(away, _store_away)
    app.add_exception_handler(RequestValidationError, _bad_body)
    return app


def callers(parts: Parts) -> list[Caller]:
    """Every provider that calls back, with whom it is believed to be."""
    return [stripe_caller(parts.calls_back["stripe"], several(parts.settings.stripe_webhook_secret))]


def _health(app: FastAPI, parts: Parts, reach: Reach) -> None:
    @app.get("/health/live")
    async def live() -> dict[str, str]:
        return {"gateway": "ok"}

    @app.get("/health/ready")
    async def ready() -> Response:
        """Ready means that triggers can be stored. The engine may be away: starts are repeated by the sweep."""
        store, engine = await asyncio.gather(run_in_threadpool(parts.store.ready), reach.reachable())
        return JSONResponse({"store": SAID[store], "engine": SAID[engine]}, 200 if store else 503)


async def _store_away(request: Request, problem: Exception) -> Response:
    """Nothing is acknowledged and nothing is lost: the sender sends again, and what was stored already stays one."""
    code, message = away_because(problem) or ("store_refused", "the store refused")
    log.warning("store away: %s (%s)", code, type(problem).__name__)
    return JSONResponse({"error": code, "message": message, "next_actions": ["send it again"]}, 503, RETRY_AFTER)


async def _refused(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, CounterfoilError)
    if request.method == "GET" and wants_page(request.headers.get("accept", "")):
        return refusal_page(problem.as_dict(), problem.status)
    return JSONResponse(problem.as_dict(), problem.status, RETRY_AFTER if problem.status == 503 else None)


async def _bad_body(request: Request, problem: Exception) -> Response:
    """Name the field and what is allowed; never send the value back."""
    assert isinstance(problem, RequestValidationError)
    fields = [{"field": ".".join(map(str, each["loc"])), "allowed": each["msg"]} for each in problem.errors()]
    refused = {"error": "invalid_input", "message": "the request is not as it must be", "fields": fields}
    return JSONResponse(refused, 422)
