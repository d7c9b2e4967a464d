"""What arrives twice, out of order, or under a merged id makes one request and one run."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from eventually import eventually
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from store_builder import VALUES, Book, changed, company
from together import together

from business_store.actors import Actor
from business_store.intake import Accepted
from business_store.requests import (
    AlreadyExists,
    Asked,
    NewRequest,
    insert_run,
    open_repair,
    request_for_key,
    start_run,
)
from domain.deliveries import Change, Delivery, Disposition
from domain.errors import SameKeyOtherContent
from domain.process import snapshot_of
from domain.states import RunKind, RunState

LATER = changed(dedupe_key="evt-later", property_name="iban", property_value="DE02120300000000202051")
CREATED = changed(dedupe_key="evt-created", change=Change.CREATED, property_name="", property_value=None)


def _start(book: Book, object_id: str = "501", *, rehearsal: bool = False) -> tuple[str, bool]:
    asked = Asked(book.process, company(object_id), "counterfoil", rehearsal=rehearsal)
    return book.store.write(lambda connection: start_run(connection, asked))


def test_c01_one_delivery_eight_times_at_once(book: Book) -> None:
    outcomes = together([lambda: book.deliver(changed())[0]] * 8)
    assert all(isinstance(outcome, Accepted) for outcome in outcomes)
    started = [o for o in outcomes if isinstance(o, Accepted) and o.disposition is Disposition.STARTED]
    assert len(started) == 1
    tables = ("delivery", "request", "run", "event", "receipt")
    assert {table: book.count(table) for table in tables} == dict.fromkeys(tables, 1)
    assert book.audit() == []


def test_c01_again_and_again_and_once_more_after_the_end(book: Book, reviewer: Actor) -> None:
    run_id = book.straight(reviewer)
    before = book.rows("SELECT to_jsonb(run) FROM run")
    for _ in range(46):
        assert book.deliver(changed())[0].disposition is Disposition.DUPLICATE
    assert (book.rows("SELECT to_jsonb(run) FROM run"), book.count("delivery")) == (before, 1)
    assert book.run(run_id).state is RunState.SUCCEEDED


def test_c22_eight_starts_of_one_key_at_once(book: Book) -> None:
    """Eight different deliveries about one record: one original, whose id the others get."""
    works = [partial(book.deliver, changed(dedupe_key=f"evt-{number}")) for number in range(8)]
    outcomes = [outcome[0] for outcome in together(works) if isinstance(outcome, list)]
    assert [o.disposition for o in outcomes].count(Disposition.STARTED) == 1
    assert len({o.run_id for o in outcomes}) == 1
    assert {o.reason for o in outcomes if o.disposition is not Disposition.STARTED} == {"already_exists"}
    assert (book.count("request"), book.count("run"), len(outcomes)) == (1, 1, 8)
    assert book.audit() == []


def test_c22_starts_by_hand_at_once_and_after_success(book: Book, reviewer: Actor) -> None:
    outcomes = together([lambda: _start(book)] * 8)
    assert sorted(outcome[1] for outcome in outcomes if isinstance(outcome, tuple)) == [False] * 7 + [True]
    run_id = _start(book)[0]
    book.approved(run_id, reviewer)
    book.carry_out(run_id)
    book.agree(run_id)
    assert _start(book) == (run_id, False)
    assert book.count("run") == 1


def test_c22_a_rehearsal_runs_beside_and_occupies_nothing(book: Book) -> None:
    rehearsal, made = _start(book, rehearsal=True)
    run_id = book.accept_trigger()
    second, made_too = _start(book, rehearsal=True)
    assert (made, made_too) == (True, True)
    assert len({rehearsal, run_id, second}) == 3
    assert [row.kind for row in book.rows("SELECT kind FROM run ORDER BY number")] == [
        "rehearsal",
        "original",
        "rehearsal",
    ]
    assert book.count("request") == 1


def test_c22_a_repair_only_when_nothing_is_open(book: Book, reviewer: Actor) -> None:
    run_id = book.straight(reviewer)

    def repair() -> str:
        return book.store.write(lambda connection: open_repair(connection, run_id, book.process, RunKind.REPAIR))

    outcomes = together([repair] * 4)
    assert len([each for each in outcomes if isinstance(each, str)]) == 1
    assert {type(each) for each in outcomes} == {str, AlreadyExists}


# C06: any order of create and update makes one run of the newest details.


@pytest.mark.parametrize(
    "order",
    [
        [CREATED, changed(), LATER],
        [LATER, changed(), CREATED],
        [changed(), LATER, CREATED],
        [LATER, CREATED, changed()],
    ],
    ids=["created-first", "update-first", "update-between", "trigger-last"],
)
def test_c06_orders(book: Book, order: list[Delivery]) -> None:
    for element in order:
        book.deliver(element)
    assert (book.count("run"), book.count("request"), book.count("delivery")) == (1, 1, 3)
    (run_id,) = [row.id for row in book.rows("SELECT id FROM run")]
    newest = str(LATER.property_value)
    book.snapshot(run_id, iban=newest)
    assert newest.encode() in (book.facts(run_id).versions[-1].canonical or b"")
    assert book.rows("SELECT id FROM delivery WHERE disposition = 'pending_read'") == []


def test_c06_all_in_parallel(book: Book) -> None:
    outcomes = together([partial(book.deliver, element) for element in (CREATED, changed(), LATER)])
    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert (book.count("run"), book.count("delivery")) == (1, 3)


# C19: absent, null and empty are one thing: not given.


@pytest.mark.parametrize("iban", [None, ""])
def test_c19_a_cleared_field_is_a_new_version_that_nobody_approved(
    book: Book, reviewer: Actor, iban: str | None
) -> None:
    run_id = book.accept_trigger()
    book.approved(run_id, reviewer)
    standing = book.snapshot(run_id, iban=iban)
    assert (standing.run.state, standing.run.reason) == ("waiting", "inputs_incomplete")
    assert book.facts(run_id).versions[-1].version.number == 2


def test_c19_null_and_empty_and_absent_are_one_version(book: Book) -> None:
    run_id = book.accept_trigger()
    book.snapshot(run_id, phone=None)
    book.snapshot(run_id, phone="")
    taken = book.taken(run_id)
    absent = {name: value for name, value in VALUES.items() if name != "phone"}
    book.begin(book.call(run_id), replace(taken, snapshot=snapshot_of(book.process.inputs, absent)))
    assert book.count("input_version") == 1


def test_c19_an_unchanged_record_adds_nothing(book: Book) -> None:
    run_id = book.accept_trigger()
    book.snapshot(run_id)
    events = book.count("event")
    book.deliver(LATER)
    book.snapshot(run_id)
    assert (book.count("input_version"), book.count("event")) == (1, events)
    assert [row.disposition for row in book.rows("SELECT disposition FROM delivery ORDER BY id")] == ["started", "echo"]


# C20: a merge gives the survivor a new id; the request keeps its key.


def merged(into: str, *former: str) -> Delivery:
    return changed(
        into,
        dedupe_key=f"merge-{into}",
        change=Change.MERGED,
        property_name="",
        property_value=None,
        merged_from=tuple(company(object_id) for object_id in former),
    )


def test_c20_the_request_follows_its_record(book: Book) -> None:
    run_id = book.accept_trigger("202")
    key = book.run(run_id).business_key
    (outcome,) = book.deliver(merged("305", "202", "201"))
    assert (outcome.disposition, outcome.run_id) == (Disposition.PENDING_READ, run_id)
    assert (book.facts(run_id).subject, book.run(run_id).business_key) == (company("305"), key)
    links = book.rows("SELECT object_id, live FROM subject_link ORDER BY object_id")
    assert [tuple(link) for link in links] == [("202", False), ("305", True)]


def test_c20_no_second_run_for_the_survivor(book: Book) -> None:
    run_id = book.accept_trigger("202")
    book.deliver(merged("305", "202", "201"))
    (again,) = book.deliver(changed("305"))
    assert (again.run_id, again.reason, book.count("request")) == (run_id, "already_exists", 1)
    (update,) = book.deliver(changed("305", dedupe_key="upd", property_name="iban"))
    assert update.run_id == run_id


def test_c20_changed_values_need_a_new_approval(book: Book, reviewer: Actor) -> None:
    run_id = book.accept_trigger("202")
    book.approved(run_id, reviewer)
    book.deliver(merged("305", "202", "201"))
    standing = book.snapshot(run_id, iban="DE02120300000000202051")
    assert standing.run.state is RunState.AWAITING_REVIEW


def test_c20_a_read_that_follows_the_record_relinks_too(book: Book) -> None:
    """The merge was never told; the read was answered by the survivor."""
    run_id = book.accept_trigger("202")
    book.begin(book.call(run_id), replace(book.taken(run_id), live=company("305")))
    assert book.facts(run_id).subject == company("305")
    (again,) = book.deliver(changed("305"))
    assert again.run_id == run_id


def test_c20_two_open_runs_in_one_record_are_for_a_person(book: Book, reviewer: Actor) -> None:
    first, second = book.accept_trigger("201"), book.accept_trigger("202")
    book.approved(first, reviewer)
    book.deliver(merged("305", "201", "202"))
    assert book.facts(first).subject == book.facts(second).subject == company("305")
    for standing in (book.refused(first), book.snapshot(second)):
        assert (standing.run.state, standing.run.reason) == ("needs_operator", "subjects_merged")
    assert book.count("attempt") == 0
    assert book.audit() == []


def test_c20_crossing_merges_lose_nothing(book: Book) -> None:
    """Both take the request locks in id order, whichever record they name first."""
    book.accept_trigger("201")
    book.accept_trigger("202")
    other = replace(merged("306", "202", "201"), dedupe_key="merge-other")
    for _ in range(5):
        outcomes = together([lambda: book.deliver(merged("305", "201", "202")), lambda: book.deliver(other)])
        assert not [each for each in outcomes if isinstance(each, Exception)]
    live = book.rows("SELECT count(*) FROM subject_link WHERE live GROUP BY request_id")
    assert [row[0] for row in live] == [1, 1]


# C96: insert-or-get gives the row in both cases.


def test_c96_the_second_caller_gets_the_first_ones_row(book: Book) -> None:
    ids = [
        book.store.write(
            lambda connection: request_for_key(connection, NewRequest(book.process, " key ", "counterfoil"))
        )
        for _ in range(2)
    ]
    assert len(set(ids)) == 1
    assert _start(book)[0] == _start(book)[0]


@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_c96_while_the_first_is_uncommitted(book: Book, ending: str) -> None:
    """The second waits; after a commit it gets the first one's id, after a rollback it makes its own."""
    with book.store.engine.connect() as first:
        request_id = request_for_key(first, NewRequest(book.process, "key", "counterfoil"))
        run_id = insert_run(first, request_id, book.process, RunKind.ORIGINAL, "cor-1")

        def second() -> tuple[str, str | None]:
            def made(connection: Connection) -> tuple[str, str | None]:
                found = request_for_key(connection, NewRequest(book.process, "key", "counterfoil"))
                return found, insert_run(connection, found, book.process, RunKind.ORIGINAL, "cor-2")

            return book.store.write(made)

        def end() -> tuple[str, str | None]:
            _wait_until_blocked(book)
            getattr(first, ending)()
            return "", None

        got, _ = together([second, end])
    assert isinstance(got, tuple), got
    assert got[0] == request_id
    assert (got[1] is None) is (ending == "commit")
    assert (book.count("request"), [row.id for row in book.rows("SELECT id FROM run")]) == (1, [run_id])


def _wait_until_blocked(book: Book) -> None:
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    eventually(lambda: book.rows(waiting)[0][0] > 0)


def test_c96_twelve_at_once_get_one_id(book: Book) -> None:
    def key(connection: Connection) -> str:
        return request_for_key(connection, NewRequest(book.process, "key", "counterfoil"))

    got = together([lambda: book.store.write(key)] * 12)
    assert len(set(map(str, got))) == 1
    assert book.count("request") == 1


def test_a_blank_business_key_is_refused_by_the_database_too(book: Book) -> None:
    blank = text("INSERT INTO request (id, process, business_key, requester) VALUES ('r', 'p', '  ', 'counterfoil')")
    with pytest.raises(DBAPIError):
        book.store.write(lambda connection: connection.execute(blank))


def test_a_key_of_another_records_request_is_refused_not_shared(book: Book) -> None:
    def start(object_id: str) -> tuple[str, bool]:
        asked = Asked(book.process, company(object_id), "counterfoil", key="2026-10")
        return book.store.write(lambda connection: start_run(connection, asked))

    first, made = start("501")
    assert made
    with pytest.raises(SameKeyOtherContent):
        start("502")
    assert start("501") == (first, False)
