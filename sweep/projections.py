"""Mirroring declared state into CRM fields: after the transition committed, latest wins, allowed in every state."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from business_store.database import Store
from business_store.facts import read_facts
from business_store.sweeping import Unprojected, postpone_projection, projected, unprojected
from domain.boundaries import boundary
from domain.errors import CounterfoilError, SubjectGone
from domain.ports import Crm
from domain.process import Process
from domain.projection import projection_of
from domain.records import Facts
from domain.states import TERMINAL
from operating.joining import joined
from sweep.turns import Turns

log = logging.getLogger(__name__)
PAUSE_AFTER_FAILURE = timedelta(seconds=15)


@dataclass(frozen=True)
class Projector:
    """Writes what the CRM shows of a run."""

    store: Store
    crms: Mapping[str, Crm]
    processes: Mapping[str, Process[Any]]

    @property
    def _turns(self) -> Turns:
        return Turns(self.store)

    def once(self) -> int:
        """Project what is due; return how many records were written."""
        with self.store.reading() as connection:
            due = unprojected(connection)
        return sum(self._project(row) for row in due)

    def _project(self, row: Unprojected) -> bool:
        """An older run of a request has nothing to show any more: the newest one stands in the CRM."""
        written = row.newest and self._written(row)
        if written is not None:
            with boundary("projected", row.run_id):
                self.store.write(lambda connection: projected(connection, row.run_id, row.seq))
        return bool(written)

    def _written(self, row: Unprojected) -> bool | None:
        facts = self.store.ask(lambda connection: read_facts(connection, row.run_id))
        crm = self.crms.get(facts.subject.system)
        if crm is None:
            return False
        turn = self._turns.not_yet(facts, crm)
        if turn is not None:
            self._later(row, turn.at - facts.now)
            return None
        try:
            with (
                joined(run=row.run_id, subject=str(facts.subject), correlation=facts.run.correlation_id),
                boundary("project", row.run_id),
            ):
                crm.project(facts.subject, projection_of(facts, self.processes[facts.run.process]))
        except CounterfoilError as refused:
            return self._not_written(row, facts, crm, refused)
        return True

    def _not_written(self, row: Unprojected, facts: Facts, crm: Crm, refused: CounterfoilError) -> bool | None:
        """Later again; but a run that is over has nowhere to be shown once its record is gone."""
        if isinstance(refused, SubjectGone) and row.state in TERMINAL:
            return False
        log.warning("run %s not projected: %s", row.run_id, refused.code)
        turn = self._turns.met(facts, crm, refused)
        self._later(row, PAUSE_AFTER_FAILURE if turn is None else turn.at - facts.now)
        return None

    def _later(self, row: Unprojected, pause: timedelta) -> None:
        with boundary("postpone-projection", row.run_id):
            self.store.write(lambda connection: postpone_projection(connection, row.run_id, pause))
