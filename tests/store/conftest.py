"""One book for each test, on a database of its own."""

from collections.abc import Iterator

import pytest
from databases import Database
from sandboxes import sandbox_process
from store_builder import Book

from business_store.actors import Actor
from sandbox.control import SandboxControl


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


@pytest.fixture(scope="package")
def own_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxControl]:
    """The session's is at work for others and must not be emptied."""
    folder = tmp_path_factory.mktemp("store")
    with sandbox_process(folder / "sandbox.db") as running, SandboxControl(running.url) as control:
        yield control


@pytest.fixture
def sandbox(own_sandbox: SandboxControl) -> SandboxControl:
    own_sandbox.reset()
    return own_sandbox
