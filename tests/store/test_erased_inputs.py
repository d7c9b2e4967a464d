"""What still happens to a request whose inputs were erased: changes in the CRM, repairs, amendments."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from keeping import age, erased
from store_builder import VALUES, Book, changed

from business_store.actors import Actor
from business_store.facts import locked_facts
from business_store.requests import open_repair
from business_store.versions import record_snapshot
from domain.approvals import Outcome
from domain.deliveries import Change
from domain.effects import inputs_of
from domain.errors import ContentErased
from domain.resolutions import Action
from domain.states import RunKind
from sweep.closed_requests import ClosedRequests


@pytest.fixture
def failed(book: Book, reviewer: Actor) -> str:
    """A run that was turned down long ago; its inputs are erased."""
    run_id = book.accept_trigger()
    book.snapshot(run_id)
    book.decide(run_id, reviewer, Outcome.REJECTED)
    book.look(run_id)
    age(book)
    erased(book)
    return run_id


def _repair(book: Book, run_id: str) -> str:
    return book.store.write(lambda connection: open_repair(connection, run_id, book.process, RunKind.REPAIR))


def _read(book: Book, run_id: str, **changes: str | None) -> None:
    """As the sweep records what the CRM says of a request without an open run."""
    taken = book.taken(run_id, **changes)
    book.store.write(lambda c: record_snapshot(c, locked_facts(c, run_id), book.process, taken))


def test_the_same_values_again_bring_nothing_back(book: Book, failed: str) -> None:
    _read(book, failed)
    assert [stored.canonical for stored in book.facts(failed).versions] == [None]


def test_a_change_after_the_end_is_a_version_of_its_own(book: Book, failed: str) -> None:
    _read(book, failed, iban="DE02120300000000202051")
    first, second = book.facts(failed).versions
    assert (first.canonical, second.version.number) == (None, 2)
    assert second.canonical is not None
    assert book.audit() == []


def test_a_repair_reads_anew_asks_anew_and_goes_on(book: Book, reviewer: Actor, failed: str) -> None:
    """The CRM says what it said then: an approval needs bytes that a person can see."""
    repair = _repair(book, failed)
    assert book.snapshot(repair).run.state == "awaiting_review"
    first, second = book.facts(repair).versions
    assert first.version.fingerprint == second.version.fingerprint
    assert [review.version for review in book.facts(repair).reviews] == [2]
    book.decide(repair, reviewer)
    book.look(repair)
    book.carry_out(repair)
    assert book.agree(repair).run.state == "succeeded"
    assert book.audit() == []


def test_a_repair_of_inputs_that_nobody_sends_again_is_for_an_operator(
    book: Book, reviewer: Actor, operator: Actor, failed: str
) -> None:
    repair = _repair(book, failed)
    standing = book.begin(book.call(repair), None)
    run = standing.run
    assert (run.state, run.reason, run.next_owner) == ("needs_operator", "inputs_erased", "operator")
    book.resolve(repair, operator, Action.RETRY)
    assert book.snapshot(repair).run.state == "awaiting_review"
    assert book.audit() == []


def test_inputs_that_were_erased_are_refused_by_name(book: Book, failed: str) -> None:
    stored = book.facts(failed).versions[0]
    with pytest.raises(ContentErased) as refused:
        inputs_of(stored, book.process)
    assert refused.value.as_dict()["error"] == "content_erased"


def _amended(book: Book, reviewer: Actor, inputs: Mapping[str, str | None]) -> str:
    """An onboarded partner's request whose inputs were erased, then amended by a message that holds these."""
    run_id = book.straight(reviewer)
    age(book)
    erased(book)
    book.deliver(changed(dedupe_key="evt-later", change=Change.PROPERTY, inputs=inputs))
    processes = {book.process.name: book.process}
    ClosedRequests(book.store, {}, processes).read(book.run(run_id).request_id)
    return run_id


def test_an_amendment_that_names_everything_is_a_whole_version(book: Book, reviewer: Actor) -> None:
    run_id = _amended(book, reviewer, {**VALUES, "iban": "DE02120300000000202051"})
    first, second = book.facts(run_id).versions
    assert (first.canonical, second.problems) == (None, ())
    assert inputs_of(second, book.process).iban == "DE02120300000000202051"


def test_what_an_amendment_leaves_out_is_missing_where_the_former_inputs_are_gone(book: Book, reviewer: Actor) -> None:
    """And since nothing can be compared, it counts as material: a revision is opened."""
    run_id = _amended(book, reviewer, {"phone": "+49 30 5550111"})
    missing = {problem.split(":")[0] for problem in book.facts(run_id).versions[1].problems}
    assert {"name", "iban", "country"} <= missing
    assert [row.kind for row in book.rows("SELECT kind FROM run ORDER BY number")] == ["original", "revision"]
    assert book.audit() == []
