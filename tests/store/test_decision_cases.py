"""One answer to one question about one version, by somebody who neither asked for it nor made it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from eventually import eventually
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from store_builder import AMENDER, REQUESTER, STEPS, Book
from together import together

from business_store.actors import Actor, identified, link
from business_store.database import violated
from business_store.decisions import DecisionAsked, RecordedDecision, decide
from business_store.requests import open_repair
from business_store.reviews import ReviewTerms
from domain.approvals import Outcome
from domain.errors import DecisionRefused, InvalidInput, NotAuthorised
from domain.resolutions import Action
from domain.states import RunKind, RunState

OTHER_IBAN = "DE02120300000000202051"


@pytest.fixture
def run_id(book: Book) -> str:
    """A run that waits for a decision about version 1."""
    made = book.accept_trigger()
    book.snapshot(made)
    return made


@pytest.fixture
def second(book: Book) -> Actor:
    return book.person("silke", "supervisor")


def _why(refused: pytest.ExceptionInfo[DecisionRefused] | pytest.ExceptionInfo[NotAuthorised]) -> object:
    return refused.value.fields["why"]


def _logged(book: Book) -> list[tuple[str, str]]:
    return [tuple(row) for row in book.rows("SELECT actor_id, code FROM refused_decision ORDER BY id")]


# C31: approve twice.


def test_c31_one_person_eight_times_at_once(book: Book, run_id: str, reviewer: Actor) -> None:
    outcomes = together([partial(book.decide, run_id, reviewer)] * 8)
    answers = [each for each in outcomes if isinstance(each, RecordedDecision)]
    assert len(answers) == 8
    assert {replace(answer, repeated=True) for answer in answers} == {replace(answers[0], repeated=True)}
    assert [answer.repeated for answer in answers].count(False) == 1
    assert book.count("decision") == 1


def test_c31_eight_people_at_once(book: Book, run_id: str) -> None:
    people = [book.person(f"person-{number}", "supervisor") for number in range(8)]
    outcomes = together([partial(book.decide, run_id, person) for person in people])
    (recorded,) = [each for each in outcomes if isinstance(each, RecordedDecision)]
    refused = [each for each in outcomes if isinstance(each, DecisionRefused)]
    assert {each.fields["why"] for each in refused} == {"already_decided"}
    assert {each.fields["decided_by"] for each in refused} == {recorded.actor_id}
    assert (len(refused), book.count("decision"), book.count("refused_decision")) == (7, 1, 7)


def test_c31_the_same_answer_later_and_one_event(book: Book, run_id: str, reviewer: Actor) -> None:
    first = book.decide(run_id, reviewer)
    book.look(run_id)
    again = book.decide(run_id, reviewer)
    assert again == replace(first, repeated=True)
    book.look(run_id)
    assert len(book.rows("SELECT FROM event WHERE reason = 'approved'")) == 1


def test_c31_a_contradiction_changes_nothing(book: Book, run_id: str, reviewer: Actor, second: Actor) -> None:
    book.decide(run_id, reviewer)
    for person in (reviewer, second):
        with pytest.raises(DecisionRefused) as refused:
            book.decide(run_id, person, Outcome.REJECTED)
        assert (_why(refused), refused.value.fields["decided_by"]) == ("already_decided", "sonja")
        assert "Sonja" in refused.value.message
    assert [row.outcome for row in book.rows("SELECT outcome FROM decision")] == ["approved"]


# C34: approve after expiry, by the database's clock.


def test_c34_after_the_deadline_nothing_is_recorded(book: Book, reviewer: Actor) -> None:
    book.terms = ReviewTerms(deadline=timedelta(milliseconds=300), valid_for=timedelta(days=1))
    run_id = book.accept_trigger()
    book.snapshot(run_id)
    eventually(lambda: book.rows("SELECT deadline < clock_timestamp() AS over FROM review")[0].over)
    before = book.run(run_id)
    with pytest.raises(DecisionRefused) as refused:
        book.decide(run_id, reviewer)
    assert (_why(refused), book.count("decision"), book.run(run_id)) == ("expired", 0, before)
    assert _logged(book) == [("sonja", "expired")]
    assert (book.look(run_id).run.state, book.run(run_id).reason) == ("expired", "review_expired")
    with pytest.raises(DecisionRefused) as over:
        book.decide(run_id, reviewer)
    assert _why(over) == "run_over"
    assert book.audit() == []


# C35: an approval does not outlive the content.


def test_c35_amended_after_approval(book: Book, run_id: str, reviewer: Actor) -> None:
    book.decide(run_id, reviewer)
    book.look(run_id)
    assert book.snapshot(run_id, iban=OTHER_IBAN).run.state is RunState.AWAITING_REVIEW
    assert book.refused(run_id, taken=book.taken(run_id, iban=OTHER_IBAN)).run.state is RunState.AWAITING_REVIEW
    assert book.count("attempt") == 0
    book.decide(run_id, reviewer)
    book.look(run_id)
    assert OTHER_IBAN.encode() in book.permit(run_id).sendable.content
    assert book.audit() == []


def test_c35_amended_and_back_is_a_third_version(book: Book, run_id: str, reviewer: Actor) -> None:
    book.decide(run_id, reviewer)
    book.look(run_id)
    book.snapshot(run_id, iban=OTHER_IBAN)
    assert book.snapshot(run_id).run.state is RunState.AWAITING_REVIEW
    first, _, third = book.facts(run_id).versions
    assert (third.version.number, third.version.fingerprint) == (3, first.version.fingerprint)
    assert (book.count("carry_over"), book.count("attempt")) == (0, 0)


def test_c35_an_immaterial_change_carries_the_approval_over(book: Book, run_id: str, reviewer: Actor) -> None:
    book.decide(run_id, reviewer)
    book.look(run_id)
    assert book.snapshot(run_id, phone="+49 30 999", description="Neu").run.state is RunState.RUNNING
    (ruling,) = book.rows("SELECT * FROM carry_over")
    assert (ruling.version, ruling.changed, ruling.policy_version) == (2, ["description", "phone"], "2026-12")
    assert "iban" in ruling.material
    book.permit(run_id)
    assert book.facts(run_id).operations[0].input_version == 2
    assert book.audit() == []


def test_c35_an_immaterial_change_by_the_approver_does_not(book: Book, run_id: str, reviewer: Actor) -> None:
    book.decide(run_id, reviewer)
    book.look(run_id)
    book.store.write(lambda connection: link(connection, "sonja", AMENDER))
    assert book.snapshot(run_id, phone="+49 30 999").run.state is RunState.AWAITING_REVIEW
    assert book.count("carry_over") == 0


def test_c35_a_ruling_over_a_material_field_is_refused_by_the_database(
    book: Book, run_id: str, reviewer: Actor
) -> None:
    decision = book.decide(run_id, reviewer)
    ruling = text("""
        INSERT INTO carry_over (decision_id, request_id, version, policy_version, material, changed)
        SELECT :decision, request_id, 1, 'p', ARRAY['iban', 'name'], ARRAY['iban'] FROM run
    """)
    with pytest.raises(IntegrityError):
        book.store.write(lambda connection: connection.execute(ruling, {"decision": decision.id}))


# C36: amended during the click: version and fingerprint must match in the transaction.


def test_c36_the_page_showed_the_former_version(book: Book, run_id: str, reviewer: Actor) -> None:
    shown = book.asked(run_id)
    book.snapshot(run_id, iban=OTHER_IBAN)
    with pytest.raises(DecisionRefused) as refused:
        decide(book.store, reviewer, shown, timedelta(days=1))
    assert (_why(refused), refused.value.next_actions) == ("superseded", ("decide on version 2",))
    assert (book.count("decision"), book.run(run_id).state) == (0, RunState.AWAITING_REVIEW)


@pytest.mark.parametrize("forged", [{"fingerprint": "0" * 64}, {"fingerprint": ""}, {"version": 0}, {"version": 7}])
def test_c36_what_does_not_match_is_refused(
    book: Book, run_id: str, reviewer: Actor, forged: dict[str, str | int]
) -> None:
    with pytest.raises(DecisionRefused) as refused:
        decide(book.store, reviewer, replace(book.asked(run_id), **forged), timedelta(days=1))  # type: ignore[arg-type]
    assert (_why(refused), book.count("decision")) == ("other_content", 0)
    assert _logged(book) == [("sonja", "other_content")]


def test_c36_version_two_under_the_first_ones_fingerprint(book: Book, run_id: str, reviewer: Actor) -> None:
    first = book.asked(run_id)
    book.snapshot(run_id, iban=OTHER_IBAN)
    with pytest.raises(DecisionRefused) as refused:
        decide(book.store, reviewer, DecisionAsked(run_id, Outcome.APPROVED, 2, first.fingerprint), timedelta(days=1))
    assert _why(refused) == "other_content"


def test_c36_amend_and_approve_at_once(book: Book, run_id: str, reviewer: Actor) -> None:
    """Whichever comes first, nothing goes out under an approval of other content."""
    amended, shown = book.taken(run_id, iban=OTHER_IBAN), book.asked(run_id)
    recorded, standing = together(
        [
            lambda: decide(book.store, reviewer, shown, timedelta(days=1)),
            lambda: book.begin(book.call(run_id), amended),
        ]
    )
    assert not isinstance(standing, Exception)
    assert isinstance(recorded, RecordedDecision | DecisionRefused)
    book.look(run_id)
    assert book.run(run_id).state is RunState.AWAITING_REVIEW
    assert book.refused(run_id, STEPS[0]).run.state is RunState.AWAITING_REVIEW
    assert book.audit() == []


def test_c36_the_database_refuses_a_decision_about_other_bytes(book: Book, run_id: str, reviewer: Actor) -> None:
    forged = text("""
        INSERT INTO decision (id, review_id, run_id, request_id, version, fingerprint, outcome, actor_id,
            comment_sha256, valid_until)
        SELECT 'd', id, run_id, request_id, version, repeat('0', 64), 'approved', 'sonja', sha256(''), now() FROM review
    """)
    with pytest.raises(IntegrityError):
        book.store.write(lambda connection: connection.execute(forged))


def test_c38_a_decision_recorded_before_anybody_waits(book: Book, run_id: str, reviewer: Actor) -> None:
    """Every hint lost: the next look finds it."""
    book.decide(run_id, reviewer)
    assert book.look(run_id).run.state is RunState.RUNNING
    assert book.look(run_id).run.state is RunState.RUNNING
    assert len(book.rows("SELECT FROM event WHERE reason = 'approved'")) == 1


# C41: a decision on a run that is over.


@pytest.mark.parametrize("outcome", list(Outcome))
@pytest.mark.parametrize("end", ["rejected", "failed", "succeeded"])
def test_c41_terminal_rows_do_not_change(
    book: Book, run_id: str, reviewer: Actor, second: Actor, operator: Actor, end: str, outcome: Outcome
) -> None:
    _ended(book, run_id, reviewer, operator, end)
    before = book.rows("SELECT to_jsonb(run), xmin FROM run")
    with pytest.raises(DecisionRefused) as refused:
        book.decide(run_id, second, outcome)
    assert _why(refused) in ("run_over", "already_decided")
    assert [str(row) for row in book.rows("SELECT to_jsonb(run), xmin FROM run")] == [str(row) for row in before]
    assert [actor for actor, _ in _logged(book)] == ["silke"]


def _ended(book: Book, run_id: str, reviewer: Actor, operator: Actor, end: str) -> None:
    if end == "failed":
        book.ledger.ask_operator(book.call(run_id), book.process, "own_defect")
        book.resolve(run_id, operator, Action.FAIL)
        return
    book.decide(run_id, reviewer, Outcome.REJECTED if end == "rejected" else Outcome.APPROVED)
    book.look(run_id)
    if end == "succeeded":
        book.carry_out(run_id)
        book.agree(run_id)


def test_c41_a_repair_asks_anew(book: Book, run_id: str, reviewer: Actor, second: Actor) -> None:
    book.decide(run_id, reviewer, Outcome.REJECTED)
    book.look(run_id)
    repair = book.store.write(lambda connection: open_repair(connection, run_id, book.process, RunKind.REPAIR))
    assert book.snapshot(repair).run.state is RunState.AWAITING_REVIEW
    assert book.decide(repair, second).run_id == repair
    assert book.run(run_id).state is RunState.FAILED


# C42: nobody approves what they asked for or made.


def test_c42_the_requester(book: Book, run_id: str, reviewer: Actor) -> None:
    book.store.write(lambda connection: link(connection, "sonja", REQUESTER))
    with pytest.raises(NotAuthorised) as refused:
        book.decide(run_id, book.actor("sonja"))
    assert (_why(refused), book.count("decision")) == ("own_work", 0)
    assert _logged(book) == [("sonja", "own_work")]


def test_c42_the_maker_of_the_second_version(book: Book, run_id: str, reviewer: Actor, second: Actor) -> None:
    book.store.write(lambda connection: link(connection, "sonja", AMENDER))
    book.snapshot(run_id, iban=OTHER_IBAN)
    with pytest.raises(NotAuthorised) as refused:
        book.decide(run_id, book.actor("sonja"))
    assert _why(refused) == "own_work"
    assert book.decide(run_id, second).version == 2


def test_c42_a_service_acts_for_its_person(book: Book, run_id: str, reviewer: Actor) -> None:
    book.store.write(lambda connection: link(connection, "sonja", REQUESTER))
    bot = book.person("bot", "supervisor", kind="service", acts_for="sonja")
    with pytest.raises(NotAuthorised) as refused:
        book.decide(run_id, bot)
    assert _why(refused) == "own_work"


def test_c42_a_service_that_made_it_bars_its_person(book: Book, run_id: str, reviewer: Actor) -> None:
    book.person("bot", kind="service", acts_for="sonja")
    book.store.write(lambda connection: link(connection, "bot", AMENDER))
    book.snapshot(run_id, iban=OTHER_IBAN)
    with pytest.raises(NotAuthorised) as refused:
        book.decide(run_id, book.actor("sonja"))
    assert _why(refused) == "own_work"


@pytest.mark.parametrize(
    ("columns", "constraint"),
    [
        ("('x', 'service', 'X', 'bot', NULL)", "actor_acts_for_person"),
        ("('x', 'service', 'X', 'hubspot:1', NULL)", "actor_acts_for_person"),
        ("('x', 'person', 'X', 'sonja', NULL)", "actor_acts_for_person"),
        ("('x', 'placeholder', 'X', NULL, 'hubspot:1')", "actor_merged_into_known"),
    ],
)
def test_c42_nobody_hides_behind_a_second_step(book: Book, reviewer: Actor, columns: str, constraint: str) -> None:
    """Whoever stands behind an actor is found in two steps; a third one would hide the requester."""
    book.person("bot", kind="service", acts_for="sonja")
    book.store.write(lambda connection: identified(connection, "hubspot:1"))
    insert = text(f"INSERT INTO actor (id, kind, name, acts_for, merged_into) VALUES {columns}")
    with pytest.raises(IntegrityError) as refused:
        book.store.write(lambda connection: connection.execute(insert))
    assert violated(refused.value) == constraint


def test_c42_doors_name_who_may_stand_behind_whom(book: Book, reviewer: Actor) -> None:
    book.person("bot", kind="service", acts_for="sonja")
    book.store.write(lambda connection: identified(connection, "hubspot:1"))
    for behind in ("bot", "hubspot:1"):
        with pytest.raises(InvalidInput):
            book.person("clerk", kind="service", acts_for=behind)
    with pytest.raises(InvalidInput):
        book.store.write(lambda connection: link(connection, "hubspot:1", "hubspot:2"))


def test_c42_the_requester_may_reject(book: Book, run_id: str, reviewer: Actor) -> None:
    """Four eyes guard what is sent; taking one's own request back needs nobody."""
    book.store.write(lambda connection: link(connection, "sonja", REQUESTER))
    assert book.decide(run_id, book.actor("sonja"), Outcome.REJECTED).outcome == "rejected"


