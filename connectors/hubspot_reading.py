"""Reads of HubSpot records that believe only what has the documented shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from connectors.classify import Object, child, children, text
from connectors.hubspot_records import Search, record_id
from connectors.reading import Reader
from connectors.transport import Request

MAX_PAGES = 100
"""HubSpot's search ends at ten thousand hits."""


def read_record(reader: Reader, request: Request) -> Object | None:
    """The record, or None if HubSpot says that there is none. Raises ReadFailed, or Throttled."""
    record = reader.found(request)
    if record is None:
        return None
    return _whole(reader, record)


def read_hits(reader: Reader, search: Search) -> Iterator[Object]:
    """Every page of what the lagging index shows. Raises ReadFailed if any of them cannot be read, or Throttled."""
    after: str | None = None
    for _ in range(MAX_PAGES):
        answer = reader.required(search.request(after))
        if not isinstance(answer.get("results"), list):
            raise reader.failed("unreadable_list")
        yield from (_whole(reader, record) for record in children(answer, "results"))
        after = text(child(child(answer, "paging"), "next"), "after")
        if after is None:
            return
    raise reader.failed("too_many_pages")


def _whole(reader: Reader, record: Object) -> Object:
    if record_id(record) is None or not isinstance(record.get("properties"), Mapping):
        raise reader.failed("unreadable_record")
    return record
