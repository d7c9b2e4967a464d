"""Many resolutions in one request: each judged, recorded and answered on its own."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, BackgroundTasks, Body

from business_store.actors import Actor
from business_store.resolving import MOST, ResolutionAsked, Resolved, resolve_each
from gateway.bodies import ResolutionItem, answered
from gateway.runs import RunDesk, caller_of

Items = Annotated[list[ResolutionItem], Body(min_length=1, max_length=MOST)]


def bulk_routes(desk: RunDesk) -> APIRouter:
    """`POST /resolutions`: 200 with one result for each item, in their order; `status` is the item's own."""
    router = APIRouter(tags=["runs"])
    caller = caller_of(desk.store)

    @router.post("/resolutions")
    def resolutions(body: Items, later: BackgroundTasks, actor: Actor = caller) -> list[dict[str, Any]]:
        asked = [_asked(item) for item in body]
        results = resolve_each(desk.store, actor, asked, desk.contracts)
        for run_id in {result.run_id for result in results if isinstance(result, Resolved)}:
            later.add_task(desk.reach, run_id)
        return answered(asked, results)

    return router


def _asked(item: ResolutionItem) -> ResolutionAsked:
    return ResolutionAsked(item.run, item.action, item.reason, item.evidence, item.reference, item.operation)
