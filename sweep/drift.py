"""Reading CRM and provider back, run by run, and saying where they differ from the store. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from business_store.audit.outside import Standing, standing_outside
from business_store.database import Store
from business_store.facts import read_facts
from domain.drift import Apart, Drift, of_fields, of_finding, of_projection, to_look_for, to_read_back
from domain.effects import context_of, expected
from domain.errors import ReadFailed, SubjectGone
from domain.operations import content_of
from domain.ports import Connector, Crm, Sought, Wanted
from domain.process import Process
from domain.projection import projection_of
from domain.records import Facts, Operation
from sweep.unrecorded import Unrecorded


@dataclass(frozen=True)
class Outside:
    """Compares one installation's store with the world."""

    store: Store
    connectors: Mapping[str, Connector]
    crms: Mapping[str, Crm]
    processes: Mapping[str, Process[Any]]
    unrecorded: Unrecorded

    def drift(self, since: datetime | None = None) -> Iterator[Drift]:
        """Every difference, one request at a time, then one page at a time; memory does not grow with their number.

        `since`: how far back records are walked that the store may know nothing of.
        """
        for standing in standing_outside(self.store):
            yield from self._lasting(standing)
        yield from self.unrecorded.drift(since)

    def _lasting(self, standing: Standing) -> list[Drift]:
        """Differences that are still there when all is read once more: a live system moves between two reads."""
        seen = self._seen(standing)
        again = self._seen(standing) if seen else set()
        return sorted(seen & again, key=lambda each: (each.system, each.record, each.apart))

    def _seen(self, standing: Standing) -> set[Drift]:
        facts = self.store.read(lambda connection: read_facts(connection, standing.run_id))
        process = self.processes[facts.run.process]
        effects = (self._read_back(facts, process, operation) for operation in to_read_back(facts.operations))
        lines = (self._looked_for(operation) for operation in to_look_for(facts.operations, facts.now))
        shown = self._shown(facts, process) if standing.shown else None
        return {each for each in (*effects, *lines, shown) if each is not None}

    def _read_back(self, facts: Facts, process: Process[Any], operation: Operation) -> Drift | None:
        try:
            found = self.connectors[operation.system].read_back(operation.kind, str(operation.reference))
        except ReadFailed as failed:
            return _unread(operation.run_id, operation.system, str(operation.reference), failed)
        version = facts.versions[operation.input_version - 1]
        if version.canonical is None:
            return None  # it is still there; what it should say was erased
        context = context_of(facts, operation.run_id, version)
        return of_fields(operation, expected(process.effect(operation.step), process, version, context), found)

    def _looked_for(self, operation: Operation) -> Drift | None:
        since = operation.evidence.attempts[0].permitted_at
        sought = Sought(operation.kind, operation.key, content_of(operation), since)
        return of_finding(operation, self.connectors[operation.system].probe(sought))

    def _shown(self, facts: Facts, process: Process[Any]) -> Drift | None:
        crm, subject = self.crms.get(facts.subject.system), facts.subject
        if crm is None:
            return None
        wanted = projection_of(facts, process)
        try:
            reading = crm.read_subject(subject, Wanted(tuple(sorted(wanted))))
        except SubjectGone:
            return Drift(facts.run.id, subject.system, str(subject), Apart.GONE)
        except ReadFailed as failed:
            return _unread(facts.run.id, subject.system, str(subject), failed)
        return of_projection(facts, wanted, reading.values)


def _unread(run_id: str, system: str, record: str, failed: ReadFailed) -> Drift:
    code = str(failed.fields.get("reason", failed.code))
    apart = Apart.GONE if code == "absent" else Apart.UNREADABLE
    return Drift(run_id, system, record, apart, (code,))
