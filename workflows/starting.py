"""Starting and nudging executions: ids, policies and what Temporal UI shows, for gateway, sweep and CLI alike."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from domain.execution import Start
from domain.identity import workflow_id
from workflows.attributes import at_start
from workflows.business_run import NUDGE

SUMMARY_KEY = 80
"""Characters of the key in a summary, which Temporal keeps to a line."""
SEE_CURRENT = "Where it stands now is told by *Current Details*; they stay empty while no worker runs."


@dataclass(frozen=True, slots=True)
class Startable:
    """What an execution is named after."""

    start: Start
    run_number: int

    @property
    def workflow_id(self) -> str:
        return workflow_id(self.start.process, self.start.business_key, self.run_number, self.start.epoch)


class Reached(StrEnum):
    """What became of a start or a nudge."""

    DONE = "done"
    EXISTS = "exists"
    GONE = "gone"


async def start_execution(client: Client, startable: Startable, task_queue: str) -> Reached:
    """Start the execution of this epoch once. Raises RPCError when the engine cannot be reached."""
    start = startable.start
    try:
        await client.start_workflow(
            start.process,
            start,
            id=startable.workflow_id,
            task_queue=task_queue,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
            search_attributes=at_start(start),
            static_summary=f"{start.process} {start.business_key[:SUMMARY_KEY]}, run {startable.run_number}",
            static_details=f"Business state, history and actions: [{start.run_id}]({start.link})\n\n{SEE_CURRENT}",
        )
    except WorkflowAlreadyStartedError:
        return Reached.EXISTS
    return Reached.DONE


async def nudge_execution(client: Client, startable: Startable) -> Reached:
    """Say "look again". A hint that is lost or comes twice does no harm. Raises RPCError when unreachable."""
    try:
        await client.get_workflow_handle(startable.workflow_id).signal(NUDGE)
    except RPCError as refused:
        if refused.status is RPCStatusCode.NOT_FOUND:
            return Reached.GONE
        raise
    return Reached.DONE
