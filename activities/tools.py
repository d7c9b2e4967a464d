"""What the activities are handed by the process that runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from domain.contracts import Contract
from domain.permits import Timing
from domain.ports import Connector, Crm
from domain.process import Process

if TYPE_CHECKING:
    from business_store.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Waits:
    """Pauses that the activities order. `save_within`: how long an answer is tried to be saved before giving up."""

    recheck: timedelta
    save_within: timedelta


@dataclass(frozen=True)
class Tools:
    """Everything an activity works with: one of each per worker process."""

    ledger: Ledger
    connectors: Mapping[str, Connector]
    crms: Mapping[str, Crm]
    processes: Mapping[str, Process[Any]]
    timing: Timing
    waits: Waits
    run_link: Callable[[str], str]
    store_away: tuple[type[Exception], ...]
    """Errors that say the store cannot be reached: nothing is known to have failed outside."""

    @cached_property
    def contracts(self) -> Mapping[str, tuple[Contract, ...]]:
        """The recovery contracts of every effect of the known processes, by `system.operation`."""
        effects = [effect for process in self.processes.values() for effect in process.effects]
        known = [effect for effect in effects if effect.system in self.connectors]
        return {f"{e.system}.{e.operation}": self.connectors[e.system].contracts(e.operation) for e in known}
