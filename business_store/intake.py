"""Accepting a trigger: raw bytes, verdict, deliveries, request, queued run and event in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, text

from business_store.actors import identified
from business_store.requests import (
    insert_run,
    link_subject,
    live_run,
    relink,
    request_for_key,
    requests_about,
)
from business_store.runs import want_nudge
from domain.canonical import canonical_bytes, sha256
from domain.deliveries import Change, Delivery, Disposition, Quarantined, Receipt, ReceiptVerdict
from domain.identity import short_digest, subject_key
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


INSERT_RECEIPT = text("""
    INSERT INTO receipt (source, body, body_sha256, verdict) VALUES (:source, :body, :sha, :verdict)
    ON CONFLICT (source, body_sha256, verdict) DO NOTHING RETURNING id
""")
FIND_RECEIPT = text("SELECT id FROM receipt WHERE source = :source AND body_sha256 = :sha AND verdict = :verdict")


def keep_receipt(connection: Connection, receipt: Receipt) -> int:
    """Store the bytes and the verdict; the same bytes again are the same row."""
    named = {"source": receipt.source, "sha": sha256(receipt.body), "verdict": receipt.verdict}
    row = connection.execute(INSERT_RECEIPT, {**named, "body": receipt.body}).first()
    return int(row.id if row else connection.execute(FIND_RECEIPT, named).scalar_one())


def accept(
    connection: Connection,
    receipt: Receipt,
    elements: Sequence[Delivery | Quarantined],
    processes: Sequence[Process[Any]],
) -> list[Accepted]:
    """Record a genuine delivery and start or amend what it concerns. Elements are taken in the order of their subjects,
    so that two batches about the same records, the same batch again among them, cannot lock each other out."""
    receipt_id = keep_receipt(connection, receipt)
    if receipt.verdict is not ReceiptVerdict.GENUINE:
        return []
    intake = _Intake(connection, receipt.source, receipt_id, processes)
    outcomes = [intake.take(element) for element in sorted(elements, key=_in_lock_order)]
    return sorted(outcomes, key=lambda outcome: outcome.index)


def _in_lock_order(element: Delivery | Quarantined) -> tuple[str, str]:
    return ("" if isinstance(element, Quarantined) else str(element.subject), element.dedupe_key)


CLAIM = text("""
    INSERT INTO delivery (source, dedupe_key, receipt_id, element, change, system, account, object_type, object_id,
        occurred_at, made_by, marker, inputs, inputs_sha256, disposition, reason)
    VALUES (:source, :dedupe_key, :receipt, :element, :change, :system, :account, :object_type, :object_id,
        :occurred_at, :made_by, :marker, :inputs, :inputs_sha256, :disposition, :reason)
    ON CONFLICT (source, dedupe_key) DO NOTHING RETURNING id
""")
UNDERSTOOD = (
    *("change", "system", "account", "object_type", "object_id"),
    *("occurred_at", "made_by", "inputs", "inputs_sha256"),
)
"""Columns that stay empty where an element was not understood."""
SETTLE = text("""
    UPDATE delivery SET disposition = :disposition, reason = :reason, request_id = :request, run_id = :run,
        settled_at = CASE WHEN :disposition = 'pending_read' THEN NULL ELSE clock_timestamp() END
    WHERE id = :id
""")
ALSO = text("""
    INSERT INTO delivery (source, dedupe_key, receipt_id, element, change, system, account, object_type, object_id,
        occurred_at, made_by, marker, inputs, inputs_sha256, disposition, reason, request_id)
    SELECT source, dedupe_key || '#' || :request, receipt_id, element, change, system, account, object_type, object_id,
        occurred_at, made_by, marker, inputs, inputs_sha256, 'pending_read', :reason, :request
    FROM delivery WHERE (source, dedupe_key) = (:source, :dedupe_key)
