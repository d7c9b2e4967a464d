"""Actors, roles, CRM users and tokens from the command line."""

import pytest
from commands import Counterfoil
from people import Who
from store_builder import AMENDER, REQUESTER, Book

from business_store.actors import ROLES, authenticated
from cli.actors import Role
from domain.errors import NotAuthenticated


def test_a_person_is_added_and_listed(counterfoil: Counterfoil) -> None:
    said = counterfoil("actor", "add", "ann", "--name", "Ann Example", "--json")
    ann = {"actor": "ann", "kind": "person", "name": "Ann Example", "active": True, "person": "ann", "roles": []}
    assert (said.code, said.document) == (0, ann)
    assert ann in counterfoil("actor", "list", "--json").document
    assert "ann          person  Ann Example  yes     ann" in counterfoil("actor", "list").out


def test_a_service_acts_for_a_person(counterfoil: Counterfoil) -> None:
    counterfoil("actor", "add", "ann", "--name", "Ann")
    said = counterfoil("actor", "add", "bot", "--name", "Bot", "--service", "--acts-for", "ann", "--json")
    assert (said.document["kind"], said.document["person"]) == ("service", "ann")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["ann", "--name", "Again"], "invalid_input"),
        (["b:b", "--name", "Colon"], "invalid_input"),
        (["cat", "--name", "Cat", "--acts-for", "ann"], "invalid_input"),
        (["dog", "--name", "Dog", "--service", "--acts-for", "nobody"], "not_found"),
    ],
)
def test_an_actor_that_cannot_be(arguments: list[str], error: str, book: Book, counterfoil: Counterfoil) -> None:
    counterfoil("actor", "add", "ann", "--name", "Ann")
    known = book.count("actor")
    said = counterfoil("actor", "add", *arguments, "--json")
    assert (said.code, said.refusal["error"]) == (1, error)
    assert book.count("actor") == known


def test_the_roles_are_those_of_the_store() -> None:
    assert {role.value for role in Role} == set(ROLES)


def test_roles_come_and_go(counterfoil: Counterfoil) -> None:
    counterfoil("actor", "add", "ann", "--name", "Ann")
    counterfoil("actor", "grant", "ann", "operator")
    assert counterfoil("actor", "grant", "ann", "supervisor", "--json").document["roles"] == ["operator", "supervisor"]
    assert counterfoil("actor", "revoke", "ann", "operator", "--json").document["roles"] == ["supervisor"]


def test_an_unknown_role_is_wrong_use(counterfoil: Counterfoil) -> None:
    counterfoil("actor", "add", "ann", "--name", "Ann")
    assert counterfoil("actor", "grant", "ann", "king").code == 2


def test_a_role_for_nobody(counterfoil: Counterfoil) -> None:
    said = counterfoil("actor", "grant", "nobody", "operator")
    assert (said.code, said.out, said.err) == (1, "", "counterfoil: no actor 'nobody'\n")


def test_a_leaver_can_do_nothing(book: Book, counterfoil: Counterfoil, supervisor: Who, waiting: str) -> None:
    assert counterfoil("actor", "deactivate", "sonja", "--json").document["active"] is False
    newest = book.facts(waiting).versions[-1].version
    about = ["--version", "1", "--fingerprint", newest.fingerprint]
    said = counterfoil("approve", waiting, *about, "--json", token=supervisor.token)
    assert (said.code, said.refusal["error"]) == (1, "not_authenticated")


def test_a_crm_user_is_linked(counterfoil: Counterfoil, waiting: str) -> None:
    counterfoil("actor", "add", "ann", "--name", "Ann")
    said = counterfoil("actor", "link", "ann", REQUESTER, "--json")
    assert (said.code, said.document["actor"]) == (0, "ann")
    placeholder = next(a for a in counterfoil("actor", "list", "--json").document if a["actor"] == REQUESTER)
    assert (placeholder["kind"], placeholder["person"]) == ("placeholder", "ann")


@pytest.mark.parametrize("identity", ["Hubspot:61000002", "61000002", "hubspot:", ""])
def test_a_misspelt_crm_user_links_nobody(identity: str, book: Book, counterfoil: Counterfoil) -> None:
    counterfoil("actor", "add", "ann", "--name", "Ann")
    said = counterfoil("actor", "link", "ann", identity, "--json")
    assert (said.code, said.refusal["field"]) == (1, "identity")
    assert book.count("actor_identity") == 0


def test_a_crm_user_is_one_person_only(counterfoil: Counterfoil) -> None:
    for name in ("ann", "ben"):
        counterfoil("actor", "add", name, "--name", name)
    counterfoil("actor", "link", "ann", AMENDER)
    assert counterfoil("actor", "link", "ben", AMENDER, "--json").refusal["field"] == "identity"


def test_a_token_is_shown_once_and_never_stored(book: Book, counterfoil: Counterfoil) -> None:
    counterfoil("actor", "add", "ann", "--name", "Ann")
    issued = counterfoil("token", "issue", "ann", "--json").document
    with book.store.reading() as connection:
        assert authenticated(connection, issued["secret"]).id == "ann"
    assert not [row for row in book.rows("SELECT to_jsonb(t)::text FROM api_token t") if issued["secret"] in row[0]]
    said = counterfoil("token", "revoke", issued["token"], "--json")
    assert (said.code, said.document) == (0, {"token": issued["token"], "revoked": True})
    with book.store.reading() as connection, pytest.raises(NotAuthenticated):
        authenticated(connection, issued["secret"])


def test_a_token_in_words(counterfoil: Counterfoil) -> None:
    counterfoil("actor", "add", "ann", "--name", "Ann")
    token, secret, warning = counterfoil("token", "issue", "ann").out.splitlines()
    assert token.startswith("token   tok-")
    assert secret.startswith("secret  cf_")
    assert "not stored" in warning


@pytest.mark.parametrize("arguments", [("token", "issue", "nobody"), ("token", "revoke", "tok-none")])
def test_a_token_that_cannot_be(arguments: tuple[str, ...], counterfoil: Counterfoil) -> None:
    said = counterfoil(*arguments, "--json")
    assert (said.code, said.refusal["error"]) == (1, "not_found")


def test_a_name_drives_no_terminal(counterfoil: Counterfoil) -> None:
    counterfoil("actor", "add", "ann", "--name", "Ann\x1b[2J\nsecond line")
    said = counterfoil("actor", "list")
    assert "\x1b" not in said.out
    assert r"Ann\x1b[2J\nsecond line" in said.out
