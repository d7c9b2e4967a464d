"""Whether the engine is there and knows our search attributes."""

from __future__ import annotations

import asyncio

from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.service import RPCError

from sweep.engine import connect
from workflows import attributes

REACH_SECONDS = 10.0
ATTRIBUTES = (
    *(attributes.PROCESS, attributes.BUSINESS_KEY, attributes.BUSINESS_STATE, attributes.REASON_CODE),
    *(attributes.NEXT_OWNER, attributes.INPUT_VERSION, attributes.BUSINESS_DEADLINE),
)


def engine_problem() -> str:
    """What is wrong, empty where nothing is."""
    try:
        missing = asyncio.run(asyncio.wait_for(_missing(), REACH_SECONDS))
    except (RPCError, RuntimeError, OSError, TimeoutError, ValueError) as problem:
        return f"not reachable: {type(problem).__name__}"
    return f"search attributes are missing: {', '.join(missing)}" if missing else ""


async def _missing() -> list[str]:
    client = await connect()
    answer = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace)
    )
    return sorted({key.name for key in ATTRIBUTES} - set(answer.custom_attributes))
