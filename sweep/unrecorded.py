"""Records outside that carry the key of an operation which the store does not have: every page is walked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from business_store.audit.outside import beginning, known_operations
from business_store.database import Store
from domain.drift import Apart, Drift, of_carrier
from domain.errors import ReadFailed
from domain.ports import Carrier, Lists
from domain.process import Process

TOGETHER = 500
"""Keys that the store is asked for at once, and all that is kept in memory."""

CLOCK_SKEW = timedelta(minutes=5)


@dataclass(frozen=True)
class Unrecorded:
    """Walks what the declared effects make, in the systems that can be walked."""

    store: Store
    lists: Mapping[str, Lists]
    processes: Mapping[str, Process[Any]]

    def drift(self, since: datetime | None) -> Iterator[Drift]:
        """Since the first request of the store, unless another moment is named."""
        earliest = since or self.store.read(beginning) - CLOCK_SKEW
        kinds = {(each.system, each.operation) for process in self.processes.values() for each in process.effects}
        for system, operation in sorted(kinds):
            if system in self.lists:
                yield from self._of_kind(system, operation, earliest)

    def _of_kind(self, system: str, operation: str, since: datetime) -> Iterator[Drift]:
        try:
            for some in _together(self.lists[system].carriers(operation, since)):
                yield from self._compared(system, some)
        except ReadFailed as failed:
            code = str(failed.fields.get("reason", failed.code))
            yield Drift("", system, operation, Apart.UNREADABLE, (code,))

    def _compared(self, system: str, some: list[Carrier]) -> list[Drift]:
        keys = [each.key for each in some]
        known = self.store.read(lambda connection: known_operations(connection, keys))
        found = (of_carrier(system, each, known) for each in some)
        return [each for each in found if each is not None]


def _together(carriers: Iterable[Carrier]) -> Iterator[list[Carrier]]:
    remaining = iter(carriers)
    while some := list(islice(remaining, TOGETHER)):
        yield some
