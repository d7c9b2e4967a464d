"""Accepting triggers: raw bytes, verdicts, deliveries, requests, queued runs and events in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from business_store.actors import identified_all
from business_store.inbox import Arrival, Element, Settled, also_for, claim, keep_receipts, settle
from business_store.requests import (
    KnownRequest,
    NewRequest,
    NewRun,
    insert_requests,
    insert_runs,
    link_subjects,
    live_run,
    lock_requests,
    next_number,
    relink,
    request_for_key,
    requests_about,
    requests_by_subject,
)
from business_store.runs import SYSTEM_ACTOR, want_nudge
from domain.deliveries import Change, Delivery, Disposition, Quarantined, Receipt, ReceiptVerdict
from domain.identity import SubjectRef, short_digest, subject_key
from domain.process import Process, crm_names
from domain.states import RunKind


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of one element; `run_id` where it concerns a run, `correlation` where it started that."""

    index: int
    disposition: Disposition
    reason: str = ""
    run_id: str | None = None
    correlation: str = ""


@dataclass(frozen=True, slots=True)
class Received:
    """One body with its verdict, and what it says where it is genuine."""

    receipt: Receipt
    elements: Sequence[Element]


def accept(
    connection: Connection, receipt: Receipt, elements: Sequence[Element], processes: Sequence[Process[Any]]
) -> list[Accepted]:
    """Record one body and start or amend what its elements concern."""
    return accept_all(connection, [Received(receipt, elements)], processes)[0]


def accept_all(
    connection: Connection, bodies: Sequence[Received], processes: Sequence[Process[Any]]
) -> list[list[Accepted]]:
    """Record these bodies together and start or amend what each element concerns: an outcome per element, by body.

    Deliveries, and then requests, are locked in one order, so that two transactions about the same records, the same
    body again among them, cannot lock each other out.
    """
    arrivals = sorted(_arrivals(connection, bodies), key=_in_order)
    authors = {each.element.by for each in arrivals if isinstance(each.element, Delivery) and each.element.by}
    intake = _Intake(connection, processes, identified_all(connection, authors))
    outcomes: list[list[Accepted]] = [[] for _ in bodies]
    for arrival, accepted in zip(arrivals, intake.take(arrivals), strict=True):
        outcomes[arrival.body].append(accepted)
    return [sorted(of_body, key=lambda accepted: accepted.index) for of_body in outcomes]


def _arrivals(connection: Connection, bodies: Sequence[Received]) -> Iterator[Arrival]:
    kept = keep_receipts(connection, [body.receipt for body in bodies])
    for number, (body, receipt_id) in enumerate(zip(bodies, kept, strict=True)):
        if body.receipt.verdict is ReceiptVerdict.GENUINE:
            yield from (Arrival(number, receipt_id, body.receipt.source, element) for element in body.elements)


Outcome = tuple[Accepted, str | None]
"""What became of an element, and the request that it is about."""


def _in_order(arrival: Arrival) -> tuple[str, str]:
    element = arrival.element
    return ("" if isinstance(element, Quarantined) else str(element.subject), element.dedupe_key)


@dataclass(frozen=True, slots=True)
class _Claimed:
    """An element that came for the first time, and its delivery."""

    id: int
    arrival: Arrival
    element: Delivery

    @property
    def correlation(self) -> str:
        return f"cor-{short_digest(self.arrival.source, self.element.dedupe_key)}"


