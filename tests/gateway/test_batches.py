"""What waits for the store together is not refused together, and does not wait for somebody else's lock."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest
from databases import Database
from sqlalchemy.exc import DBAPIError
from store_builder import Book, changed

from business_store.intake import Accepted, Received, accept_all
from business_store.requests import lock_requests
from domain.deliveries import Disposition, Receipt, ReceiptVerdict
from gateway.batches import LARGEST, USUAL, Batches

WITHIN = 60


@pytest.fixture
def book(database: Database) -> Iterator[Book]:
    made = Book(database)
    try:
        yield made
    finally:
        made.close()


def body(object_id: str, key: str = "") -> Received:
    receipt = Receipt("hubspot", f"{object_id} {key}".encode(), ReceiptVerdict.GENUINE)
    return Received(receipt, [changed(object_id, dedupe_key=key or f"evt-{object_id}")])


class Counted:
    """Takes bodies in, and counts the transactions."""

    def __init__(self, book: Book) -> None:
        self.book, self.sizes = book, list[int]()

    def __call__(self, bodies: Sequence[Received]) -> list[list[Accepted]]:
        self.sizes.append(len(bodies))
        return self.book.store.write(lambda connection: accept_all(connection, bodies, [self.book.process]))


async def all_stored(batches: Batches, bodies: Sequence[Received]) -> list[list[Accepted] | BaseException]:
    return await asyncio.wait_for(
        asyncio.gather(*(batches.stored(each) for each in bodies), return_exceptions=True), WITHIN
    )


def test_many_at_once_take_few_transactions_and_each_gets_its_own_answer(book: Book) -> None:
    take = Counted(book)
    bodies = [body(str(number)) for number in range(3 * LARGEST)]
    answers = asyncio.run(all_stored(Batches(take), bodies))
    started = [answer[0] for answer in answers if isinstance(answer, list)]
    assert {each.disposition for each in started} == {Disposition.STARTED}
    assert len({each.run_id for each in started}) == len(bodies) == sum(take.sizes)
    assert max(take.sizes) <= LARGEST
    assert len(take.sizes) < len(bodies) / 10


def test_one_that_cannot_be_stored_is_refused_alone(book: Book) -> None:
    bodies = [body("1"), body("2", key="evt-\x00"), body("3"), body("4")]
    answers = asyncio.run(all_stored(Batches(Counted(book)), bodies))
    assert [isinstance(answer, DBAPIError) for answer in answers] == [False, True, False, False]
    assert book.count("run") == 3


def test_a_lock_that_one_waits_for_holds_the_others_up_for_a_moment_only(book: Book) -> None:
    """More bodies are stuck than are usually under way, each in a transaction of its own."""
    held = [f"9{number}" for number in range(USUAL)]
    for object_id in held:
        book.accept_trigger(object_id, dedupe_key=f"evt-first-{object_id}")
    batches = Batches(Counted(book))

    async def stuck_and_free() -> tuple[bool, list[list[Accepted] | BaseException]]:
        with book.store.engine.begin() as other:
            lock_requests(other, [row.id for row in book.rows("SELECT id FROM request")])
            stuck = []
            for object_id in held:
                stuck.append(asyncio.create_task(batches.stored(body(object_id, key=f"evt-second-{object_id}"))))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            free = await all_stored(batches, [body(str(number)) for number in range(5)])
            waiting = not any(task.done() for task in stuck)
        return waiting, [*free, *await asyncio.gather(*stuck)]

    waiting, answers = asyncio.run(stuck_and_free())
    assert waiting
    assert [answer[0].disposition for answer in answers if isinstance(answer, list)] == [
        *[Disposition.STARTED] * 5,
        *[Disposition.PENDING_READ] * USUAL,
    ]
