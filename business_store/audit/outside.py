"""Which runs stand outside: the newest of each request, page by page, for comparing it with CRM and provider."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection, text

from business_store.database import Store

PAGE = 500

NEWEST = text("""
    SELECT DISTINCT ON (request_id) request_id, id, projected_seq = seq FROM run
    WHERE kind <> 'rehearsal' AND request_id > :after ORDER BY request_id, number DESC LIMIT :page
""")


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
