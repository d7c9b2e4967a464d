"""A file, signed and sent to a gateway that runs as a process of its own."""

import json
import sys
from collections.abc import Iterator

import httpx
import pytest
from commands import Counterfoil
from databases import Database, fresh_database
from eventually import ANSWER_SECONDS, eventually
from inbound_samples import FIXTURES
from store_builder import Book
from world import Program, environment_for

from stack.ports import free_port
from stack.postgres import EmbeddedPostgres

HUBSPOT, STANDARD = FIXTURES / "hubspot_batch.json", FIXTURES / "partner_request_submitted.json"


@pytest.fixture(scope="module")
def receiving(migrated: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Database]]:
    """The address of one gateway for this module, and the store behind it."""
    with fresh_database(migrated) as database:
        environment = environment_for(database, "127.0.0.1:1", "http://127.0.0.1:1", "cli-triggers")
        log = tmp_path_factory.mktemp("gateway") / "gateway.log"
        program = Program("gateway", [sys.executable, "-m", "gateway"], environment, log)
        url = environment["COUNTERFOIL_PUBLIC_URL"]
        program.start()
        try:
            eventually(
                lambda: httpx.get(f"{url}/health/ready", trust_env=False, timeout=ANSWER_SECONDS).is_success, within=30
            )
            yield url, database
        finally:
            program.kill()


@pytest.fixture
def gateway(receiving: tuple[str, Database]) -> str:
    return receiving[0]


@pytest.fixture
def database(receiving: tuple[str, Database]) -> Database:
    """In this module the store behind the gateway."""
    return receiving[1]


@pytest.fixture
def counterfoil(receiving: tuple[str, Database]) -> Counterfoil:
    url, database = receiving
    environment = environment_for(database, "127.0.0.1:1", "http://127.0.0.1:1", "cli-triggers")
    signed = {"COUNTERFOIL_PUBLIC_URL": url, "COUNTERFOIL_HUBSPOT_PUBLIC_URL": f"{url}/triggers/hubspot"}
    return Counterfoil({**environment, **signed})


def test_a_hubspot_batch_starts_a_run_once(book: Book, counterfoil: Counterfoil) -> None:
    first = counterfoil("trigger", str(HUBSPOT), "--source", "hubspot", "--json")
    assert (first.code, first.document["status"]) == (0, 202)
    started = first.document["answer"]["elements"][0]
    assert started["disposition"] == "started"
    again = counterfoil("trigger", str(HUBSPOT), "--source", "hubspot", "--json")
    assert {element["disposition"] for element in again.document["answer"]["elements"]} == {"duplicate"}
    assert book.run(started["run"]).kind == "original"


def test_an_inline_request_is_the_same_message_when_sent_again(counterfoil: Counterfoil) -> None:
    asked = ("trigger", str(STANDARD), "--source", "standard-webhooks", "--json")
    first, again = counterfoil(*asked), counterfoil(*asked)
    assert (first.code, again.code) == (0, 0)
    assert again.document["answer"]["elements"][0]["disposition"] == "duplicate"
    assert counterfoil(*asked, "--id", "msg_another").document["answer"]["elements"][0]["disposition"] != "duplicate"


def test_c08_the_bytes_are_sent_as_they_are(book: Book, counterfoil: Counterfoil) -> None:
    body = b'[ { "amount": 1.10, "n":"J\\u00f6rg" , "e":1E2} ]'
    said = counterfoil("trigger", "-", "--source", "hubspot", "--json", stdin=body)
    assert (said.code, said.document["status"]) == (0, 202)
    kept = {bytes(row.body): row.verdict for row in book.rows("SELECT body, verdict FROM receipt")}
    assert kept[body] == "genuine"


def test_what_the_gateway_refuses_is_told(counterfoil: Counterfoil) -> None:
    said = counterfoil("trigger", "-", "--source", "hubspot", stdin=b"[1")
    assert said.code == 1
    assert said.out.startswith("400 Bad Request\n{")


def test_another_address_under_the_configured_signature(gateway: str, counterfoil: Counterfoil) -> None:
    elsewhere = counterfoil.but(COUNTERFOIL_PUBLIC_URL=f"http://127.0.0.1:{free_port()}")
    asked = ("trigger", "-", "--source", "hubspot", "--url", f"{gateway}/triggers/hubspot")
    assert elsewhere(*asked, stdin=b"[]").code == 0


def test_another_secret_is_refused(book: Book, counterfoil: Counterfoil) -> None:
    stranger = counterfoil.but(COUNTERFOIL_HUBSPOT_CLIENT_SECRET="not-the-secret")
    said = stranger("trigger", "-", "--source", "hubspot", "--json", stdin=b"[ ]")
    assert (said.code, said.document["status"], said.document["answer"]["error"]) == (1, 401, "bad_signature")
    kept = {bytes(row.body): row.verdict for row in book.rows("SELECT body, verdict FROM receipt")}
    assert kept[b"[ ]"] == "bad_signature"


def test_no_gateway(counterfoil: Counterfoil) -> None:
    for url in (f"http://127.0.0.1:{free_port()}/triggers/hubspot", "not a url"):
        said = counterfoil("trigger", str(HUBSPOT), "--source", "hubspot", "--url", url, "--json")
        assert (said.code, said.refusal["error"]) == (1, "gateway_unreachable")
        assert said.refusal["next_actions"] == ["send the same file again"]


@pytest.mark.parametrize("arguments", [("none.json", "--source", "hubspot"), (str(HUBSPOT), "--source", "amo")])
def test_wrong_use(arguments: tuple[str, str, str], counterfoil: Counterfoil) -> None:
    assert counterfoil("trigger", *arguments).code == 2


def test_a_secret_that_cannot_sign(counterfoil: Counterfoil) -> None:
    broken = counterfoil.but(COUNTERFOIL_STANDARD_WEBHOOKS_SECRET="whsec_%%%")
    said = broken("trigger", str(STANDARD), "--source", "standard-webhooks", "--json")
    assert (said.code, said.refusal["error"]) == (1, "invalid_input")
    assert "%%%" not in json.dumps(said.refusal)


def test_an_event_of_stripes_is_taken_in_once(book: Book, counterfoil: Counterfoil) -> None:
    event = str(FIXTURES / "stripe_account_updated.json")
    first = counterfoil("callback", event, "--source", "stripe", "--json")
    assert (first.code, first.document["status"]) == (0, 202)
    assert first.document["answer"]["elements"] == [{"index": 0, "disposition": "unmatched"}]
    again = counterfoil("callback", event, "--source", "stripe", "--json")
    assert again.document["answer"]["elements"][0]["disposition"] == "duplicate"
    assert book.count("callback_delivery") == 1


def test_without_a_secret_no_callback_is_sent(counterfoil: Counterfoil) -> None:
    unset = counterfoil.but(COUNTERFOIL_STRIPE_WEBHOOK_SECRET="")
    said = unset("callback", str(FIXTURES / "stripe_account_updated.json"), "--source", "stripe", "--json")
    assert (said.code, said.refusal["field"]) == (1, "COUNTERFOIL_STRIPE_WEBHOOK_SECRET")
