"""Reads of HubSpot records that believe only what has the documented shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from connectors.classify import Object, child, children, text
from connectors.hubspot_records import Search, Walk, properties, record_id
from connectors.reading import ALL_PAGES, Page, Reader, every_page
from connectors.transport import Request
from domain.ports import Carrier


def read_record(reader: Reader, request: Request) -> Object | None:
    """The record, or None if HubSpot says that there is none. Raises ReadFailed, or Throttled."""
    record = reader.found(request)
    if record is None:
        return None
    return _whole(reader, record)


def read_hits(reader: Reader, search: Search) -> Iterator[Object]:
    """Every page of what the lagging index shows. Raises ReadFailed if any of them cannot be read, or Throttled."""
    return every_page(reader, search.request, lambda answer: _page(reader, answer))


def read_carriers(reader: Reader, walk: Walk) -> Iterator[Carrier]:
    """Every record of the walk with what it carries. Raises ReadFailed if any page cannot be read, or Throttled."""

    def page(answer: Object) -> Page:
        shown = _page(reader, answer)
        return Page(shown.records, record_id(shown.records[-1]) if shown.after and shown.records else None)

    for record in every_page(reader, walk.request, page, ALL_PAGES):
        key = properties(record).get(walk.name)
        if key:
            yield Carrier(record_id(record) or "", key)


def _page(reader: Reader, answer: Object) -> Page:
    if not isinstance(answer.get("results"), list):
        raise reader.failed("unreadable_list")
    records = tuple(_whole(reader, record) for record in children(answer, "results"))
    return Page(records, text(child(child(answer, "paging"), "next"), "after"))


def _whole(reader: Reader, record: Object) -> Object:
    if record_id(record) is None or not isinstance(record.get("properties"), Mapping):
        raise reader.failed("unreadable_record")
    return record
