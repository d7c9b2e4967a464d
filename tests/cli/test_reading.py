"""Reading runs from the command line."""

import json
from pathlib import Path

import pytest
from commands import Counterfoil
from people import Who
from store_builder import VALUES, Book, company

from domain.states import RunState
from domain.wording import SHOWN_AS

SECRETS = [str(value) for name, value in VALUES.items() if value and name not in ("country", "linked.id")]


def leaks(text: str) -> list[str]:
    """Values of the partner's details found in `text`, as they are or as JSON writes them."""
    return [value for value in SECRETS if value in text or json.dumps(value)[1:-1] in text]


def test_runs_are_listed_newest_first_a_page_at_a_time(book: Book, counterfoil: Counterfoil) -> None:
    made = [book.accept_trigger(str(number)) for number in (601, 602, 603)]
    first = counterfoil("runs", "--limit", "2", "--json").document
    assert [run["run"] for run in first] == made[:0:-1]
    rest = counterfoil("runs", "--before", first[-1]["run"], "--json").document
    assert [run["run"] for run in rest] == made[:1]


def test_runs_are_found_by_what_they_are(book: Book, counterfoil: Counterfoil, waiting: str) -> None:
    queued = book.accept_trigger("602")
    key = book.run(waiting).business_key

    def found(*arguments: str) -> list[str]:
        return [run["run"] for run in counterfoil("runs", *arguments, "--json").document]

    assert found("--state", "awaiting_review") == [waiting]
    assert found("--owner", "supervisor") == [waiting]
    assert found("--key", key) == [waiting]
    assert found("--process", "partner-onboarding") == [queued, waiting]
    assert found("--process", "another") == []


def test_runs_in_words(counterfoil: Counterfoil, waiting: str) -> None:
    head, line = counterfoil("runs").out.splitlines()
    assert head.split() == ["RUN", "STATE", "REASON", "WAITS", "FOR", "SINCE", "PROCESS", "KEY"]
    assert line.startswith(f"{waiting}  {SHOWN_AS[RunState.AWAITING_REVIEW]}  review_opened  supervisor")


def test_no_runs_in_words(counterfoil: Counterfoil) -> None:
    assert counterfoil("runs").out == "nothing to show\n"
    assert counterfoil("runs", "--json").document == []


@pytest.mark.parametrize("arguments", [("--state", "approved"), ("--limit", "0"), ("--limit", "201")])
def test_a_wrong_filter_is_wrong_use(arguments: tuple[str, ...], counterfoil: Counterfoil) -> None:
    assert counterfoil("runs", *arguments).code == 2


@pytest.mark.parametrize("arguments", [("show", "run-x"), ("events", "run-x"), ("runs", "--before", "run-x")])
def test_a_run_that_is_none(arguments: tuple[str, ...], counterfoil: Counterfoil) -> None:
    said = counterfoil(*arguments, "--json")
    assert (said.code, said.refusal["error"], said.refusal["id"]) == (1, "not_found", "run-x")


def test_a_run_is_shown(book: Book, counterfoil: Counterfoil, waiting: str) -> None:
    shown = counterfoil("show", waiting, "--json").document
    newest = book.facts(waiting).versions[-1].version
    assert (shown["run"], shown["state"], shown["subject"]) == (waiting, "awaiting_review", str(company("501")))
    assert (shown["input_version"], shown["fingerprint"]) == (1, newest.fingerprint)


def test_what_show_permits_can_be_typed(book: Book, counterfoil: Counterfoil, supervisor: Who, waiting: str) -> None:
    approve = counterfoil("show", waiting, "--json").document["next_actions"][0]
    assert f"  {approve}\n" in counterfoil("show", waiting).out
    assert counterfoil(*approve.split()[1:], token=supervisor.token).code == 0
    assert book.count("decision") == 1


def test_a_run_in_words_has_everything_of_the_run(book: Book, counterfoil: Counterfoil, supervisor: Who) -> None:
    run_id = book.accept_trigger("777")
    decision = book.approved(run_id, supervisor.actor)
    granted = book.permit(run_id)
    book.accepted(run_id, granted)
    told = counterfoil("show", run_id).out
    assert told.startswith(f"{run_id}: Working\n")
    assert [word for word in (decision, granted.sendable.key, "ext-create-account", "777") if word not in told] == []


