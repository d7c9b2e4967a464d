"""Which runs stand outside: the newest of each request, page by page, for comparing it with CRM and provider."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import cast

from sqlalchemy import Connection, text

from business_store.database import Store

PAGE = 500

NEWEST = text("""
    SELECT DISTINCT ON (request_id) request_id, id, projected_seq = seq FROM run
    WHERE kind <> 'rehearsal' AND request_id > :after ORDER BY request_id, number DESC LIMIT :page
""")


SINCE = text("SELECT coalesce(min(created_at), clock_timestamp()) FROM request")
KNOWN = text("SELECT key FROM operation WHERE key = ANY(:keys)")


@dataclass(frozen=True, slots=True)
class Standing:
    """The newest run of a request; `shown`: the CRM has been told where it stands."""

    request_id: str
    run_id: str
    shown: bool


def standing_outside(store: Store) -> Iterator[Standing]:
    """Every request that has a run, in a short read for each page: outside reads take as long as they take."""
    page = store.read(lambda connection: _page(connection, ""))
    while page:
        yield from page
        page = store.read(partial(_page, after=page[-1].request_id))


def _page(connection: Connection, after: str) -> list[Standing]:
    return [Standing(*row) for row in connection.execute(NEWEST, {"after": after, "page": PAGE})]


def beginning(connection: Connection) -> datetime:
    """Before the first request nothing of ours was made; now, where there is none."""
    return cast(datetime, connection.execute(SINCE).scalar_one())


def known_operations(connection: Connection, keys: Sequence[str]) -> frozenset[str]:
    """Those of these keys that an operation has: it is written before it is sent, so a record never comes before it."""
    return frozenset(connection.execute(KNOWN, {"keys": list(keys)}).scalars())
