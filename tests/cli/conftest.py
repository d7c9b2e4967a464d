"""A store with people in it, and the command over it; neither gateway nor engine is there."""

from collections.abc import Iterator

import pytest
from commands import Counterfoil
from databases import Database
from people import Who, with_token
from store_builder import Book
from world import environment_for

from stack.ports import free_port


@pytest.fixture
def book(database: Database) -> Iterator[Book]:
    made = Book(database)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def counterfoil(database: Database) -> Counterfoil:
    away = f"127.0.0.1:{free_port()}"
    return Counterfoil(environment_for(database, away, f"http://{away}", "cli-tests"))


@pytest.fixture
def supervisor(book: Book) -> Who:
    return with_token(book, "sonja", "supervisor")


@pytest.fixture
def second_supervisor(book: Book) -> Who:
    return with_token(book, "sven", "supervisor")


@pytest.fixture
def operator(book: Book) -> Who:
    return with_token(book, "olaf", "operator")


@pytest.fixture
def second_operator(book: Book) -> Who:
    return with_token(book, "otto", "operator")


@pytest.fixture
def waiting(book: Book) -> str:
    """A run that waits for a decision about version 1."""
    run_id = book.accept_trigger()
    book.snapshot(run_id)
    return run_id
