"""Recorded erasure: what was over before a cutoff loses its contents; hashes, decisions, events and sends stay.

Works as the retention role. Each request is recorded as erased in the transaction that erases it, below an erasure that
was committed before: one that is killed leaves whole requests erased and recorded, and the next one takes the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, text
from sqlalchemy.exc import DBAPIError

from business_store.database import Store, violated

PAGE = 200
"""Requests, or receipts, that one transaction looks at: bounds how long a trigger about one of them waits."""
CONFLICTS = 20
"""Batches that may be refused in a row because something of them came to life meanwhile."""


@dataclass(frozen=True, slots=True)
class ErasureAsked:
    """Who erases, why, and what: everything that was over for longer than `older_than`."""

    asked_by: str
    reason: str
    older_than: timedelta


@dataclass(frozen=True, slots=True)
class Erasure:
    """Whole requests and receipts, and their contents by table. `id` is None of one that was not recorded."""

    id: int | None
    cutoff: datetime
    requests: int
    receipts: int
    contents: Mapping[str, int]


PATIENT = text("SET LOCAL statement_timeout = 0")
CUTOFF = text("SELECT clock_timestamp() - cast(:older_than AS interval)")
LOOK = text("""
    WITH old AS MATERIALIZED (
        SELECT held_in, request_id, receipt_id FROM payload WHERE at < :cutoff AND NOT gone
    ), over AS MATERIALIZED (
        SELECT request_id FROM (SELECT DISTINCT request_id FROM old WHERE request_id IS NOT NULL) each
        WHERE request_is_over(request_id, :cutoff)
    ), free AS MATERIALIZED (
        SELECT receipt_id FROM (SELECT DISTINCT receipt_id FROM old WHERE receipt_id IS NOT NULL) each
        WHERE receipt_is_free(receipt_id, :cutoff)
    )
    SELECT (SELECT count(*) FROM over) AS requests, (SELECT count(*) FROM free) AS receipts, (
        SELECT coalesce(jsonb_object_agg(held_in, contents), '{}') FROM (
            SELECT held_in, count(*) AS contents FROM old
            WHERE request_id IN (SELECT request_id FROM over) OR receipt_id IN (SELECT receipt_id FROM free)
            GROUP BY held_in) counted) AS contents
""")


def erasable(connection: Connection, older_than: timedelta) -> Erasure:
    """What an erasure would find now; the cutoff is by the database's clock."""
    cutoff = connection.execute(CUTOFF, {"older_than": older_than}).scalar_one()
    connection.execute(PATIENT)
    row = connection.execute(LOOK, {"cutoff": cutoff}).one()
    return Erasure(None, cutoff, row.requests, row.receipts, row.contents)


RECORD = text("""
    INSERT INTO erasure (asked_by, reason, cutoff, requests, receipts)
    VALUES (:asked_by, :reason, :cutoff, :requests, :receipts) RETURNING id
""")


def erase(store: Store, asked: ErasureAsked, page: int = PAGE) -> Erasure:
    """Record, then erase, a page at a time; nothing is recorded where nothing is found.

    Raises sqlalchemy.exc.DBAPIError, CommitUnknown.
    """
    found = store.read(lambda connection: erasable(connection, asked.older_than))
    if not found.contents:
        return found
    recorded = store.once(lambda connection: _record(connection, asked, found))
    erasing = _Erasing(store, recorded, found.cutoff, page)
    contents = erasing.all_of(REQUESTS) + erasing.all_of(RECEIPTS)
    requests, receipts = store.read(lambda connection: connection.execute(COUNT, {"erasure": recorded}).one())
    return Erasure(recorded, found.cutoff, requests, receipts, dict(contents))


def _record(connection: Connection, asked: ErasureAsked, found: Erasure) -> int:
    named = {"asked_by": asked.asked_by, "reason": asked.reason}
    counted = {"cutoff": found.cutoff, "requests": found.requests, "receipts": found.receipts}
    return int(connection.execute(RECORD, {**named, **counted}).scalar_one())


COUNT = text("""
    SELECT (SELECT count(*) FROM erased_request WHERE erasure_id = :erasure),
        (SELECT count(*) FROM erased_receipt WHERE erasure_id = :erasure)
""")
WITHIN = "t.{at} >= due.since AND t.{at} < :cutoff"
DUE = "unnest(cast(:ids AS {type}[]), cast(:since AS timestamptz[])) AS due (id, since)"


@dataclass(frozen=True, slots=True)
class Kind:
    """Something that is erased as a whole: how a page of all there are is seen, and those of it that are due recorded
    and emptied, table by table: work and memory grow with what there is, a page at a time.

    `since` is the cutoff up to which it was erased before: that role cannot read whether a content is there.
    """

    seen: str
    record: str
    empty: Mapping[str, str]
    first: Any


def _emptied(table: str, columns: str, at: str, whose: str) -> str:
    nothing = ", ".join(f"{column} = NULL" for column in columns.split())
    return f"UPDATE {table} t SET {nothing} FROM {whose} AND {WITHIN.format(at=at)}"