def test_c42_linked_after_the_approval_bars_the_send(book: Book, run_id: str, reviewer: Actor) -> None:
    """Only later does it turn out that the CRM user who asked is the approver: nothing more is permitted."""
    book.decide(run_id, reviewer)
    book.look(run_id)
    book.store.write(lambda connection: link(connection, "sonja", REQUESTER))
    book.refused(run_id)
    assert (book.look(run_id).run.reason, book.count("attempt")) == ("approver_made_version", 0)


def test_c42_linked_after_the_send_is_for_the_auditor(book: Book, run_id: str, reviewer: Actor) -> None:
    book.decide(run_id, reviewer)
    book.look(run_id)
    granted = book.permit(run_id)
    assert book.audit() == []
    book.store.write(lambda connection: link(connection, "sonja", REQUESTER))
    found = [(each.invariant, each.row, each.detail) for each in book.audit()]
    assert found == [("I7", f"{granted.sendable.key}/1", "approved by its requester")]


def test_c42_without_the_role_or_active_account(book: Book, run_id: str, operator: Actor) -> None:
    for actor in (operator, replace(book.person("left", "supervisor"), active=False)):
        with pytest.raises(NotAuthorised) as refused:
            book.decide(run_id, actor)
        assert _why(refused) == "role_missing"
    assert book.count("decision") == 0


@pytest.mark.parametrize("linked", [REQUESTER, AMENDER])
def test_c42_the_database_refuses_it_too(book: Book, run_id: str, reviewer: Actor, linked: str) -> None:
    book.snapshot(run_id, iban=OTHER_IBAN)
    book.store.write(lambda connection: link(connection, "sonja", linked))
    forged = text("""
        INSERT INTO decision (id, review_id, run_id, request_id, version, fingerprint, outcome, actor_id,
            comment_sha256, valid_until)
        SELECT 'd', id, run_id, request_id, version, fingerprint, 'approved', 'sonja', sha256(''), now()
        FROM review WHERE version = 2
    """)
    with pytest.raises(IntegrityError) as refused:
        book.store.write(lambda connection: connection.execute(forged))
    assert violated(refused.value) == "decision_four_eyes"
