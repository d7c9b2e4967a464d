"""Reads of HubSpot records that believe only what has the documented shape."""

from __future__ import annotations

from collections.abc import Mapping

from connectors.classify import Object, children
from connectors.hubspot_records import record_id
from connectors.reading import Reader
from connectors.transport import Request


def read_record(reader: Reader, request: Request) -> Object | None:
    """The record, or None if HubSpot says that there is none. Raises ReadFailed, or Throttled."""
    record = reader.found(request)
    if record is None:
        return None
    return _whole(reader, record)


def read_hits(reader: Reader, request: Request) -> tuple[Object, ...]:
    """The first page of what the lagging index shows. Raises ReadFailed, or Throttled."""
    answer = reader.required(request)
    if not isinstance(answer.get("results"), list):
        raise reader.failed("unreadable_list")
    return tuple(_whole(reader, record) for record in children(answer, "results"))


def _whole(reader: Reader, record: Object) -> Object:
    if record_id(record) is None or not isinstance(record.get("properties"), Mapping):
        raise reader.failed("unreadable_record")
    return record
