"""What is Stripe's own: form bodies, the idempotency layer, the paged list of accounts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs

import httpx
import pytest
from connector_cases import ACCOUNT, KEY, WITHIN, Made, stripe_to
from eventually import ANSWER_SECONDS
from raw_server import json_answers, raw_server

from connectors.stripe import API_VERSION, CREATE_ACCOUNT, Stripe
from domain.errors import InvalidInput, ReadFailed
from domain.ports import Send, Sought
from domain.signals import Answer, Doubt, Found, Signal
from sandbox.control import SandboxControl


@pytest.fixture
def account(sandbox: SandboxControl, stripe: Stripe) -> Made:
    return Made(ACCOUNT, stripe, sandbox, dict(ACCOUNT.fields))


@pytest.fixture
def outside(sandbox: SandboxControl) -> Iterator[httpx.Client]:
    """Somebody else who uses the same Stripe account."""
    headers = {"authorization": "Bearer sk_test_sandbox"}
    with httpx.Client(base_url=sandbox.base_url, headers=headers, trust_env=False, timeout=ANSWER_SECONDS) as client:
        yield client


def answered(value: object, account: Made) -> Answer:
    """What the connector makes of this answer to a create."""
    with raw_server(json_answers([value])) as server, closing(stripe_to(server.url)) as connector:
        return connector.send(Send(CREATE_ACCOUNT, KEY, account.content, WITHIN))


def form(account: Made) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(account.content.decode()).items()}


def test_body_names_the_key_the_run_and_the_bank_account(account: Made) -> None:
    sent = form(account)
    assert sent["metadata[operation_key]"] == KEY
    assert sent["metadata[run_id]"] == "run_0042"
    assert sent["company[name]"] == "Nörthwind & Söhne GmbH"
    assert sent["external_account[country]"] == "DE"
    assert sent["external_account[currency]"] == "eur"


@pytest.mark.parametrize(
    ("iban", "currency"), [("GB82 WEST 1234 5698 7654 32", "gbp"), ("at611904300234573201", "eur")]
)
def test_bank_account_follows_the_iban_not_the_company(account: Made, iban: str, currency: str) -> None:
    account.fields["iban"] = iban
    sent = form(account)
    assert sent["external_account[account_number]"] == iban.replace(" ", "").upper()
    assert sent["external_account[country]"] == iban[:2].upper()
    assert sent["external_account[currency]"] == currency
    assert account.send().signal is Signal.ACCEPTED


def test_c19_fields_without_value_are_left_out(account: Made) -> None:
    account.fields |= {"iban": None, "bank_holder": "", "legal_form": None}
    assert not [name for name in form(account) if "external_account" in name or "legal_form" in name]
    assert account.send().signal is Signal.ACCEPTED


@pytest.mark.parametrize("name", ["name", "country", "email"])
@pytest.mark.parametrize("value", [None, "", "x\ud83d", "Ac\0me"])
def test_c16_unusable_field_is_named_without_its_value(account: Made, name: str, value: str | None) -> None:
    account.fields[name] = value
    with pytest.raises(InvalidInput) as refused:
        _ = account.content
    assert refused.value.fields["field"] == name
    assert not value or value not in refused.value.message


def test_requests_pin_the_api_version_and_carry_the_key(account: Made) -> None:
    account.send()
    (write,) = account.writes()
    assert write["idempotencyKey"] == KEY
    assert write["headers"]["stripe-version"] == API_VERSION


def test_c59_same_key_other_body_is_a_mismatch(account: Made) -> None:
    account.send()
    other = account.content.replace(b"partner731", b"partner732")
    assert account.send(content=other).signal is Signal.MISMATCH
    assert len(account.ours()) == 1


def test_c59_replay_for_another_body_is_a_mismatch_although_it_says_success(account: Made) -> None:
    """Some servers ignore the body of a repeat: the answer is compared with what was asked."""
    theirs = {
        "id": "acct_1ReplayedOther",
        "object": "account",
        "email": "other@example.test",
        "metadata": {"operation_key": KEY},
    }
    answer = answered(theirs, account)
    assert (answer.signal, answer.code) == (Signal.MISMATCH, "other_email")


def test_key_in_use_is_busy(account: Made) -> None:
    account.fault("busy_409")
    answer = account.send()
    assert (answer.signal, answer.code) == (Signal.BUSY, "idempotency_key_in_use")


def test_refused_parameters_are_a_rejection_with_code_and_parameter(account: Made) -> None:
    account.fields["iban"] = "DE00370400440532013000"
    answer = account.send()
    assert answer.signal is Signal.REJECTED
    assert answer.code == "account_number_invalid:external_account[account_number]"
    assert account.ours() == []
    assert account.probe().found is Found.NONE


def test_stored_failure_is_replayed_and_stays_in_doubt(account: Made) -> None:
    account.fault("commit_500")
    assert [account.send().doubt, account.send().doubt] == [Doubt.SERVER_ERROR] * 2
    assert account.probe().found is Found.ONE


def test_permission_error_is_in_doubt(account: Made) -> None:
    error = {"error": {"type": "invalid_request_error", "code": "secret_key_required", "message": "DE89 Acme"}}

    answer = answered((403, error), account)
    assert (answer.signal, answer.doubt, answer.code) == (Signal.UNKNOWN, Doubt.CLIENT_ERROR, "secret_key_required")
    assert "Acme" not in repr(answer)


def test_look_up_reads_every_page(account: Made, outside: httpx.Client) -> None:
    account.fault("drop_after_commit")
    account.send()
    for number in range(101):
        outside.post("/v1/accounts", data={"country": "DE", "metadata[n]": str(number)}).raise_for_status()
    assert account.probe().found is Found.ONE
    lists = [one for one in account.sandbox.requests(method="GET") if one["path"] == "/v1/accounts"]
    assert len(lists) == 2


def test_look_up_with_a_broken_second_page_saw_nothing(account: Made) -> None:
    other = {"id": "acct_1Other", "object": "account", "metadata": {}}
    pages = [{"object": "list", "data": [other], "has_more": True}, {"object": "list", "data": [other]}]
    with raw_server(json_answers(pages)) as server, closing(stripe_to(server.url)) as connector:
        found = connector.probe(Sought(CREATE_ACCOUNT, KEY, account.content, account.since))
    assert (found.found, found.code) == (Found.FAILED, "unreadable_list")


def test_accounts_made_long_before_the_first_send_are_not_asked_for(account: Made) -> None:
    account.send()
    account.since = datetime.now(UTC) + timedelta(hours=1)
    assert account.probe().found is Found.NONE


def test_two_accounts_with_our_key_are_many(account: Made, outside: httpx.Client) -> None:
    account.send()
    outside.post("/v1/accounts", data={"country": "DE", "metadata[operation_key]": KEY}).raise_for_status()
    assert account.probe().found is Found.MANY


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"email": "somebody@example.test"}, "other_email"),
        ({"company[name]": "Another GmbH"}, "other_name"),
        ({"metadata[legal_form]": "AG"}, "other_legal_form"),
        (
            {
                "external_account[object]": "bank_account",
                "external_account[country]": "GB",
                "external_account[account_number]": "GB82WEST12345698765432",
                "external_account[account_holder_name]": "Nörthwind & Söhne GmbH",
            },
            "other_iban_last4",
        ),
    ],
)
def test_c51_account_with_our_key_and_other_content_is_foreign(
    account: Made, outside: httpx.Client, change: dict[str, str], code: str
) -> None:
    reference = account.send().reference
    outside.post(f"/v1/accounts/{reference}", data=change).raise_for_status()
    for named in (None, reference):
        finding = account.probe(named)
        assert (finding.found, finding.code, finding.reference) == (Found.FOREIGN, code, reference)


def test_c51_named_account_without_our_key_is_foreign(account: Made, outside: httpx.Client) -> None:
    theirs = outside.post("/v1/accounts", data={"country": "DE"}).json()["id"]
    finding = account.probe(theirs)
    assert (finding.found, finding.code, finding.reference) == (Found.FOREIGN, "other_key", theirs)


def test_check_names_the_account_of_the_key(stripe: Stripe) -> None:
    assert "acct_1SandboxPlatform" in stripe.check()[0]


def test_check_with_a_revoked_key_fails_without_the_key(sandbox: SandboxControl) -> None:
    with closing(stripe_to(sandbox.base_url, "sk_revoked")) as revoked, pytest.raises(ReadFailed) as failed:
        revoked.check()
    assert failed.value.fields["reason"] == "http_401"
    assert "sk_revoked" not in str(failed.value.as_dict())
