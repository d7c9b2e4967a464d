"""A hold is of the credential that was refused: put another in its place and all goes on, told or not."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from functools import partial

import pytest
from eventually import eventually
from sending import REFUSED, granted, permitted, ready
from store_builder import Book

from business_store.actors import Actor
from business_store.credentials import renew
from business_store.limits import CREDENTIAL_REFUSED, hold
from connectors.stripe import Stripe
from connectors.transport import Transport
from domain.credentials import Account
from domain.operations import Granted, Line, Looked
from domain.signals import Finding, Found
from sweep.holds import Holds

OLD, NEW = "sk_live_old", "sk_live_new"


def mark_of(token: str) -> str:
    with closing(Transport("http://127.0.0.1:9", token)) as transport:
        return transport.credential_mark()


@pytest.fixture
def two(book: Book, reviewer: Actor) -> Iterator[list[str]]:
    """Two runs that could be sent; the first was refused with the old token."""
    book.mark = mark_of(OLD)
    runs = ready(book, reviewer, 2)
    book.answer(runs[0], book.permit(runs[0]), REFUSED)
    assert not granted(book, runs[1])
    yield runs
    assert book.audit() == []


def lifted(book: Book, token: str) -> int:
    """What the sweep of a process does that has this token; it sends nothing."""
    with closing(Stripe("http://127.0.0.1:9", token)) as stripe:
        return Holds(book.store, {"stripe": stripe}).once()


def in_turn(book: Book, run_id: str) -> Granted:
    """The permit that comes after a hold, one run after the other."""
    return eventually(partial(permitted, book, run_id))


def held(book: Book) -> list[str | None]:
    return [row.held for row in book.rows("SELECT held FROM shared_limit")]


def test_another_token_ends_the_hold_and_the_refused_one_does_not(book: Book, two: list[str]) -> None:
    assert (lifted(book, OLD), held(book)) == (0, [CREDENTIAL_REFUSED])
    book.refused(two[1])
    assert (lifted(book, NEW), held(book)) == (1, [None])
    assert lifted(book, NEW) == 0
    nudged = book.rows("SELECT nudge > nudge_seen AS told FROM run WHERE id = :run", run=two[1])
    assert [row.told for row in nudged] == [True]
    assert in_turn(book, two[1])


def test_a_process_that_still_has_the_refused_token_holds_nobody(
    book: Book, two: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    lifted(book, NEW)
    permit = in_turn(book, two[1])
    caplog.clear()
    book.answer(two[1], permit, REFUSED)
    assert (held(book), caplog.messages) == ([None], [])
    assert lifted(book, NEW) == 0


def test_a_token_that_is_refused_too_is_held_as_well(book: Book, two: list[str]) -> None:
    lifted(book, NEW)
    book.mark = mark_of(NEW)
    book.answer(two[1], in_turn(book, two[1]), REFUSED)
    assert (held(book), lifted(book, NEW), lifted(book, OLD)) == ([CREDENTIAL_REFUSED], 0, 0)
    assert (lifted(book, "sk_live_third"), held(book)) == (1, [None])


def test_a_token_that_was_put_back_is_held_when_it_is_refused_again(book: Book, two: list[str]) -> None:
    lifted(book, NEW)
    assert lifted(book, OLD) == 0
    book.answer(two[1], in_turn(book, two[1]), REFUSED)
    assert held(book) == [CREDENTIAL_REFUSED]


def test_a_persons_word_is_for_the_same_token_too(book: Book, two: list[str]) -> None:
    assert book.store.once(lambda connection: renew(connection, "stripe", None)) == [""]
    book.answer(two[1], in_turn(book, two[1]), REFUSED)
    assert held(book) == [CREDENTIAL_REFUSED]


def test_a_hold_that_names_no_credential_waits_for_a_person(book: Book) -> None:
    book.store.write(lambda connection: hold(connection, Account("stripe"), CREDENTIAL_REFUSED))
    assert (lifted(book, NEW), held(book)) == (0, [CREDENTIAL_REFUSED])


def test_nothing_of_a_token_is_in_the_store(book: Book, two: list[str]) -> None:
    stored = str(book.rows("SELECT * FROM shared_limit"))
    assert mark_of(OLD) in stored
    assert mark_of(OLD) != mark_of(NEW)
    assert [each for each in (OLD, hashlib.sha256(OLD.encode()).hexdigest()[:32]) if each in stored] == []
    assert OLD not in repr((Stripe("http://127.0.0.1:9", OLD), mark_of(OLD)))


def looked(book: Book, run_id: str, finding: Finding) -> None:
    """A look-up for the account that came to this."""
    permitted = book.permit(run_id)
    found = Looked("probe-1", permitted.sendable.key, book.facts(run_id).now, finding, permitted.sendable.account)
    line = Line(permitted.sendable.key, book.contracts["create-account"])
    book.ledger.save_probe(book.call(run_id, "create-account"), book.process, found, line)


def test_a_look_up_holds_all_runs_too(book: Book, reviewer: Actor) -> None:
    first, second = ready(book, reviewer, 2)
    looked(book, first, Finding(Found.FAILED, "unauthenticated"))
    assert book.refused(second).run.reason == CREDENTIAL_REFUSED


def test_c62_a_look_up_that_meets_a_limit_slows_all_runs(book: Book, reviewer: Actor) -> None:
    first, second = ready(book, reviewer, 2)
    looked(book, first, Finding(Found.FAILED, "throttled", retry_after=timedelta(minutes=1)))
    assert book.refused(second).run.reason == "throttled"
