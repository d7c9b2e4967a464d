"""One book for each test, on a database of its own."""

from collections.abc import Iterator

import pytest
from databases import Database
from store_builder import Book

from business_store.actors import Actor


@pytest.fixture
def book(database: Database) -> Iterator[Book]:
    made = Book(database)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def reviewer(book: Book) -> Actor:
    """A supervisor who made and asked for nothing."""
    return book.person("sonja", "supervisor")


@pytest.fixture
def operator(book: Book) -> Actor:
    return book.person("olaf", "operator")
