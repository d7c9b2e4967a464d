"""Starting, resolving, resuming and sweeping from the command line."""

from typing import Any

import pytest
from commands import Counterfoil
from people import Who
from store_builder import Book, company

from business_store.sweeping import engine_row, execution_gone
from domain.signals import Answer, Doubt, Found, Signal

WHY = ("--reason", "asked the provider", "--evidence", "ticket 4711", "--json")
PROCESS = "partner-onboarding"


LONG_AGO = """
    UPDATE attempt SET permitted_at = permitted_at - interval '1 hour', send_before = send_before - interval '1 hour',
        lease_until = lease_until - interval '1 hour'
"""


@pytest.fixture
def in_doubt(book: Book, supervisor: Who) -> str:
    """A run whose task may or may not have been made; only an operator can tell."""
    run_id = book.accept_trigger("701")
    book.approved(run_id, supervisor.actor)
    book.accepted(run_id, book.permit(run_id))
    granted = book.permit(run_id, "verification-task")
    book.answer(run_id, granted, Answer(Signal.UNKNOWN, "timeout", doubt=Doubt.NO_ANSWER))
    book.probe(run_id, granted, Found.MANY)
    assert book.run(run_id).state == "needs_operator"
    with book.forged() as connection:
        connection.execute("UPDATE operation SET in_flight_until = now() WHERE in_flight_until IS NOT NULL")
        connection.execute(LONG_AGO)
    return run_id


@pytest.fixture
def lost(book: Book, waiting: str) -> str:
    """A waiting run whose execution somebody ended in the engine."""

    def gone(connection: Any) -> str:  # noqa: ANN401
        return execution_gone(connection, engine_row(connection, waiting), ended_by_somebody=True)

    assert book.store.write(gone) == "needs_operator"
    return waiting


def test_a_run_is_started_by_hand_once(book: Book, counterfoil: Counterfoil, operator: Who) -> None:
    asked = ("start", PROCESS, "--subject", str(company("801")), "--json")
    first, again = (counterfoil(*asked, token=operator.token) for _ in range(2))
    assert (first.code, first.document["outcome"], first.document["made"]) == (0, "started", True)
    assert again.document == {**first.document, "outcome": "already_exists", "made": False}
    assert book.count("run") == 1
    [request] = book.rows("SELECT requester FROM request")
    assert request.requester == "olaf"


def test_a_rehearsal_runs_beside(book: Book, counterfoil: Counterfoil, operator: Who, waiting: str) -> None:
    asked = ("start", PROCESS, "--subject", str(company("501")), "--rehearsal")
    said = counterfoil(*asked, token=operator.token)
    assert said.out.startswith("started: run-")
    kinds = [row.kind for row in book.rows("SELECT kind FROM run ORDER BY number")]
    assert kinds == ["original", "rehearsal"]


def test_starting_needs_a_role(book: Book, counterfoil: Counterfoil, supervisor: Who) -> None:
    said = counterfoil("start", PROCESS, "--subject", str(company("801")), "--json", token=supervisor.token)
    assert (said.code, said.refusal["error"], said.refusal["role"]) == (1, "not_authorised", "operator")
    assert book.count("run") == 0


@pytest.mark.parametrize(
    ("process", "subject", "error"),
    [
        ("another-process", "hubspot:90210001:0-2:801", "not_found"),
        (PROCESS, "hubspot:801", "invalid_input"),
        (PROCESS, "hubspot::0-2:801", "invalid_input"),
        (PROCESS, "hubspot:90210001:companies:801", "invalid_input"),
    ],
)
def test_a_start_that_cannot_be(
    process: str, subject: str, error: str, book: Book, counterfoil: Counterfoil, operator: Who
) -> None:
    said = counterfoil("start", process, "--subject", subject, "--json", token=operator.token)
    assert (said.code, said.refusal["error"]) == (1, error)
    assert book.count("request") == 0


def test_the_record_outside_is_confirmed(book: Book, counterfoil: Counterfoil, operator: Who, in_doubt: str) -> None:
    asked = ("resolve", in_doubt, "confirm", "--reference", "9001", *WHY)
    said = counterfoil(*asked, token=operator.token)
    assert (said.code, said.document["action"], said.document["state"]) == (0, "confirm", "running")
    task = next(op for op in book.facts(in_doubt).operations if op.step == "verification-task")
    assert (task.outcome, task.reference) == ("accepted", "9001")


def test_a_write_off_needs_two(
    book: Book, counterfoil: Counterfoil, operator: Who, second_operator: Who, in_doubt: str
) -> None:
    asked = ("resolve", in_doubt, "write_off", *WHY)
    proposed = counterfoil(*asked, token=operator.token)
    assert (proposed.code, proposed.document["proposed"]) == (0, True)
    agreed = counterfoil(*asked[:-1], token=second_operator.token)
    assert agreed.out.startswith(f"recorded: write_off of {in_doubt} (res-")
    assert agreed.out.endswith("now Failed\n")
    assert book.run(in_doubt).state == "failed"


