"""Callbacks of a provider that promises nothing else: it echoes our reference, or gives only its own id."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from store_builder import Book

from business_store.callbacks import Heard, hear
from business_store.late_evidence import Drawn, draw
from connectors.classify import child, json_object, text
from domain.callbacks import Announced, Told
from domain.canonical import Json, canonical_bytes
from domain.contracts import SavedId
from domain.deliveries import Receipt, ReceiptVerdict
from domain.errors import InvalidInput
from sweep.callbacks import CallbackSweep

_numbers = itertools.count(1)


class EchoingProvider:
    """Says `{"type": "account.made", "data": {"reference": OURS, "id": THEIRS, "fields": {...}}}`."""

    system = "stripe"

    def announced(self, event: Mapping[str, Json]) -> Announced | None:
        if text(event, "type") != "account.made":
            return None
        data = child(event, "data")
        if text(data, "id") is None:
            raise InvalidInput("data.id", "the provider's id")
        return Announced("create_account", text(data, "reference"), str(data["id"]), data)

    def compared(self, kind: str, content: bytes, record: bytes) -> str:
        asked, shown = json_object(content) or {}, child(json_object(record) or {}, "fields")
        differing = [name for name, value in asked.items() if name in shown and shown[name] != value]
        return f"other_{differing[0]}" if differing else ""


PROVIDER = EchoingProvider()


def made(key: str | None, reference: str, **fields: str) -> dict[str, Any]:
    """The event about one record."""
    echoed = {} if key is None else {"reference": key}
    return {"type": "account.made", "data": {**echoed, "id": reference, "fields": fields}}


def told(event: Mapping[str, Any], index: int = 0, dedupe_key: str | None = None) -> Told:
    said = PROVIDER.announced(event)
    assert said is not None
    content = canonical_bytes(said.record)
    return Told(index, dedupe_key or f"evt-{next(_numbers)}", said.kind, said.key, said.reference, content)


def heard(book: Book, *elements: Told, events: Sequence[Mapping[str, Any]] = ()) -> list[Heard]:
    """Take these in as one genuine body; nothing follows from it yet."""
    body = json.dumps(list(events)).encode() if events else hashlib.sha256(repr(elements).encode()).digest()
    receipt = Receipt("callback/echo", body, ReceiptVerdict.GENUINE)
    return book.store.write(lambda connection: hear(connection, receipt, elements, PROVIDER))


def drawn(book: Book, each: Heard) -> Drawn:
    """What follows from it."""
    assert each.delivery is not None, each
    delivery = each.delivery
    return book.store.write(lambda connection: draw(connection, delivery, {book.process.name: book.process}))


def called_back(book: Book, event: Mapping[str, Any]) -> Drawn:
    """One callback, taken in and acted on."""
    [each] = heard(book, told(event), events=[event])
    return drawn(book, each)


def swept(book: Book) -> int:
    """One pass of the sweep over callbacks."""
    return CallbackSweep(book.store, {PROVIDER.system: PROVIDER}, {book.process.name: book.process}).once()


def only_callbacks(book: Book, within: float) -> None:
    """From now on the account's contract is C5 alone."""
    book.contracts["create-account"] = (SavedId(timedelta(seconds=within), "data.id", "data.reference"),)
