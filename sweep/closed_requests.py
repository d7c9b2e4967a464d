"""CRM changes that arrive while no run of their request is open: the version is recorded, nothing is forgotten."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from activities.snapshots import Snapshots
from business_store.agreement import held_materially
from business_store.database import Store
from business_store.facts import locked_facts, read_facts
from business_store.requests import insert_run, live_run
from business_store.versions import record_snapshot
from domain.boundaries import boundary
from domain.errors import ReadFailed, SubjectGone
from domain.ports import Crm
from domain.process import Process
from domain.records import Facts, Taken
from domain.states import RunKind, RunState
from sweep.turns import Turns

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ClosedRequests:
    """Reads the subject for requests without an open run."""

    store: Store
    crms: Mapping[str, Crm]
    processes: Mapping[str, Process[Any]]

    def read(self, request_id: str) -> None:
        """Record what the CRM says now; a read that fails, or whose turn is later, is tried again by the next sweep."""
        facts = self._facts(request_id)
        if facts is None:
            return
        process = self.processes[facts.run.process]
        taken = self._taken(request_id, facts, process)
        if taken is not None:
            with boundary("record-change", facts.run.id):
                self.store.write(lambda connection: self._record(connection, facts.run.id, process, taken))

    def _taken(self, request_id: str, facts: Facts, process: Process[Any]) -> Taken | None:
        crm, turns = self.crms.get(facts.subject.system), Turns(self.store)
        if crm is not None and turns.not_yet(facts, crm) is not None:
            return None
        try:
            return Snapshots(self.crms).take(facts, process)
        except (ReadFailed, SubjectGone) as refused:
            log.warning("request %s could not be read: %s", request_id, refused.code)
            if crm is not None:
                turns.met(facts, crm, refused)
            return None

    def _facts(self, request_id: str) -> Facts | None:
        with self.store.reading() as connection:
            newest = live_run(connection, request_id)
            return read_facts(connection, newest[0]) if newest else None

    def _record(self, connection: Connection, run_id: str, process: Process[Any], taken: Taken) -> None:
        """Material after success opens a revision, queued; after any other end the version waits for a repair."""
        facts = record_snapshot(connection, locked_facts(connection, run_id), process, taken)
        run = facts.run
        if run.state is RunState.SUCCEEDED and process.revises_after_success and held_materially(facts, process):
            insert_run(connection, run.request_id, process, RunKind.REVISION, run.correlation_id, run.id)
