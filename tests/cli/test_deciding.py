"""Decisions from the command line, recorded without gateway and engine."""

from collections.abc import Callable

import pytest
from commands import Counterfoil, Said
from people import Who
from store_builder import REQUESTER, Book

from domain.resolutions import Action


def about(book: Book, run_id: str) -> list[str]:
    newest = book.facts(run_id).versions[-1].version
    return [run_id, "--version", str(newest.number), "--fingerprint", newest.fingerprint]


@pytest.fixture
def approve(book: Book, counterfoil: Counterfoil, waiting: str) -> Callable[[Who], Said]:
    return lambda who: counterfoil("approve", *about(book, waiting), "--json", token=who.token)


@pytest.mark.parametrize(
    ("verb", "outcome"),
    [("approve", "approved"), ("reject", "rejected"), ("request-changes", "changes_requested")],
)
def test_each_decision(
    verb: str, outcome: str, book: Book, counterfoil: Counterfoil, supervisor: Who, waiting: str
) -> None:
    said = counterfoil(verb, *about(book, waiting), "--comment", "geprüft", "--json", token=supervisor.token)
    assert said.code == 0
    assert (said.document["outcome"], said.document["actor_id"]) == (outcome, "sonja")
    [kept] = book.rows("SELECT outcome, actor_id, comment FROM decision")
    assert tuple(kept) == (outcome, "sonja", "geprüft".encode())


def test_a_decision_is_recorded_with_the_engine_away_and_leaves_a_hint(
    approve: Callable[[Who], Said], book: Book, supervisor: Who, waiting: str
) -> None:
    [before] = book.rows("SELECT nudge FROM run")
    assert approve(supervisor).code == 0
    [after] = book.rows("SELECT nudge - nudge_seen AS unseen, nudge FROM run")
    assert after.unseen > 0
    assert after.nudge > before.nudge


def test_a_decision_in_words(book: Book, counterfoil: Counterfoil, supervisor: Who, waiting: str) -> None:
    said = counterfoil("approve", *about(book, waiting), token=supervisor.token)
    assert said.out.startswith(f"recorded: version 1 of {waiting} approved (dec-")
    again = counterfoil("approve", *about(book, waiting), token=supervisor.token)
    assert again.out == said.out.replace("recorded:", "recorded before:")


def test_c31_the_same_persons_repeat_gets_the_same_answer(
    approve: Callable[[Who], Said], book: Book, supervisor: Who
) -> None:
    first, again = approve(supervisor), approve(supervisor)
    assert (first.code, again.code) == (0, 0)
    assert again.document == {**first.document, "repeated": True}
    assert book.count("decision") == 1


def test_c31_another_person_learns_who_decided(
    approve: Callable[[Who], Said], book: Book, supervisor: Who, second_supervisor: Who
) -> None:
    approve(supervisor)
    said = approve(second_supervisor)
    assert said.code == 1
    assert (said.refusal["why"], said.refusal["decided_by"]) == ("already_decided", "sonja")
    assert book.count("decision") == 1


def test_c36_the_version_and_fingerprint_must_be_those_asked_about(
    book: Book, counterfoil: Counterfoil, supervisor: Who, waiting: str
) -> None:
    said = counterfoil(
        "approve", waiting, "--version", "1", "--fingerprint", "0" * 64, "--json", token=supervisor.token
    )
    assert said.code == 1
    assert said.refusal["why"] == "other_content"
    assert said.refusal["next_actions"] == ["decide on version 1"]
    assert book.count("decision") == 0


def test_c42_who_requested_in_the_crm_cannot_approve(
    approve: Callable[[Who], Said], book: Book, counterfoil: Counterfoil, supervisor: Who
) -> None:
    assert counterfoil("actor", "link", "sonja", REQUESTER).code == 0
    said = approve(supervisor)
    assert said.code == 1
    assert (said.refusal["error"], said.refusal["why"]) == ("not_authorised", "own_work")
    assert book.count("decision") == 0
    [logged] = book.rows("SELECT actor_id, code FROM refused_decision")
    assert tuple(logged) == ("sonja", "own_work")


