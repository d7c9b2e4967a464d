"""What a CRM record shows of its run: declared state, latest wins."""

from __future__ import annotations

from typing import Any

from domain.process import Process
from domain.records import Facts
from domain.wording import SHOWN_AS


def projection_of(facts: Facts, process: Process[Any]) -> dict[str, str | None]:
    """The properties as they must stand."""
    shown = {
        "counterfoil_state": str(facts.run.state),
        "counterfoil_reason": f"{SHOWN_AS[facts.run.state]}: {facts.run.reason}",
        "counterfoil_run": facts.run.id,
    }
    return {**shown, **_account(facts, process)}


def _account(facts: Facts, process: Process[Any]) -> dict[str, str | None]:
    """A process without an account leaves alone what another one wrote."""
    if not process.account_step:
        return {}
    account = facts.line(process.account_step)
    return {"counterfoil_account": account.reference if account and account.outcome == "accepted" else None}