OF_REQUEST = f"{DUE.format(type='text')} WHERE t.request_id = due.id"
OF_RUN = f"{DUE.format(type='text')} JOIN run ON run.request_id = due.id WHERE t.run_id = run.id"
OF_DECISION = (
    f"{DUE.format(type='text')} JOIN run ON run.request_id = due.id JOIN decision d ON d.run_id = run.id"
    " WHERE t.decision_id = d.id"
)
OF_RECEIPT = DUE.format(type="bigint")

REQUESTS = Kind(
    seen="""
        SELECT r.id, EXISTS (SELECT FROM payload p WHERE p.request_id = r.id AND p.at < :cutoff AND NOT p.gone)
            AND request_is_over(r.id, :cutoff) AS due,
            coalesce((SELECT max(x.cutoff) FROM erased_request e JOIN erasure x ON x.id = e.erasure_id
                WHERE e.request_id = r.id), 'epoch') AS since
        FROM (SELECT id FROM request WHERE id > :after ORDER BY id LIMIT :page) r ORDER BY r.id
    """,
    record="INSERT INTO erased_request (erasure_id, request_id) SELECT :erasure, unnest(cast(:ids AS text[]))",
    empty={
        "input_version": _emptied("input_version", "canonical", "recorded_at", OF_REQUEST),
        "delivery": _emptied("delivery", "inputs", "received_at", f"{OF_REQUEST} AND t.inputs_sha256 IS NOT NULL"),
        "decision": _emptied("decision", "comment", "decided_at", OF_RUN),
        "revocation": _emptied("revocation", "reason", "at", OF_DECISION),
        "operation": _emptied("operation", "content", "created_at", OF_REQUEST),
        "reading": _emptied("reading", "content", "recorded_at", OF_REQUEST),
        "resolution": _emptied("resolution", "reason evidence", "at", OF_RUN),
    },
    first="",
)
RECEIPTS = Kind(
    seen="""
        SELECT r.id, EXISTS (SELECT FROM payload p WHERE p.receipt_id = r.id AND p.at < :cutoff AND NOT p.gone)
            AND receipt_is_free(r.id, :cutoff) AS due,
            coalesce((SELECT max(x.cutoff) FROM erased_receipt e JOIN erasure x ON x.id = e.erasure_id
                WHERE e.receipt_id = r.id), 'epoch') AS since
        FROM (SELECT id FROM receipt WHERE id > :after ORDER BY id LIMIT :page) r ORDER BY r.id
    """,
    record="INSERT INTO erased_receipt (erasure_id, receipt_id) SELECT :erasure, unnest(cast(:ids AS bigint[]))",
    empty={
        "receipt": _emptied("receipt", "body", "received_at", f"{OF_RECEIPT} WHERE t.id = due.id"),
        "delivery": _emptied(
            "delivery",
            "inputs",
            "received_at",
            f"{OF_RECEIPT} WHERE t.receipt_id = due.id AND t.request_id IS NULL AND t.inputs_sha256 IS NOT NULL",
        ),
    },
    first=0,
)
REVIVED, LOCK_NOT_AVAILABLE = ("erasure_too_early", "insert_only"), "55P03"


def _came_to_life(refused: DBAPIError) -> bool:
    """Something of the batch did after it was found, or somebody holds it: the next look sees how it ended."""
    return violated(refused) in REVIVED or getattr(refused.orig, "sqlstate", None) == LOCK_NOT_AVAILABLE


@dataclass(frozen=True, slots=True)
class _Erasing:
    """One recorded erasure being carried out."""

    store: Store
    erasure: int
    cutoff: datetime
    page: int

    def all_of(self, kind: Kind) -> Counter[str]:
        """Every page of this kind; how many contents of each table were erased."""
        contents, after, conflicts = Counter[str](), kind.first, 0
        while True:
            try:
                done, last = self.store.once(lambda connection: self._batch(connection, kind, after))  # noqa: B023
            except DBAPIError as refused:
                conflicts += 1
                if not _came_to_life(refused) or conflicts > CONFLICTS:
                    raise
                continue
            if last is None:
                return contents
            contents, after, conflicts = contents + done, last, 0

    def _batch(self, connection: Connection, kind: Kind, after: object) -> tuple[Counter[str], object]:
        """One page in one transaction: its last id, None when there was none."""
        connection.execute(PATIENT)
        named = {"after": after, "cutoff": self.cutoff, "page": self.page}
        seen = connection.execute(text(kind.seen), named).all()
        due = [row for row in seen if row.due]
        return self._emptied(connection, kind, due) if due else Counter(), seen[-1].id if seen else None

    def _emptied(self, connection: Connection, kind: Kind, due: Sequence[Row[Any]]) -> Counter[str]:
        listed = {"ids": [row.id for row in due], "since": [row.since for row in due]}
        named = {**listed, "erasure": self.erasure, "cutoff": self.cutoff}
        connection.execute(text(kind.record), named)
        counts = {table: connection.execute(text(empty), named).rowcount for table, empty in kind.empty.items()}
        return +Counter(counts)
