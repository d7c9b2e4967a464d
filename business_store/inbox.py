"""What came in, as it came in: bodies kept once, elements claimed once, and what became of each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, text

from domain.canonical import canonical_bytes, sha256
from domain.deliveries import Delivery, Disposition, Quarantined, Receipt

Element = Delivery | Quarantined

KEEP = text("""
    INSERT INTO receipt (source, body, body_sha256, verdict)
    SELECT * FROM unnest(cast(:sources AS text[]), cast(:bodies AS bytea[]), cast(:digests AS bytea[]),
        cast(:verdicts AS text[])) AS given (source, body, digest, verdict) ORDER BY digest, source, verdict
    ON CONFLICT (source, body_sha256, verdict) DO NOTHING RETURNING id, source, body_sha256, verdict
""")
KEPT = text("""
    SELECT id, source, body_sha256, verdict FROM receipt WHERE (source, body_sha256, verdict) IN (
        SELECT * FROM unnest(cast(:sources AS text[]), cast(:digests AS bytea[]), cast(:verdicts AS text[])))
""")


def keep_receipts(connection: Connection, receipts: Sequence[Receipt]) -> list[int]:
    """Store bytes and verdicts and return the ids, in order; the same bytes again are the same row."""
    names = [(receipt.source, sha256(receipt.body), str(receipt.verdict)) for receipt in receipts]
    columns = {
        "sources": [source for source, _, _ in names],
        "digests": [digest for _, digest, _ in names],
        "verdicts": [verdict for _, _, verdict in names],
    }
    rows = connection.execute(KEEP, {**columns, "bodies": [receipt.body for receipt in receipts]}).all()
    if len(rows) < len(receipts):
        rows = connection.execute(KEPT, columns).all()
    ids = {(row.source, bytes(row.body_sha256), row.verdict): int(row.id) for row in rows}
    return [ids[name] for name in names]


@dataclass(frozen=True, slots=True)
class Arrival:
    """One element on its way in: which of the bodies taken together it was in, and under which receipt that is kept."""

    body: int
    receipt: int
    source: str
    element: Element


CLAIM = text("""
    INSERT INTO delivery (source, dedupe_key, receipt_id, element, change, system, account, object_type, object_id,
        occurred_at, made_by, marker, inputs, inputs_sha256, disposition, reason)
    SELECT source, dedupe_key, receipt, element, change, system, account, object_type, object_id, occurred_at, made_by,
        marker, decode(inputs, 'hex'), sha256(decode(inputs, 'hex')), disposition, reason
    FROM jsonb_to_recordset(cast(:rows AS jsonb)) AS given (source text, dedupe_key text, receipt bigint,
        element integer, change text, system text, account text, object_type text, object_id text,
        occurred_at timestamptz, made_by text, marker text, inputs text, disposition text, reason text)
    ORDER BY source, dedupe_key
    ON CONFLICT (source, dedupe_key) DO NOTHING RETURNING id, source, dedupe_key
""")


def claim(connection: Connection, arrivals: Sequence[Arrival], makers: Mapping[str, str]) -> list[int | None]:
    """The delivery id of each element that was never taken in before, else None. `makers` are actor ids by identity.

    The insert of the unique key is the only guard against taking one delivery twice.
    """
    if not arrivals:
        return []
    rows = json.dumps([_row(arrival, makers) for arrival in arrivals])
    ids = {(row.source, row.dedupe_key): int(row.id) for row in connection.execute(CLAIM, {"rows": rows})}
    return [ids.pop((arrival.source, arrival.element.dedupe_key), None) for arrival in arrivals]


def _row(arrival: Arrival, makers: Mapping[str, str]) -> dict[str, Any]:
    element = arrival.element
    base = {"source": arrival.source, "dedupe_key": element.dedupe_key, "receipt": arrival.receipt}
    if isinstance(element, Quarantined):
        return {**base, "element": element.index, "marker": "", "disposition": "quarantined", "reason": element.reason}
    return {
        **base,
        "element": element.index,
        "change": element.change,
        "system": element.subject.system,
        "account": element.subject.account,
        "object_type": element.subject.object_type,
        "object_id": element.subject.object_id,
        "occurred_at": element.occurred_at.isoformat(),
        "made_by": makers[element.by] if element.by else None,
        "marker": element.marker,
        "inputs": None if element.inputs is None else canonical_bytes(element.inputs).hex(),
        "disposition": Disposition.IRRELEVANT,
        "reason": "",
    }


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of one claimed delivery."""

    delivery: int
    disposition: Disposition
    reason: str
    request_id: str | None
    run_id: str | None


SETTLE = text("""
    UPDATE delivery SET disposition = given.disposition, reason = given.reason, request_id = given.request,
        run_id = given.run,
        settled_at = CASE WHEN given.disposition = 'pending_read' THEN NULL ELSE clock_timestamp() END
    FROM jsonb_to_recordset(cast(:rows AS jsonb))
        AS given (id bigint, disposition text, reason text, request text, run text)
    WHERE delivery.id = given.id
""")


def settle(connection: Connection, settled: Sequence[Settled]) -> None:
    """Write down what became of each delivery."""
    rows = [
        {"id": s.delivery, "disposition": s.disposition, "reason": s.reason, "request": s.request_id, "run": s.run_id}
        for s in settled
    ]
    if rows:
        connection.execute(SETTLE, {"rows": json.dumps(rows)})


ALSO = text("""
    INSERT INTO delivery (source, dedupe_key, receipt_id, element, change, system, account, object_type, object_id,
        occurred_at, made_by, marker, inputs, inputs_sha256, disposition, reason, request_id)
    SELECT source, dedupe_key || '#' || :request, receipt_id, element, change, system, account, object_type, object_id,
        occurred_at, made_by, marker, inputs, inputs_sha256, 'pending_read', :reason, :request
    FROM delivery WHERE id = :delivery
""")


def also_for(connection: Connection, delivery: int, request_id: str, reason: str) -> None:
    """A change of a record that several requests are about is to be read for each of them."""
    connection.execute(ALSO, {"delivery": delivery, "request": request_id, "reason": reason})