""")
"""A change of a record that several requests are about is to be read for each of them."""


@dataclass(frozen=True, slots=True)
class _Intake:
    """One receipt being taken in."""

    connection: Connection
    source: str
    receipt_id: int
    processes: Sequence[Process[Any]]

    def take(self, element: Delivery | Quarantined) -> Accepted:
        """The insert of the unique key is the only guard against taking one delivery twice."""
        claimed = self.connection.execute(CLAIM, self._row(element)).first()
        if claimed is None:
            return Accepted(element.index, Disposition.DUPLICATE)
        if isinstance(element, Quarantined):
            return Accepted(element.index, Disposition.QUARANTINED, element.reason)
        outcome, request_id = self._route(element)
        self.connection.execute(
            SETTLE,
            {
                "id": claimed.id,
                "disposition": outcome.disposition,
                "reason": outcome.reason,
                "request": request_id,
                "run": outcome.run_id,
            },
        )
        return outcome

    def _row(self, element: Delivery | Quarantined) -> dict[str, Any]:
        base = {"source": self.source, "dedupe_key": element.dedupe_key, "receipt": self.receipt_id}
        if isinstance(element, Quarantined):
            names = [
                "change",
                "system",
                "account",
                "object_type",
                "object_id",
                "occurred_at",
                "made_by",
                "inputs",
                "inputs_sha256",
            ]
            quarantined = {"disposition": Disposition.QUARANTINED, "reason": element.reason, "marker": ""}
            return {**base, "element": element.index, **dict.fromkeys(names), **quarantined}
        inputs = None if element.inputs is None else canonical_bytes(element.inputs)
        return {
            **base,
            "element": element.index,
            "change": element.change,
            "system": element.subject.system,
            "account": element.subject.account,
            "object_type": element.subject.object_type,
            "object_id": element.subject.object_id,
            "occurred_at": element.occurred_at,
            "made_by": identified(self.connection, element.by) if element.by else None,
            "marker": element.marker,
            "inputs": inputs,
            "inputs_sha256": inputs and sha256(inputs),
            "disposition": Disposition.IRRELEVANT,
            "reason": "",
        }

    def _route(self, element: Delivery) -> tuple[Accepted, str | None]:
        if element.change is Change.MERGED:
            return self._merged(element)
        process = next((p for p in self.processes if starts(p, element)), None)
        if process is not None:
            return self._start(process, element)
        if not any(concerns(p, element) for p in self.processes):
            return Accepted(element.index, Disposition.IRRELEVANT), None
        return self._amend(element, requests_about(self.connection, element.subject))

    def _start(self, process: Process[Any], element: Delivery) -> tuple[Accepted, str | None]:
        """Insert-or-get the request by its key. A merged record finds the request that its former self made."""
        known = requests_about(self.connection, element.subject, process.name)
        requester = identified(self.connection, element.by) if element.by else "counterfoil"
        key = subject_key(element.subject)
        request_id = known[0] if known else request_for_key(self.connection, process.name, key, requester)
        link_subject(self.connection, request_id, element.subject)
        correlation = f"cor-{short_digest(self.source, element.dedupe_key)}"
        run_id = insert_run(self.connection, request_id, process, RunKind.ORIGINAL, correlation)
        if run_id is None:
            return self._amend(element, [request_id], "already_exists")
        disposition = Disposition.STARTED if element.inputs is None else Disposition.PENDING_READ
        return Accepted(element.index, disposition, run_id=run_id, correlation=correlation), request_id

    def _amend(self, element: Delivery, request_ids: Sequence[str], reason: str = "") -> tuple[Accepted, str | None]:
        if not request_ids:
            return Accepted(element.index, Disposition.NO_REQUEST), None
        known = {"source": self.source, "dedupe_key": element.dedupe_key, "reason": reason}
        for request_id in request_ids[1:]:
            self.connection.execute(ALSO, {**known, "request": request_id})
        runs = [self._nudged(request_id) for request_id in request_ids]
        outcome = Accepted(element.index, Disposition.PENDING_READ, reason, next((r for r in runs if r), None))
        return outcome, request_ids[0]

    def _nudged(self, request_id: str) -> str | None:
        run = live_run(self.connection, request_id)
        if run is not None and run[1]:
            want_nudge(self.connection, run[0])
        return run[0] if run else None

    def _merged(self, element: Delivery) -> tuple[Accepted, str | None]:
        """Re-point the links of every request about the merged records, under their locks in id order."""
        subjects = (element.subject, *element.merged_from)
        found = sorted({r for subject in subjects for r in requests_about(self.connection, subject)})
        for request_id in found:
            relink(self.connection, request_id, element.subject)
        if not found:
            return Accepted(element.index, Disposition.NO_REQUEST), None
        return self._amend(element, found, "relinked")


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
