"""Many resolutions in one request: each judged, recorded and answered on its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, BackgroundTasks, Body

from business_store.actors import Actor
from business_store.resolving import MOST, ResolutionAsked, Resolved, resolve_each
from domain.errors import CounterfoilError
from gateway.runs import Plain, ResolutionBody, RunDesk, caller_of


class ResolutionItem(ResolutionBody):
    """One of several resolutions."""

    run: Plain


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


def answered(asked: Sequence[ResolutionAsked], results: Sequence[Resolved | CounterfoilError]) -> list[dict[str, Any]]:
    """What became of each item, as every door shows it."""
    return [
        {"index": index, "run": item.run_id, **_result(result)}
        for index, (item, result) in enumerate(zip(asked, results, strict=True))
    ]


def _result(result: Resolved | CounterfoilError) -> dict[str, Any]:
    if isinstance(result, Resolved):
        return {"status": 200, **asdict(result)}
    return {"status": result.status, **result.as_dict()}