@dataclass(frozen=True, slots=True)
class _Intake:
    """Elements being taken in, in one transaction. `makers` are the actors of their authors."""

    connection: Connection
    processes: Sequence[Process[Any]]
    makers: Mapping[str, str]

    def take(self, arrivals: Sequence[Arrival]) -> list[Accepted]:
        """The outcome of each. What starts something new is written together, then everything else one by one."""
        ids = claim(self.connection, arrivals, self.makers)
        claimed = list(_understood(zip(arrivals, ids, strict=True)))
        outcomes = self._start_new(claimed)
        for each in claimed:
            if each.id not in outcomes:
                outcomes[each.id] = self._route(each)
        settle(self.connection, [_settled(delivery, *outcome) for delivery, outcome in outcomes.items()])
        return [_accepted(arrival.element, mine, outcomes) for arrival, mine in zip(arrivals, ids, strict=True)]

    def _start_new(self, claimed: Sequence[_Claimed]) -> dict[int, Outcome]:
        """Requests not known before, each with its first run. Every other request concerned is locked from here on."""
        known = requests_by_subject(self.connection, {s for each in claimed for s in _subjects(each.element)})
        wanted: dict[str, tuple[_Claimed, NewRequest]] = {}
        for each, request in self._unknown(claimed, known):
            wanted.setdefault(request.id, (each, request))
        made = insert_requests(self.connection, [request for _, request in wanted.values()])
        lock_requests(self.connection, {one.id for about in known.values() for one in about} | (wanted.keys() - made))
        return self._first_runs([pair for request_id, pair in wanted.items() if request_id in made])

    def _unknown(
        self, claimed: Sequence[_Claimed], known: Mapping[SubjectRef, Sequence[KnownRequest]]
    ) -> Iterator[tuple[_Claimed, NewRequest]]:
        """A merged record finds the request that its former self made: one that is being merged has its turn later."""
        merging = {s for each in claimed if each.element.change is Change.MERGED for s in _subjects(each.element)}
        for each in claimed:
            subject, process = each.element.subject, self._started_by(each.element)
            if process and subject not in merging and process.name not in {k.process for k in known.get(subject, ())}:
                yield each, self._request(process, each.element)

    def _first_runs(self, new: Sequence[tuple[_Claimed, NewRequest]]) -> dict[int, Outcome]:
        link_subjects(self.connection, [(request.id, each.element.subject) for each, request in new])
        runs = {each.id: _original(request.id, request.process, each) for each, request in new}
        insert_runs(self.connection, list(runs.values()))
        return {each.id: _started(each, runs[each.id]) for each, _ in new}

    def _started_by(self, element: Delivery) -> Process[Any] | None:
        return next((process for process in self.processes if starts(process, element)), None)

    def _request(self, process: Process[Any], element: Delivery) -> NewRequest:
        requester = self.makers[element.by] if element.by else SYSTEM_ACTOR
        return NewRequest(process, subject_key(element.subject), requester)

    def _route(self, each: _Claimed) -> Outcome:
        element = each.element
        if element.change is Change.MERGED:
            return self._merged(each)
        process = self._started_by(element)
        if process is not None:
            return self._start(process, each)
        if not any(concerns(p, element) for p in self.processes):
            return Accepted(element.index, Disposition.IRRELEVANT), None
        return self._amend(each, requests_about(self.connection, element.subject))

    def _start(self, process: Process[Any], each: _Claimed) -> Outcome:
        """The request is there already; it may have been made by hand, without an original run."""
        subject = each.element.subject
        known = requests_about(self.connection, subject, process.name)
        request_id = known[0] if known else request_for_key(self.connection, self._request(process, each.element))
        link_subjects(self.connection, [(request_id, subject)])
        run = _original(request_id, process, each, next_number(self.connection, request_id))
        if not insert_runs(self.connection, [run]):
            return self._amend(each, [request_id], "already_exists")
        return _started(each, run)

    def _amend(self, each: _Claimed, request_ids: Sequence[str], reason: str = "") -> Outcome:
        index = each.element.index
        if not request_ids:
            return Accepted(index, Disposition.NO_REQUEST), None
        for request_id in request_ids[1:]:
            also_for(self.connection, each.id, request_id, reason)
        runs = [self._nudged(request_id) for request_id in request_ids]
        run_id = next((run for run in runs if run), None)
        return Accepted(index, Disposition.PENDING_READ, reason, run_id), request_ids[0]

    def _nudged(self, request_id: str) -> str | None:
        run = live_run(self.connection, request_id)
        if run is not None and run[1]:
            want_nudge(self.connection, run[0])
        return run[0] if run else None

    def _merged(self, each: _Claimed) -> Outcome:
        """Re-point the links of every request about the merged records, under their locks in id order."""
        subjects = _subjects(each.element)
        found = sorted({r for subject in subjects for r in requests_about(self.connection, subject)})
        for request_id in found:
            relink(self.connection, request_id, each.element.subject)
        if not found:
            return Accepted(each.element.index, Disposition.NO_REQUEST), None
        return self._amend(each, found, "relinked")


def _understood(pairs: Iterable[tuple[Arrival, int | None]]) -> Iterator[_Claimed]:
    for arrival, delivery in pairs:
        if delivery is not None and isinstance(arrival.element, Delivery):
            yield _Claimed(delivery, arrival, arrival.element)


def _subjects(element: Delivery) -> tuple[SubjectRef, ...]:
    return (element.subject, *element.merged_from)


def _original(request_id: str, process: Process[Any], each: _Claimed, number: int = 1) -> NewRun:
    return NewRun(request_id, process, RunKind.ORIGINAL, each.correlation, number)


def _started(each: _Claimed, run: NewRun) -> Outcome:
    element = each.element
    disposition = Disposition.STARTED if element.inputs is None else Disposition.PENDING_READ
    return Accepted(element.index, disposition, run_id=run.id, correlation=each.correlation), run.request_id


def _settled(delivery: int, accepted: Accepted, request_id: str | None) -> Settled:
    return Settled(delivery, accepted.disposition, accepted.reason, request_id, accepted.run_id)


def _accepted(element: Element, delivery: int | None, outcomes: Mapping[int, Outcome]) -> Accepted:
    if delivery is None:
        return Accepted(element.index, Disposition.DUPLICATE)
    if isinstance(element, Quarantined):
        return Accepted(element.index, Disposition.QUARANTINED, element.reason)
    return outcomes[delivery][0]


def starts(process: Process[Any], element: Delivery) -> bool:
    """Whether this element asks for a run of `process`."""
    trigger = process.trigger
    if element.change is Change.SUBMITTED:
        return trigger.inline
    return (
        element.change is Change.PROPERTY
        and (element.subject.system, element.subject.object_type) == (trigger.system, trigger.object_type)
        and (element.property_name, element.property_value) == (trigger.property_name, trigger.value)
    )


def concerns(process: Process[Any], element: Delivery) -> bool:
    """Whether this element may have changed inputs of `process`."""
    if element.change in (Change.DELETED, Change.CREATED) or element.inputs is not None:
        return True
    names = set(crm_names(process.inputs).values())
    linked = element.subject.object_type != process.trigger.object_type
    return (f"linked.{element.property_name}" if linked else element.property_name) in names
