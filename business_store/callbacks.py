"""Callbacks as evidence: taken in once, matched with their operation, committed before anything follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection, Row, text

from business_store.inbox import keep_receipts
from business_store.requests import lock_requests
from domain.callbacks import CallsBack, Disposition, Irrelevant, Told
from domain.canonical import canonical_bytes, parse, sha256
from domain.deliveries import Quarantined, Receipt, ReceiptVerdict
from domain.identity import short_digest

Element = Told | Irrelevant | Quarantined


@dataclass(frozen=True, slots=True)
class Heard:
    """What became of one element; `delivery` where something is still to follow from it, `run_id` once it has."""

    index: int
    disposition: Disposition
    reason: str = ""
    delivery: int | None = None
    run_id: str | None = None


CLAIM = text("""
    INSERT INTO callback_delivery (source, dedupe_key, receipt_id, element, system, kind, told_key, reference,
        disposition, reason, settled_at)
    VALUES (:source, :dedupe_key, :receipt, :element, :system, :kind, :told_key, :reference, :disposition, :reason,
        CASE WHEN :disposition IN ('irrelevant', 'quarantined') THEN clock_timestamp() END)
    ON CONFLICT (source, dedupe_key) DO NOTHING RETURNING id
""")
UNDERSTOOD = ("kind", "told_key", "reference")
"""Columns that stay empty where an element says nothing about a record of ours."""


def hear(connection: Connection, receipt: Receipt, elements: Sequence[Element], provider: CallsBack) -> list[Heard]:
    """Keep the bytes, and each element of a genuine body once. In the order of keys, so that no two bodies lock each
    other out."""
    (receipt_id,) = keep_receipts(connection, [receipt])
    if receipt.verdict is not ReceiptVerdict.GENUINE:
        return []
    hearing = _Hearing(connection, receipt.source, receipt_id, provider)
    return sorted(map(hearing.take, sorted(elements, key=_in_lock_order)), key=lambda heard: heard.index)


def _in_lock_order(element: Element) -> tuple[str, str]:
    return (element.key or "" if isinstance(element, Told) else "", element.dedupe_key)


@dataclass(frozen=True, slots=True)
class _Hearing:
    """One receipt being taken in."""

    connection: Connection
    source: str
    receipt_id: int
    provider: CallsBack

    def take(self, element: Element) -> Heard:
        """The insert of the unique key is the only guard against taking one callback twice."""
        heard = _understood(element)
        claimed = self.connection.execute(CLAIM, self._row(element, heard)).first()
        if claimed is None:
            return Heard(element.index, Disposition.DUPLICATE)
        if isinstance(element, Told) and match(self.connection, claimed.id, element, self.provider):
            return replace(heard, disposition=Disposition.MATCHED, delivery=claimed.id)
        return heard

    def _row(self, element: Element, heard: Heard) -> dict[str, object]:
        about = dict.fromkeys(UNDERSTOOD)
        if isinstance(element, Told):
            about = {"kind": element.kind, "told_key": element.key, "reference": element.reference}
        kept = {"source": self.source, "dedupe_key": element.dedupe_key, "receipt": self.receipt_id}
        became = {"element": element.index, "disposition": heard.disposition, "reason": heard.reason}
        return {**kept, **became, **about, "system": self.provider.system}


def _understood(element: Element) -> Heard:
    match element:
        case Told():
            return Heard(element.index, Disposition.UNMATCHED)
        case Irrelevant():
            return Heard(element.index, Disposition.IRRELEVANT)
        case Quarantined():
            return Heard(element.index, Disposition.QUARANTINED, element.reason)


BY_KEY = text("SELECT key, request_id, kind, content FROM operation WHERE key = :key AND system = :system")
BY_REFERENCE = text("""
    SELECT o.key, o.request_id, o.kind, o.content FROM operation o WHERE o.system = :system
    AND (o.reference = :reference OR o.key IN (SELECT n.operation_key FROM answer n WHERE n.reference = :reference))
    ORDER BY o.created_at DESC LIMIT 1
