"""A limit that one run meets is every run's: durable, in turns, fair; a hold is said once and ends for all."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

import pytest
from eventually import eventually
from sending import REFUSED, granted, permitted, ready, throttled
from store_builder import Book
from store_writes import ANSWERS
from together import together

from business_store.actors import Actor
from business_store.credentials import renew
from business_store.limits import GAP, limit_hit
from domain.credentials import Account
from domain.states import RunState

STRIPE = Account("stripe")


def turns(book: Book) -> dict[str, datetime]:
    return {row.run_id: row.turn for row in book.rows("SELECT run_id, turn FROM limit_turn ORDER BY turn")}


def test_c62_a_limit_met_by_one_run_gives_the_others_turns_in_order(book: Book, reviewer: Actor) -> None:
    first, *others = ready(book, reviewer, 6)
    book.answer(first, book.permit(first), throttled(600))
    opens = book.rows("SELECT opens_at FROM shared_limit")[0].opens_at
    for run_id in others:
        standing = book.refused(run_id)
        assert (standing.run.state, standing.run.reason) == (RunState.RETRYING, "throttled")
        assert standing.until == turns(book)[run_id]
    assert list(turns(book)) == others
    given = list(turns(book).values())
    assert given == [opens + GAP * place for place in range(5)]
    assert [book.refused(run_id).until for run_id in others] == given
    for place, run_id in enumerate(others):
        comes(book, run_id)
        assert [granted(book, each) for each in others[place:]] == [True] + [False] * (4 - place)
    assert (book.count("attempt"), book.count("limit_turn")) == (6, 0)
    assert book.audit() == []


def comes(book: Book, run_id: str) -> None:
    """This run's turn is now; everybody else's is not."""
    with book.forged() as superuser:
        superuser.execute("UPDATE limit_turn SET turn = clock_timestamp() WHERE run_id = %s", [run_id])


def test_c62_whoever_asks_again_and_again_gets_no_earlier_turn(book: Book, reviewer: Actor) -> None:
    first, greedy, patient = ready(book, reviewer, 3)
    book.answer(first, book.permit(first), throttled(60))
    book.refused(patient)
    for _ in range(5):
        book.refused(greedy)
    assert list(turns(book)) == [patient, greedy]


def test_c62_a_later_shorter_wait_does_not_shorten(book: Book, reviewer: Actor) -> None:
    first, second = ready(book, reviewer, 2)
    both = [(run_id, book.permit(run_id)) for run_id in (first, second)]
    book.answer(*both[0], throttled(300))
    opens = book.rows("SELECT opens_at FROM shared_limit")[0].opens_at
    book.answer(*both[1], throttled(1))
    assert book.rows("SELECT opens_at FROM shared_limit")[0].opens_at == opens


def test_c62_a_limit_met_again_moves_every_turn_behind_it_in_their_order(book: Book, reviewer: Actor) -> None:
    first, second, *others = ready(book, reviewer, 6)
    both = [(run_id, book.permit(run_id)) for run_id in (first, second)]
    book.answer(*both[0], throttled(600))
    for run_id in others:
        book.refused(run_id)
    before = turns(book)
    book.answer(*both[1], throttled(6000))
    after, opens = turns(book), book.rows("SELECT opens_at FROM shared_limit")[0].opens_at
    assert list(after) == list(before)
    moved = {after[run_id] - before[run_id] for run_id in others}
    assert len(moved) == 1
    assert min(after.values()) == opens
    assert book.refused(others[-1]).until == after[others[-1]]


def test_c62_a_pace_that_proved_too_fast_is_halved(book: Book) -> None:
    for wait in (0, 0):
        book.store.write(lambda c, wait=wait: limit_hit(c, STRIPE, timedelta(seconds=wait)))  # type: ignore[misc]
    before = book.rows("SELECT gap FROM shared_limit")[0].gap
    with book.forged() as superuser:
        superuser.execute("UPDATE shared_limit SET next_turn = now() + interval '1 minute'")
    book.store.write(lambda connection: limit_hit(connection, STRIPE, timedelta(0)))
    assert book.rows("SELECT gap FROM shared_limit")[0].gap == 2 * before


def test_c62_every_turn_that_meets_no_limit_brings_the_later_ones_closer_again(book: Book, reviewer: Actor) -> None:
    first, *others = ready(book, reviewer, 6)
    book.answer(first, book.permit(first), throttled(600))
    gaps = []
    with book.forged() as superuser:
        superuser.execute("UPDATE shared_limit SET gap = interval '300 milliseconds'")
    for run_id in others:
        book.refused(run_id)
    for run_id in others[:3]:
        comes(book, run_id)
        assert granted(book, run_id)
        gaps.append(book.rows("SELECT gap FROM shared_limit")[0].gap)
    assert gaps == [timedelta(milliseconds=240), GAP, GAP]


def test_c62_another_account_of_the_same_system_goes_on(book: Book, reviewer: Actor) -> None:
    (run_id,) = ready(book, reviewer, 1)
    book.store.write(lambda connection: limit_hit(connection, Account("stripe", "another"), timedelta(hours=1)))
    assert granted(book, run_id)


def test_c62_many_at_once_get_a_turn_each(book: Book, reviewer: Actor) -> None:
    first, *others = ready(book, reviewer, 7)
    book.answer(first, book.permit(first), throttled(60))
    outcomes = together([partial(book.refused, run_id) for run_id in others])
    assert not [each for each in outcomes if isinstance(each, Exception)]
    assert len(set(turns(book).values())) == 6
    assert book.audit() == []


# A credential that is refused.


def test_a_refused_credential_holds_all_runs_once(
    book: Book, reviewer: Actor, caplog: pytest.LogCaptureFixture
) -> None:
    first, second, *others = ready(book, reviewer, 8)
    both = [(run_id, book.permit(run_id)) for run_id in (first, second)]
    for at in both:
        book.answer(*at, REFUSED)
    for _ in range(3):
        for run_id in others:
            standing = book.refused(run_id)
            assert (standing.run.state, standing.run.reason) == (RunState.RETRYING, "credential_refused")
    assert eventually(lambda: book.refused(first).run.reason == "credential_refused")
    events = book.rows("SELECT run_id FROM event WHERE reason = 'credential_refused'")
    assert len(events) == len({row.run_id for row in events}) == 7
    assert len([each for each in caplog.messages if "credential" in each]) == 1
    assert (book.count("notification WHERE state = 'needs_operator'"), book.count("attempt")) == (0, 2)
    assert [row.held for row in book.rows("SELECT held FROM shared_limit")] == ["credential_refused"]
    assert book.audit() == []


def test_renewed_they_go_on_by_themselves_one_after_the_other(book: Book, reviewer: Actor) -> None:
    first, *others = ready(book, reviewer, 5)
    book.answer(first, book.permit(first), REFUSED)
    for run_id in others:
        book.refused(run_id)
    eventually(lambda: book.refused(first).run.reason == "credential_refused")
    assert book.store.once(lambda connection: renew(connection, "stripe", None)) == [""]
    assert book.store.once(lambda connection: renew(connection, "stripe", None)) == []
    assert {row.nudge > row.nudge_seen for row in book.rows("SELECT nudge, nudge_seen FROM run")} == {True}
    for run_id in (first, *others):
        permit = eventually(partial(permitted, book, run_id))
        book.answer(run_id, permit, ANSWERS["accepted"])
    assert {op.outcome for run_id in (first, *others) for op in book.facts(run_id).operations} == {"accepted"}
    assert book.audit() == []
