"""A store without engine, as the tests of the store have it."""

from collections.abc import Iterator

import pytest
from databases import Database
from store_builder import Book


@pytest.fixture
def book(database: Database) -> Iterator[Book]:
    made = Book(database)
    try:
        yield made
    finally:
        made.close()
