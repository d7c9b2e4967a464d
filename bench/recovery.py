"""`recovery_events`, `recovery_transactions`: what a lost answer costs until a look-up finds the record."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bench.ground import Ground, program
from bench.onboarding import COMPANY, Onboardings, events, prepared, transactions

QUICK = {
    "COUNTERFOIL_SEND_BEFORE": "2",
    "COUNTERFOIL_SEND_TIMEOUT": "4",
    "COUNTERFOIL_SETTLE_TIME": "0",
    "COUNTERFOIL_VISIBILITY_LAG": "0",
}
"""The times after which a look-up is believed; waiting costs neither events nor transactions."""
TASKS = {"method": "POST", "path_prefix": "/crm/objects/2026-09/tasks"}


@dataclass(frozen=True, slots=True)
class Recovery:
    """Engine events and store transactions beyond those of a run that had nothing to recover."""

    events: float
    transactions: float


async def measure(ground: Ground) -> Recovery:
    """A straight run, then one whose task is made while the answer is lost. Raises RuntimeError when none was lost."""
    quick = replace(ground, environment={**ground.environment, **QUICK})
    both = await prepared(quick)
    with program(["worker.py"], quick.environment, quick.folder / "worker.log"):
        straight = await _cost(both)
        quick.sandbox.fault("drop_after_commit", match=TASKS)
        recovered = await _cost(both)
    if both.probes() == 0:
        raise RuntimeError("no look-up followed on the lost answer")
    return Recovery(recovered[0] - straight[0], recovered[1] - straight[1])


async def _cost(both: Onboardings) -> tuple[float, float]:
    await both.ours([both.ground.sandbox.seed(COMPANY, actor="userId:61000001").company_id])
    return await events(both), await transactions(both)
