"""`doctor`, `audit` and `db upgrade`: what they find, and how they end."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import Counterfoil, Said
from databases import Database, fresh_database
from sandboxes import sandbox_process
from store_builder import Book
from world import APP, PORTAL, STRIPE_KEY, TOKEN

from business_store.schema import head
from sandbox.control import SandboxControl
from stack.postgres import EmbeddedPostgres


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    account = {"hubspot_token": TOKEN, "hubspot_portal_id": PORTAL, "hubspot_app_id": APP, "stripe_key": STRIPE_KEY}
    with sandbox_process(tmp_path_factory.mktemp("sandbox") / "sandbox.db", **account) as process:
        yield process.url


@pytest.fixture
def complete(counterfoil: Counterfoil, sandbox: str, temporal_server: str) -> Counterfoil:
    """The command where everything it needs is there."""
    services = {"COUNTERFOIL_HUBSPOT_BASE_URL": sandbox, "COUNTERFOIL_STRIPE_BASE_URL": sandbox}
    return counterfoil.but(TEMPORAL_ADDRESS=temporal_server, COUNTERFOIL_READ_TIMEOUT="60", **services)


def failed(said: Said) -> dict[str, str]:
    return {each["part"]: each["found"] for each in said.document["findings"] if not each["ok"]}


def test_all_is_well(complete: Counterfoil) -> None:
    said = complete("doctor", "--json")
    assert failed(said) == {}
    assert (said.code, said.document["ok"]) == (0, True)
    assert {each["part"] for each in said.document["findings"]} == {
        *("settings", "store", "temporal", "hubspot", "stripe")
    }


def test_a_line_for_each_in_words(complete: Counterfoil) -> None:
    head_line, *lines = complete("doctor").out.splitlines()
    assert head_line.split() == ["PART", "FOUND"]
    assert {line.split()[0] for line in lines} == {"ok"}


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"COUNTERFOIL_DATABASE_URL": "postgresql+psycopg://nobody:pw-secret@127.0.0.1:1/none"}, "store"),
        ({"TEMPORAL_ADDRESS": "127.0.0.1:1"}, "temporal"),
        ({"COUNTERFOIL_HUBSPOT_TOKEN": "pat-of-somebody-else"}, "hubspot"),
        ({"COUNTERFOIL_HUBSPOT_PORTAL_ID": "1"}, "hubspot"),
        ({"COUNTERFOIL_STRIPE_SECRET_KEY": "sk_test_of_somebody_else"}, "stripe"),
        ({"COUNTERFOIL_STRIPE_BASE_URL": "http://127.0.0.1:1"}, "stripe"),
    ],
)
def test_each_failure_is_its_own(changes: dict[str, str], part: str, complete: Counterfoil) -> None:
    said = complete.but(**changes)("doctor", "--json")
    assert said.code == 1
    assert set(failed(said)) == {part}
    assert [text for text in ("pw-secret", "somebody") if text in said.out + said.err] == []


def test_a_key_that_is_not_unique_is_found(complete: Counterfoil, sandbox: str) -> None:
    with SandboxControl(sandbox) as control:
        control.add_property("tasks", "operation_key", unique=False)
        try:
            said = complete("doctor", "--json")
        finally:
            control.add_property("tasks", "operation_key", unique=True)
    assert said.code == 1
    assert "NOT unique" in failed(said)["hubspot"]


def test_an_older_schema_is_found(complete: Counterfoil, book: Book) -> None:
    with book.forged() as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0000'")
    said = complete("doctor", "--json")
    assert said.code == 1
    assert "counterfoil db upgrade" in failed(said)["store"]


def test_every_missing_setting_is_a_line(
    complete: Counterfoil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = complete.but(COUNTERFOIL_DATABASE_URL=None, COUNTERFOIL_STRIPE_SECRET_KEY=None)("doctor", "--json")
    assert said.code == 1
    found = [each["found"].partition(":")[0] for each in said.document["findings"]]
    assert found == ["COUNTERFOIL_DATABASE_URL", "COUNTERFOIL_STRIPE_SECRET_KEY"]


def test_an_audit_that_finds_nothing(counterfoil: Counterfoil, waiting: str) -> None:
    said = counterfoil("audit", "--json")
    assert (said.code, said.document["violations"]) == (0, [])
    assert counterfoil("audit").out == f"{said.document['checks']} checks, no violation\n"


@pytest.mark.parametrize(
    ("words", "error"), [(("--since", "2026-11-30"), "invalid_input"), (("--since", "Monday"), None)]
)
def test_a_time_to_look_from_is_one_and_for_deep_audits(
    counterfoil: Counterfoil, words: tuple[str, ...], error: str | None
) -> None:
    said = counterfoil("audit", *words, "--json")
    assert said.code == (2 if error is None else 1)
    assert error is None or (said.refusal["error"], said.refusal["field"]) == (error, "since")


def test_an_audit_prints_the_offending_rows(book: Book, counterfoil: Counterfoil, waiting: str) -> None:
    with book.forged() as connection:
        connection.execute("UPDATE run SET state = 'succeeded'")
    said = counterfoil("audit", "--json")
    assert said.code == 1
    offending: list[dict[str, Any]] = said.document["violations"]
    assert ("I2", "run") in {(each["invariant"], each["table"]) for each in offending}
    assert [each for each in offending if waiting in each["row"]]
    told = counterfoil("audit")
    assert told.code == 1
    assert waiting in told.out


@pytest.fixture
def empty(postgres: EmbeddedPostgres, migrated: EmbeddedPostgres) -> Iterator[Database]:
    """A database without any schema."""
    with fresh_database(postgres, "template1") as database:
        yield database


def test_a_store_without_schema_is_brought_up(empty: Database, counterfoil: Counterfoil) -> None:
    here = counterfoil.but(COUNTERFOIL_DATABASE_URL=empty.url, COUNTERFOIL_DATABASE_OWNER_URL=empty.owner_url)
    before = here("runs", "--json")
    assert (before.code, before.refusal["error"]) == (1, "store_not_migrated")
    assert before.refusal["next_actions"] == ["counterfoil db upgrade"]
    for _ in range(2):
        said = here("db", "upgrade", "--json")
        assert (said.code, said.document) == (0, {"revision": head()})
    assert here("runs", "--json").document == []


def test_a_migration_needs_the_owners_address_alone(empty: Database, counterfoil: Counterfoil) -> None:
    bare = {name: text for name, text in counterfoil.environment.items() if not name.startswith("COUNTERFOIL_")}
    alone = Counterfoil({**bare, "COUNTERFOIL_DATABASE_OWNER_URL": empty.owner_url})
    assert alone("db", "upgrade").out == f"the store is at revision {head()}\n"


def test_a_migration_without_the_owners_address(counterfoil: Counterfoil) -> None:
    said = counterfoil.but(COUNTERFOIL_DATABASE_OWNER_URL=None)("db", "upgrade", "--json")
    assert (said.code, said.refusal["error"]) == (2, "settings")
    assert "COUNTERFOIL_DATABASE_OWNER_URL" in said.refusal["settings"][0]


def test_a_migration_by_the_application_is_refused(empty: Database, counterfoil: Counterfoil) -> None:
    said = counterfoil.but(COUNTERFOIL_DATABASE_OWNER_URL=empty.url)("db", "upgrade", "--json")
    assert (said.code, said.refusal["error"]) == (1, "store_not_permitted")


@pytest.mark.parametrize(
    ("secrets", "found"),
    [
        ("", "no webhook secret: none"),
        ("whsec_a", "taken, by 1 signing secret"),
        ("whsec_a,whsec_b", "by 2 signing secrets"),
    ],
)
def test_whether_callbacks_are_taken_is_said(secrets: str, found: str, complete: Counterfoil) -> None:
    said = complete.but(COUNTERFOIL_STRIPE_WEBHOOK_SECRET=secrets)("doctor", "--json")
    assert said.document["ok"]
    assert len([each for each in said.document["findings"] if found in each["found"]]) == 1
    assert "whsec_a" not in said.out
