"""Callbacks of which nothing has followed yet: the process died in between, or what they are matched by came later."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection

from business_store.callbacks import Matchable, due, match, matchable
from business_store.database import Store
from business_store.late_evidence import draw
from domain.boundaries import boundary
from domain.callbacks import CallsBack
from domain.errors import InvalidInput
from domain.process import Process

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CallbackSweep:
    """Repeats what the gateway does. `patience` leaves a callback to the gateway that is just taking it in."""

    store: Store
    providers: Mapping[str, CallsBack]
    processes: Mapping[str, Process[Any]]
    patience: timedelta = timedelta(0)

    def once(self) -> int:
        """How many were acted on."""
        for each in self.store.read(matchable):
            self._match(each)
        waiting = self.store.read(lambda connection: due(connection, self.patience))
        for delivery in waiting:
            self._draw(delivery)
        return len(waiting)

    def _match(self, each: Matchable) -> None:
        provider = self.providers.get(each.system)
        if provider is None:
            return
        try:
            told = each.told(provider)
        except InvalidInput as problem:
            log.warning("callback %s cannot be read again: %s", each.delivery, problem.code)
            return
        if told is not None:
            with boundary("match-callback"):
                self.store.write(lambda connection: match(connection, each.delivery, told, provider))

    def _draw(self, delivery: int) -> None:
        def drawing(connection: Connection) -> object:
            return draw(connection, delivery, self.processes)

        with boundary("draw-callback"):
            self.store.write(drawing)
