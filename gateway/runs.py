"""The run API: state and history out, starts, decisions and resolutions in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from fastapi import APIRouter, BackgroundTasks, Depends, Header, Query, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, Field
from sqlalchemy import Connection

from business_store.actors import READERS, Actor, authenticated
from business_store.database import Store
from business_store.decisions import DecisionAsked, decide, revoke_decision
from business_store.requests import Asked, start_run
from business_store.resolving import ResolutionAsked, resolve
from business_store.reviews import ReviewTerms
from business_store.runs import load_run
from business_store.views import RunFilter, event_page, list_runs, run_view, version_inputs
from domain.boundaries import boundary
from domain.contracts import Contract
from domain.errors import NotAuthenticated, NotAuthorised
from domain.identity import subject_of
from domain.process import Process
from domain.processes import process_named
from domain.states import RunState
from gateway.bodies import DecisionBody, Plain, ResolutionBody, RevocationBody, StartBody
from gateway.pages import LISTED_EVENTS, run_page, wants_page

BEARER = HTTPBearer(auto_error=False)


@dataclass(frozen=True)
class RunDesk:
    """What the run API works with. `reach` tells the engine, after the answer has left."""

    store: Store
    terms: Callable[[Process[Any]], ReviewTerms]
    contracts: Mapping[str, tuple[Contract, ...]]
    reach: Callable[[str], Awaitable[None]]


def run_routes(desk: RunDesk) -> APIRouter:
    """All routes below `/runs`."""
    router = APIRouter(prefix="/runs", tags=["runs"])
    caller = caller_of(desk.store)
    _reading(router, desk, caller)
    _deciding(router, desk, caller)
    _operating(router, desk, caller)
    return router


def caller_of(store: Store) -> Any:  # noqa: ANN401 (FastAPI's own marker)
    """The actor whose token a request bears."""
    return Depends(_caller(store))


def _caller(store: Store) -> Callable[..., Actor]:
    def who(given: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)]) -> Actor:
        if given is None:
            raise NotAuthenticated("send an API token: Authorization: Bearer …")
        return store.read(lambda connection: authenticated(connection, given.credentials))

    return who


def _reading(router: APIRouter, desk: RunDesk, caller: Any) -> None:  # noqa: ANN401 (FastAPI's own marker)
    @router.get("")
    def runs(wanted: Annotated[_Wanted, Query()]) -> list[dict[str, Any]]:
        return desk.store.read(lambda connection: list_runs(connection, RunFilter(**wanted.model_dump())))

    @router.get("/{run_id}", response_model=None)
    def run(run_id: Plain, response: Response, accept: Annotated[str, Header()] = "") -> dict[str, Any] | Response:
        """JSON for programs, a page for a browser."""
        if wants_page(accept):
            return run_page(*desk.store.read(lambda connection: _with_events(connection, run_id, desk)))
        response.headers["Vary"] = "Accept"
        return desk.store.read(lambda connection: run_view(connection, run_id, desk.contracts))

    @router.get("/{run_id}/events")
    def events(run_id: Plain, after: int = 0, limit: Annotated[int, Query(ge=1, le=200)] = 100) -> list[dict[str, Any]]:
        return desk.store.read(lambda connection: event_page(connection, run_id, after, limit))

    @router.get("/{run_id}/versions/{number}")
    def version(run_id: Plain, number: int, actor: Actor = caller) -> dict[str, Any]:
        if not actor.roles & READERS:
            raise NotAuthorised("reading inputs needs a role", role="reviewer")
        return desk.store.read(lambda connection: version_inputs(connection, run_id, number))


def _with_events(connection: Connection, run_id: str, desk: RunDesk) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    view = run_view(connection, run_id, desk.contracts)
    return view, event_page(connection, run_id, view["seq"] - LISTED_EVENTS, LISTED_EVENTS)


class _Wanted(BaseModel):
    state: RunState | None = None
    process: Plain | None = None
    business_key: Plain | None = None
    owner: Plain | None = None
    reason: Plain | None = None
    before: Plain | None = None
    limit: int = Field(50, ge=1, le=200)


def _deciding(router: APIRouter, desk: RunDesk, caller: Any) -> None:  # noqa: ANN401
    @router.post("/{run_id}/decisions")
    def decision(run_id: Plain, body: DecisionBody, later: BackgroundTasks, actor: Actor = caller) -> dict[str, Any]:
        asked = DecisionAsked(run_id, body.outcome, body.version, body.fingerprint, body.comment)
        process = process_named(desk.store.read(lambda connection: load_run(connection, run_id)).process)
        recorded = decide(desk.store, actor, asked, desk.terms(process).valid_for)
        later.add_task(desk.reach, run_id)
        return asdict(recorded)

    @router.post("/{run_id}/revocations")
    def revocation(
        run_id: Plain, body: RevocationBody, later: BackgroundTasks, actor: Actor = caller
    ) -> dict[str, Any]:
        with boundary("revoke", run_id):
            revoked = desk.store.once(lambda connection: revoke_decision(connection, actor, run_id, body.reason))
        later.add_task(desk.reach, run_id)
        return {"run": run_id, "revoked": revoked}


def _operating(router: APIRouter, desk: RunDesk, caller: Any) -> None:  # noqa: ANN401
    @router.post("/{run_id}/resolutions")
    def resolution(
        run_id: Plain, body: ResolutionBody, later: BackgroundTasks, actor: Actor = caller
    ) -> dict[str, Any]:
        asked = ResolutionAsked(run_id, body.action, body.reason, body.evidence, body.reference, body.operation)
        with boundary("resolve", run_id):
            resolved = desk.store.once(lambda connection: resolve(connection, actor, asked, desk.contracts))
        later.add_task(desk.reach, run_id)
        return asdict(resolved)

    @router.post("", status_code=201)
    def start(body: StartBody, later: BackgroundTasks, response: Response, actor: Actor = caller) -> dict[str, Any]:
        if not actor.roles & {"operator", "admin"}:
            raise NotAuthorised("starting a run needs the role operator", role="operator")
        asked = Asked(
            process_named(body.process), subject_of(body.subject), actor.id, body.rehearsal, body.business_key
        )
        with boundary("start-run"):
            run_id, made = desk.store.once(lambda connection: start_run(connection, asked))
        if made:
            later.add_task(desk.reach, run_id)
        response.status_code = 201 if made else 200
        return {"run": run_id, "made": made, "outcome": "started" if made else "already_exists"}
