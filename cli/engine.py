"""Telling the engine after a commit. A hint only: what does not arrive is repeated by the sweep."""

from __future__ import annotations

import asyncio
import logging

from composition import Parts

log = logging.getLogger("counterfoil")
REACH_SECONDS = 5.0


def tell_engine(parts: Parts, run_id: str) -> None:
    """Start or nudge the run's execution now, if the engine is there. Never raises."""
    try:
        asyncio.run(asyncio.wait_for(_soon(parts, run_id), REACH_SECONDS))
    except Exception as problem:
        # The decision is recorded whatever happens here, so nothing may turn this command into a failure.
        log.warning("engine not reached (%s): the sweep will tell it", type(problem).__name__)


async def _soon(parts: Parts, run_id: str) -> None:
    from sweep.engine import Hint, connect

    await parts.engine(await connect(lazy=True)).soon([Hint(run_id)])