def test_what_is_not_permitted_names_what_is(counterfoil: Counterfoil, operator: Who, in_doubt: str) -> None:
    said = counterfoil("resolve", in_doubt, "retry", *WHY, token=operator.token)
    assert (said.code, said.refusal["error"]) == (1, "resolution_refused")
    assert said.refusal["next_actions"] == ["confirm", "not_executed", "write_off"]


@pytest.mark.parametrize(
    ("changed", "field"), [(("--reason", " "), "reason"), (("--evidence", ""), "evidence"), ((), "reference")]
)
def test_a_resolution_says_why_and_what(
    changed: tuple[str, ...], field: str, counterfoil: Counterfoil, operator: Who, in_doubt: str
) -> None:
    said = counterfoil("resolve", in_doubt, "confirm", *WHY, *changed, token=operator.token)
    assert (said.code, said.refusal["field"]) == (1, field)


def test_resolving_needs_a_role(counterfoil: Counterfoil, supervisor: Who, in_doubt: str) -> None:
    said = counterfoil("resolve", in_doubt, "confirm", "--reference", "9001", *WHY, token=supervisor.token)
    assert (said.code, said.refusal["error"]) == (1, "not_authorised")


def test_resolving_needs_somebody(counterfoil: Counterfoil, in_doubt: str) -> None:
    said = counterfoil("resolve", in_doubt, "confirm", "--reference", "9001", *WHY)
    assert (said.code, said.refusal["error"]) == (1, "not_authenticated")


def test_a_lost_execution_is_started_again(book: Book, counterfoil: Counterfoil, operator: Who, lost: str) -> None:
    said = counterfoil("resume", lost, "--json", token=operator.token)
    assert (said.code, said.document["action"], said.document["state"]) == (0, "retry", "running")
    [row] = book.rows("SELECT engine_epoch, engine_health FROM run")
    assert (row.engine_epoch, row.engine_health) == (2, "not_started")
    [kept] = book.rows("SELECT actor_id, action FROM resolution")
    assert tuple(kept) == ("olaf", "retry")


def test_only_an_operator_resumes(counterfoil: Counterfoil, supervisor: Who, lost: str) -> None:
    said = counterfoil("resume", lost, "--json", token=supervisor.token)
    assert (said.code, said.refusal["error"]) == (1, "not_authorised")


def test_only_what_is_lost_is_resumed(book: Book, counterfoil: Counterfoil, operator: Who, waiting: str) -> None:
    said = counterfoil("resume", waiting, "--json", token=operator.token)
    assert (said.code, said.refusal["state"]) == (1, "awaiting_review")
    assert "counterfoil sweep --once" in said.refusal["next_actions"]
    assert book.count("resolution") == 0


def test_a_sweep_without_the_engine_says_so(counterfoil: Counterfoil, waiting: str) -> None:
    at_once = counterfoil.but(COUNTERFOIL_SWEEP_PATIENCE="0")
    said = at_once("sweep", "--once", "--json")
    assert said.code == 1
    assert said.document["failed"]
    assert "failed: " in at_once("sweep", "--once").out


def test_a_sweep_starts_what_was_not_started(book: Book, counterfoil: Counterfoil, temporal_server: str) -> None:
    book.accept_trigger("901")
    with_engine = counterfoil.but(TEMPORAL_ADDRESS=temporal_server, COUNTERFOIL_SWEEP_PATIENCE="0")
    said = with_engine("sweep", "--once", "--json")
    assert (said.code, said.document["failed"], said.document["done"]["started"]) == (0, {}, 1)
    [row] = book.rows("SELECT engine_health FROM run")
    assert row.engine_health == "ok"


def test_sweeping_for_ever_is_not_for_people(counterfoil: Counterfoil) -> None:
    said = counterfoil("sweep")
    assert said.code == 2
    assert "--once" in said.err


def test_a_statement_of_nobody_is_never_shown(book: Book, counterfoil: Counterfoil, operator: Who) -> None:
    """What the store refuses is told without its parameters, which may be a person's words."""
    with book.forged() as connection:
        connection.execute("ALTER TABLE request ADD CONSTRAINT none_at_all CHECK (false) NOT VALID")
    said = counterfoil("start", PROCESS, "--subject", str(company("801")), "--json", token=operator.token)
    assert (said.code, said.refusal["error"]) == (1, "store_refused")
    assert said.refusal["message"] == "the store refused: 23514 none_at_all"