""")
EVIDENCE = text("""
    INSERT INTO callback (id, delivery_id, operation_key, reference, ours, code, record_sha256)
    VALUES (:id, :delivery, :key, :reference, :ours, :code, :sha)
""")
MATCHED = text(
    "UPDATE callback_delivery SET disposition = 'matched' WHERE id = :delivery AND disposition = 'unmatched'"
)


def match(connection: Connection, delivery: int, told: Told, provider: CallsBack) -> bool:
    """Add the evidence if an operation of ours is meant. The lock only orders it before or after any permit."""
    found = _operation(connection, told, provider.system)
    if found is None:
        return False
    lock_requests(connection, [found.request_id])
    if not connection.execute(MATCHED, {"delivery": delivery}).rowcount:
        return False
    code = _judged(found, told, provider)
    named = {"id": f"cbk-{short_digest(str(delivery))}", "delivery": delivery, "key": found.key}
    said = {"reference": told.reference, "ours": not code, "code": code or "ours", "sha": sha256(told.content)}
    connection.execute(EVIDENCE, {**named, **said})
    return True


def _operation(connection: Connection, told: Told, system: str) -> Row[tuple[str, str, str, bytes]] | None:
    """Our key decides where it is echoed; the provider's id alone only where an answer named it to us."""
    if told.key is not None:
        return connection.execute(BY_KEY, {"key": told.key, "system": system}).first()
    return connection.execute(BY_REFERENCE, {"reference": told.reference, "system": system}).first()


def _judged(found: Row[tuple[str, str, str, bytes]], told: Told, provider: CallsBack) -> str:
    """Why the record is not the one that the operation asked for; empty if it is."""
    if found.kind != told.kind:
        return "other_kind"
    if found.content is None:
        return "content_erased"
    return provider.compared(told.kind, bytes(found.content), told.content)


MATCHABLE = text("""
    SELECT d.id, d.element, d.dedupe_key, d.system, r.body FROM operation o
    JOIN callback_delivery d ON d.told_key = o.key AND d.system = o.system AND d.disposition = 'unmatched'
    JOIN receipt r ON r.id = d.receipt_id WHERE o.outcome = 'unknown' AND r.body IS NOT NULL
    UNION
    SELECT d.id, d.element, d.dedupe_key, d.system, r.body FROM operation o
    JOIN answer n ON n.operation_key = o.key
    JOIN callback_delivery d ON d.reference = n.reference AND d.system = o.system AND d.disposition = 'unmatched'
        AND d.told_key IS NULL
    JOIN receipt r ON r.id = d.receipt_id WHERE o.outcome = 'unknown' AND r.body IS NOT NULL
    LIMIT 100
""")
DUE = text("""
    SELECT id FROM callback_delivery WHERE disposition = 'matched'
    AND received_at < clock_timestamp() - cast(:patience AS interval) ORDER BY received_at LIMIT 200
""")


@dataclass(frozen=True, slots=True)
class Matchable:
    """A callback that came before what it is matched by: `told` is read from its receipt again."""

    delivery: int
    element: int
    dedupe_key: str
    system: str
    body: bytes

    def told(self, provider: CallsBack) -> Told | None:
        """What it says. Raises InvalidInput."""
        value = parse(self.body)
        event = value[self.element] if isinstance(value, list) else value
        said = provider.announced(event) if isinstance(event, dict) else None
        if said is None:
            return None
        return Told(self.element, self.dedupe_key, said.kind, said.key, said.reference, canonical_bytes(said.record))


def matchable(connection: Connection) -> list[Matchable]:
    """Unmatched callbacks that an operation in doubt is now known to be meant by."""
    return [Matchable(*row) for row in connection.execute(MATCHABLE)]


def due(connection: Connection, patience: object) -> list[int]:
    """Callbacks whose consequence nobody has drawn for `patience`."""
    return list(connection.execute(DUE, {"patience": patience}).scalars())