def test_c42_a_service_that_acts_for_the_requester_is_the_requester(
    approve: Callable[[Who], Said], counterfoil: Counterfoil, supervisor: Who
) -> None:
    counterfoil("actor", "link", "sonja", REQUESTER)
    counterfoil("actor", "add", "bot", "--name", "Bot", "--service", "--acts-for", "sonja")
    counterfoil("actor", "grant", "bot", "supervisor")
    secret = counterfoil("token", "issue", "bot", "--json").document["secret"]
    assert approve(Who(supervisor.actor, secret)).refusal["why"] == "own_work"


def test_who_lacks_the_role_is_refused(approve: Callable[[Who], Said], operator: Who) -> None:
    said = approve(operator)
    assert (said.code, said.refusal["why"], said.refusal["role"]) == (1, "role_missing", "supervisor")


def test_c41_a_decision_on_a_run_that_is_over(
    approve: Callable[[Who], Said], book: Book, counterfoil: Counterfoil, supervisor: Who, waiting: str
) -> None:
    counterfoil("reject", *about(book, waiting), token=supervisor.token)
    book.look(waiting)
    assert book.run(waiting).state == "failed"
    said = approve(supervisor)
    assert (said.code, said.refusal["why"]) == (1, "already_decided")
    assert book.run(waiting).state == "failed"


def test_a_refusal_in_words_names_what_is_permitted_next(
    counterfoil: Counterfoil, supervisor: Who, waiting: str
) -> None:
    said = counterfoil("approve", waiting, "--version", "7", "--fingerprint", "0" * 64, token=supervisor.token)
    assert said.code == 1
    assert said.out == ""
    assert said.err.splitlines() == [
        "counterfoil: the question is about version 1 with another fingerprint than the one given",
        "  permitted next: decide on version 1",
    ]


def test_an_approval_is_taken_back(
    approve: Callable[[Who], Said], book: Book, counterfoil: Counterfoil, supervisor: Who, waiting: str
) -> None:
    decision = approve(supervisor).document["id"]
    said = counterfoil("revoke-decision", waiting, "--reason", "wrong file", "--json", token=supervisor.token)
    assert (said.code, said.document) == (0, {"run": waiting, "revoked": decision})
    assert [tuple(row) for row in book.rows("SELECT actor_id, reason FROM revocation")] == [("sonja", "wrong file")]


@pytest.mark.parametrize("reason", ["", " ", "no\0thing"])
def test_an_approval_is_not_taken_back_without_a_reason(
    reason: str,
    approve: Callable[[Who], Said],
    book: Book,
    counterfoil: Counterfoil,
    supervisor: Who,
    waiting: str,
) -> None:
    approve(supervisor)
    said = counterfoil("revoke-decision", waiting, "--reason", reason, "--json", token=supervisor.token)
    assert (said.code, said.refusal["error"], said.refusal["field"]) == (1, "invalid_input", "reason")
    assert book.count("revocation") == 0


def test_an_approval_under_which_something_was_sent_is_not_taken_back(
    book: Book, counterfoil: Counterfoil, supervisor: Who
) -> None:
    run_id = book.accept_trigger("502")
    book.approved(run_id, supervisor.actor)
    granted = book.permit(run_id)
    said = counterfoil("revoke-decision", run_id, "--reason", "too late?", "--json", token=supervisor.token)
    assert (said.code, said.refusal["why"]) == (1, "too_late")
    assert said.refusal["operation"] == granted.sendable.key


def test_every_action_of_an_operator_can_be_named(counterfoil: Counterfoil) -> None:
    told = counterfoil("resolve", "--help").out
    assert [action for action in Action if action not in told] == []
