"""A store that is older than it is, and its contents erased as the retention role does it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from store_builder import Book

from business_store.database import Store
from business_store.erasing import Erasure, ErasureAsked, erase

YEAR = timedelta(days=365)
AGE = timedelta(days=400)
TIMES = """
    SELECT c.table_name, array_agg(c.column_name::text) FROM information_schema.columns c
    JOIN information_schema.tables t USING (table_schema, table_name)
    WHERE c.table_schema = 'public' AND c.data_type LIKE 'timestamp%' AND t.table_type = 'BASE TABLE'
    AND c.table_name <> 'event' GROUP BY 1
"""


def age(book: Book, by: timedelta = AGE) -> None:
    """As if everything had happened that much earlier. Times of events stay: their hashes hold them."""
    with book.forged() as connection:
        for table, names in connection.execute(TIMES).fetchall():
            shifted = ", ".join(f"{name} = {name} - %(by)s::interval" for name in names)
            connection.execute(f"UPDATE {table} SET {shifted}".encode(), {"by": by})


@contextmanager
def retention(book: Book) -> Iterator[Store]:
    """The store as the retention role sees it."""
    store = Store(book.database.retention_url, 1)
    try:
        yield store
    finally:
        store.close()


def erased(book: Book, older_than: timedelta = YEAR) -> Erasure:
    """One erasure of what was over for that long."""
    with retention(book) as store:
        return erase(store, ErasureAsked("renate", "retention", older_than))


def still_there(book: Book) -> dict[str, int]:
    """Contents that were not erased, by table."""
    return dict(map(tuple, book.rows("SELECT held_in, count(*) FROM payload WHERE NOT gone GROUP BY 1 ORDER BY 1")))
