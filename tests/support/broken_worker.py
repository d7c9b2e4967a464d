"""A deploy gone wrong: the real worker process with a workflow that no recorded history fits any more."""

from __future__ import annotations

import asyncio
import logging

from temporalio import workflow

import worker
from domain.execution import Start
from domain.partner_onboarding import ONBOARDING
from settings import load_settings
from workflows.business_run import Ending
from workflows.registry import WORKFLOWS


@workflow.defn(name=ONBOARDING.name, sandboxed=False)
class Incompatible:
    """Waits first where every history took a snapshot first."""

    @workflow.run
    async def run(self, start: Start) -> Ending:
        await workflow.sleep(3600)
        return Ending("succeeded", "never")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    WORKFLOWS[ONBOARDING.name] = Incompatible
    asyncio.run(worker.main(load_settings()))
