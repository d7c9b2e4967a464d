"""Before a read: whether a system wants all runs to wait, and when it is this one's turn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from activities.tools import Tools
from domain.execution import StepCall
from domain.records import Facts, Standing


@dataclass(frozen=True)
class Turns:
    """Asks for turns, for one worker."""

    tools: Tools

    def not_yet(self, call: StepCall, facts: Facts, systems: Iterable[str]) -> tuple[Facts, Standing] | None:
        """Where the run stands while one of these systems, about to be read, wants all runs to wait."""
        wanted = [name for name in sorted(systems) if facts.throttles.get(name, facts.now) > facts.now]
        process = self.tools.processes[facts.run.process]
        waits = (self.tools.ledger.turn(call, process, self.account(name)) for name in wanted)
        return next((kept for kept in waits if kept is not None), None)

    def account(self, system: str) -> tuple[str, str]:
        """System and scope, inside which limits and credentials are shared."""
        connector = self.tools.connectors.get(system)
        return system, connector.scope if connector is not None else ""
