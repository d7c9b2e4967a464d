"""What follows from evidence that comes by itself, or late: a second look at a doubt, a person for a contradiction.

The evidence is committed already, so nothing that fails here loses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, text

from business_store.facts import locked_facts
from business_store.requests import live_run, lock_requests, open_repair
from business_store.runs import Move, lock_run, move, want_nudge
from domain.callbacks import Disposition, consequence, contradicts
from domain.operations import evidence_of
from domain.process import Process
from domain.records import Facts, Operation, Run
from domain.signals import Callback, RecordedAnswer, Signal
from domain.states import HELD, RunKind, RunState

Processes = Mapping[str, Process[Any]]


@dataclass(frozen=True, slots=True)
class Drawn:
    """What was made of one callback, and the run that it concerns."""

    disposition: Disposition
    run_id: str | None = None


MEANT = text("""
    SELECT k.id, k.operation_key, k.reference, k.ours, k.recorded_at, o.request_id
    FROM callback k JOIN operation o ON o.key = k.operation_key WHERE k.delivery_id = :delivery
""")
SETTLE = text("""
    UPDATE callback_delivery SET disposition = :disposition, run_id = :run, settled_at = clock_timestamp()
    WHERE id = :delivery AND disposition = 'matched'
""")
STANDS = text("SELECT disposition, run_id FROM callback_delivery WHERE id = :delivery")


def draw(connection: Connection, delivery: int, processes: Processes) -> Drawn:
    """Under the request lock, once: whoever comes second finds it drawn."""
    meant = connection.execute(MEANT, {"delivery": delivery}).one()
    lock_requests(connection, [meant.request_id])
    stands = connection.execute(STANDS, {"delivery": delivery}).one()
    if stands.disposition != Disposition.MATCHED:
        return Drawn(Disposition(stands.disposition), stands.run_id)
    live = live_run(connection, meant.request_id)
    if live is None:
        raise AssertionError("an operation has a run that is no rehearsal")
    told = Callback(meant.recorded_at, meant.reference, meant.ours)
    drawing = _Drawing(connection, locked_facts(connection, live[0]), processes, {"callback": meant.id})
    drawn = drawing.of(meant.operation_key, told)
    connection.execute(SETTLE, {"disposition": drawn.disposition, "run": drawn.run_id, "delivery": delivery})
    return drawn


RESOLVED_SINCE = text("""
    SELECT EXISTS (SELECT FROM resolution WHERE operation_key = :key AND 'operator:' || id = :by AND at > :at)
""")


@dataclass(frozen=True, slots=True)
class _Drawing:
    connection: Connection
    facts: Facts
    processes: Processes
    named: Mapping[str, Any]

    def of(self, key: str, told: Callback) -> Drawn:
        operation = next(op for op in self.facts.operations if op.key == key)
        said_before = any(_same(each, told) and each.at < told.at for each in operation.evidence.callbacks)
        what = consequence(operation, told, known=said_before or self._resolved_since(operation, told))
        evidence = {**evidence_of(operation), **self.named, "reference": told.reference, "ours": told.ours}
        match what:
            case Disposition.TAKEN_UP:
                return Drawn(what, self._looked_at_again(operation, evidence))
            case Disposition.CONTRADICTS:
                run = contradicted(self.connection, self.facts, self.processes, operation, evidence)
                return Drawn(what, run.id)
            case _:
                return Drawn(what, self.facts.run.id)

    def _resolved_since(self, operation: Operation, told: Callback) -> bool:
        """However late this consequence is drawn: the evidence lay there when a person settled the operation."""
        named = {"key": operation.key, "by": operation.settled_by, "at": told.at}
        return bool(self.connection.execute(RESOLVED_SINCE, named).scalar_one())

    def _looked_at_again(self, operation: Operation, evidence: Mapping[str, Any]) -> str:
        """The execution settles, as after every other evidence; a run that waits for a person shows it to them."""
        run = self.facts.run
        if run.state in HELD:
            move(self.connection, run, _seen(run, operation, evidence))
        want_nudge(self.connection, run.id)
        return run.id


def _same(one: Callback, other: Callback) -> bool:
    return (one.reference, one.ours) == (other.reference, other.ours)


def _seen(run: Run, operation: Operation, evidence: Mapping[str, Any]) -> Move:
    """New evidence in the same state, for the same reason and person."""
    return Move(run.state, run.reason, operation.step, 0, run.next_owner, run.deadline, evidence, run.tries)


SAID = text("""
    SELECT EXISTS (SELECT FROM run JOIN event e ON e.run_id = run.id WHERE run.request_id = :request
    AND e.reason = 'contradicting_evidence' AND e.evidence ->> 'operation' = :key
    AND e.evidence ->> 'answered_at' = :at)
""")


def answered_late(connection: Connection, ended: Run, key: str, process: Process[Any]) -> None:
    """After an answer to a send of a run that is over: if it contradicts what was settled, a person looks, once."""
    lock_requests(connection, [ended.request_id])
    live = live_run(connection, ended.request_id)
    facts = locked_facts(connection, live[0] if live else ended.id)
    operation = next(op for op in facts.operations if op.key == key)
    late = _contradicting_answer(operation)
    if late is None:
        return
    evidence = {**evidence_of(operation), "answered_at": late.at.isoformat(), "reference": late.answer.reference}
    named = {"request": ended.request_id, "key": key, "at": evidence["answered_at"]}
    if not connection.execute(SAID, named).scalar_one():
        contradicted(connection, facts, {process.name: process}, operation, evidence)


def _contradicting_answer(operation: Operation) -> RecordedAnswer | None:
    answers = [recorded for attempt in operation.evidence.attempts for recorded in attempt.answers]
    made = [each for each in answers if each.answer.signal is Signal.ACCEPTED]
    return next((each for each in reversed(made) if contradicts(operation, each.answer.reference)), None)


def contradicted(
    connection: Connection, facts: Facts, processes: Processes, operation: Operation, evidence: Mapping[str, Any]
) -> Run:
    """A person must look: at the open run, else at a new one that follows it up. Nothing rewrites a terminal run."""
    process, run = processes[facts.run.process], facts.run
    if not run.is_open:
        evidence = {**evidence, "follows": run.id}
        run = lock_run(connection, open_repair(connection, run.id, process, RunKind.REPAIR))
    want_nudge(connection, run.id)
    owner = process.operator_role
    asked = Move(
        RunState.NEEDS_OPERATOR, "contradicting_evidence", operation.step, 0, owner, evidence=evidence, tries=run.tries
    )
    return move(connection, run, asked)
