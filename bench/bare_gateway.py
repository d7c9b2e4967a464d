"""What one would write by hand: an endpoint that starts a workflow for each webhook it gets."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI, Request
from temporalio.client import Client
from temporalio.common import WorkflowIDReusePolicy

from bench.bare import QUEUE
from sweep.engine import connect


def application() -> FastAPI:
    """Answers when the workflow was started."""
    clients: list[Client] = []

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        clients.append(await connect())
        yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/trigger", status_code=202)
    async def trigger(request: Request) -> dict[str, str]:
        company = str(json.loads(await request.body())[0]["objectId"])
        await clients[0].start_workflow(
            "bare-onboarding",
            company,
            id=f"triggered-{company}",
            task_queue=f"{QUEUE}-idle",
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
        )
        return {"started": company}

    @app.get("/health/live")
    async def live() -> dict[str, str]:
        return {"bare": "ok"}

    return app


if __name__ == "__main__":
    uvicorn.run(application(), host="127.0.0.1", port=int(sys.argv[1]), access_log=False, log_level="warning")
