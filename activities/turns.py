"""Before a read: whether a system wants all runs to wait, and when it is this one's turn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from activities.tools import Tools
from domain.credentials import Account
from domain.execution import StepCall
from domain.ports import account_of
from domain.records import Facts, Standing


@dataclass(frozen=True)
class Turns:
    """Asks for turns, for one worker."""

    tools: Tools

    def not_yet(self, call: StepCall, facts: Facts, systems: Iterable[str]) -> tuple[Facts, Standing] | None:
        """Where the run stands while one of these systems, about to be read, wants all runs to wait."""
        wanted = [name for name in sorted(systems) if facts.throttles.get(name, facts.now) > facts.now]
        process = self.tools.processes[facts.run.process]
        waits = (
            self.tools.ledger.turn(call, process, account_of(name, self.tools.connectors[name])) for name in wanted
        )
        return next((kept for kept in waits if kept is not None), None)

    def refused(self, system: str) -> Account:
        """The account of a system that refused a read, with the mark of what may be at fault."""
        connector = self.tools.connectors.get(system)
        return Account(system) if connector is None else account_of(system, connector, marked=True)
