"""The engine as Temporal's own client sees it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle

Handle = WorkflowHandle[Any, Any]


@dataclass(frozen=True)
class Execution:
    """What Temporal knows of a run, nothing of it taken from the store."""

    workflow_id: str
    status: str
    start: dict[str, Any]
    attributes: dict[str, str]


async def find(address: str, business_key: str) -> str | None:
    """The workflow id, by the search attribute that a person filters by in Temporal UI."""
    client = await Client.connect(address)
    found = [each.id async for each in client.list_workflows(f'BusinessKey = "{business_key}"')]
    return found[0] if len(found) == 1 else None


async def address(target: str, business_key: str) -> str | None:
    """Workflow id and run id as Temporal UI's addresses have them, once the engine lists the execution."""
    client = await Client.connect(target)
    found = [f"{each.id}/{each.run_id}" async for each in client.list_workflows(f'BusinessKey = "{business_key}"')]
    return found[0] if len(found) == 1 else None


async def execution(address: str, workflow_id: str) -> Execution:
    handle = (await Client.connect(address)).get_workflow_handle(workflow_id)
    described = await handle.describe()
    first = (await handle.fetch_history()).events[0].workflow_execution_started_event_attributes
    attributes = {pair.key.name: str(pair.value) for pair in described.typed_search_attributes}
    status = described.status.name if described.status else "UNKNOWN"
    return Execution(workflow_id, status, json.loads(first.input.payloads[0].data), attributes)


async def signal_anything(address: str, workflow_id: str) -> int:
    """What somebody in Temporal UI could send, from a bare nudge to a forged approval; id of the last signal event."""
    handle = (await Client.connect(address)).get_workflow_handle(workflow_id)
    await handle.signal("nudge")
    await handle.signal("nudge", {"outcome": "approved", "version": 1, "by": "sabine"})
    await handle.signal("approve", args=["approved", 1, None])
    signals = await _ids(handle, EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED)
    return signals[-1]


async def looked_after(address: str, workflow_id: str, event_id: int) -> bool:
    """Whether the workflow has woken up and looked at the store since that event."""
    handle = (await Client.connect(address)).get_workflow_handle(workflow_id)
    answered = await _ids(handle, EventType.EVENT_TYPE_MARKER_RECORDED)
    return bool(answered) and answered[-1] > event_id


async def _ids(handle: Handle, kind: EventType.ValueType) -> list[int]:
    return [event.event_id for event in (await handle.fetch_history()).events if event.event_type == kind]