def test_events_are_listed_a_page_at_a_time(counterfoil: Counterfoil, waiting: str) -> None:
    everything = counterfoil("events", waiting, "--json").document
    assert [event["seq"] for event in everything] == list(range(1, len(everything) + 1))
    assert everything[-1]["next"] == "awaiting_review"
    assert counterfoil("events", waiting, "--after", "1", "--limit", "1", "--json").document == everything[1:2]


def test_events_in_words(counterfoil: Counterfoil, waiting: str) -> None:
    told = counterfoil("events", waiting).out.splitlines()
    assert "Accepted, not started" in told[1]
    assert "Waiting for approval" in told[-1]
    assert "worker counterfoil" in told[-1]


@pytest.mark.parametrize("form", [(), ("--json",)])
@pytest.mark.parametrize("command", ["show", "events"])
def test_reading_tells_nothing_of_the_partner(
    command: str, form: tuple[str, ...], counterfoil: Counterfoil, waiting: str
) -> None:
    assert leaks(counterfoil(command, waiting, *form).out) == []


def test_inputs_need_a_token(counterfoil: Counterfoil, waiting: str) -> None:
    said = counterfoil("show", waiting, "--inputs", "--json")
    assert (said.code, said.refusal["error"]) == (1, "not_authenticated")
    assert "counterfoil token issue ACTOR" in said.refusal["next_actions"]


def test_inputs_need_a_role(book: Book, counterfoil: Counterfoil, supervisor: Who, waiting: str) -> None:
    counterfoil("actor", "revoke", "sonja", "supervisor")
    said = counterfoil("show", waiting, "--inputs", "--json", token=supervisor.token)
    assert (said.code, said.refusal["error"]) == (1, "not_authorised")
    assert leaks(said.err) == []


def test_inputs_for_who_decides(counterfoil: Counterfoil, supervisor: Who, waiting: str) -> None:
    shown = counterfoil("show", waiting, "--inputs", "--json", token=supervisor.token).document["inputs"]
    assert (shown["version"], shown["inputs"]["iban"]) == (1, VALUES["iban"])
    told = counterfoil("show", waiting, "--inputs", token=supervisor.token).out
    assert f"iban           {VALUES['iban']}" in told
    assert r"Bestandskunde\nseit 1998" in told


def test_inputs_of_an_earlier_version(book: Book, counterfoil: Counterfoil, supervisor: Who, waiting: str) -> None:
    book.snapshot(waiting, name="Nordwind Handels GmbH")
    arguments = ("show", waiting, "--inputs", "--json")
    newest = counterfoil(*arguments, token=supervisor.token).document["inputs"]
    first = counterfoil(*arguments, "--version", "1", token=supervisor.token).document["inputs"]
    assert (newest["version"], newest["inputs"]["name"]) == (2, "Nordwind Handels GmbH")
    assert (first["version"], first["inputs"]["name"]) == (1, VALUES["name"])
    missing = counterfoil(*arguments, "--version", "3", token=supervisor.token)
    assert (missing.code, missing.refusal["error"]) == (1, "not_found")


def test_a_token_may_stand_in_a_file(counterfoil: Counterfoil, supervisor: Who, waiting: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{supervisor.token}\n")
    said = counterfoil("show", waiting, "--inputs", "--token-file", str(file), "--json", token="another")
    assert said.code == 0


def test_a_token_file_that_is_none(counterfoil: Counterfoil, waiting: str, tmp_path: Path) -> None:
    said = counterfoil("show", waiting, "--inputs", "--token-file", str(tmp_path / "none"), "--json")
    assert (said.code, said.refusal["field"]) == (1, "token-file")


@pytest.mark.parametrize("wrong", ["cf_not-a-token-of-anybody", "cf_mit-Ümläut"])
def test_a_token_is_never_echoed(wrong: str, counterfoil: Counterfoil, waiting: str) -> None:
    for form in ((), ("--json",)):
        said = counterfoil("show", waiting, "--inputs", *form, token=wrong)
        assert said.code == 1
        assert wrong not in said.out + said.err
