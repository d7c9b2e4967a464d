"""The fields that join what different processes say about one run: in every log line and span, never in a payload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

JOINING = ("run", "subject", "operation", "correlation")
"""Our run id, the CRM record's id, the operation's key, and the id that a trigger gave to all that follows from it."""

_fields: ContextVar[Mapping[str, str]] = ContextVar("joining", default=MappingProxyType({}))


def fields() -> Mapping[str, str]:
    """The joining fields of what is being done now, by name."""
    return _fields.get()


@contextmanager
def joined(**known: str) -> Iterator[None]:
    """Everything logged or traced inside carries these fields too; empty ones are left out."""
    token = _fields.set({**_fields.get(), **{name: text for name, text in known.items() if text}})
    try:
        yield
    finally:
        _fields.reset(token)
