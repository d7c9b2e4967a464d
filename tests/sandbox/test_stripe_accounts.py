"""Stripe's accounts: creation from forms, lists, updates, refusals."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from eventually import ANSWER_SECONDS

from sandbox.control import SandboxControl
from sandbox.stripe_forms import decoded

IBAN = "DE89370400440532013000"
BANK = {
    "external_account[object]": "bank_account",
    "external_account[country]": "DE",
    "external_account[currency]": "EUR",
    "external_account[account_holder_name]": "North GmbH",
    "external_account[account_number]": IBAN,
}


def created(client: httpx.Client, **form: str) -> dict[str, Any]:
    answer = client.post("/v1/accounts", data={"country": "DE", **form})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def raw_example(text: str) -> tuple[dict[str, str], str]:
    head, _, body = text.replace("\r\n", "\n").partition("\n\n")
    lines = [line.partition(": ") for line in head.splitlines()[1:]]
    return {name.lower(): value for name, _, value in lines if name != "Host"}, body.strip()


def test_example_request_is_accepted(stripe_http: httpx.Client, outbound: Callable[[str], str]) -> None:
    headers, body = raw_example(outbound("stripe_account_create.http"))
    headers["authorization"] = stripe_http.headers["authorization"]
    answer = stripe_http.post("/v1/accounts", content=body, headers=headers)
    assert answer.status_code == 200
    assert answer.json()["metadata"] == {"operation_key": headers["idempotency-key"], "run_id": "run_0042"}
    assert answer.json()["email"] == "partner731@example.test"
    assert answer.headers["idempotency-key"] == headers["idempotency-key"]
    assert answer.headers["request-id"].startswith("req_")
    assert answer.headers["stripe-version"]


def test_bank_account_is_answered_without_its_number(stripe_http: httpx.Client, sandbox: SandboxControl) -> None:
    made = created(stripe_http, **BANK)
    [bank] = made["external_accounts"]["data"]
    assert (bank["last4"], bank["account_holder_name"], bank["country"], bank["currency"]) == (
        "3000",
        "North GmbH",
        "DE",
        "eur",
    )
    assert bank["bank_name"]
    assert made["external_accounts"]["total_count"] == 1
    assert IBAN not in str(sandbox.records("stripe", "accounts"))
    again = created(stripe_http, **BANK)["external_accounts"]["data"][0]
    assert again["fingerprint"] == bank["fingerprint"]


def test_nested_fields_are_kept_and_merged(stripe_http: httpx.Client) -> None:
    made = created(
        stripe_http,
        **{"type": "custom", "company[name]": "North GmbH", "business_type": "company", "business_profile[name]": "N"},
    )
    assert (made["type"], made["company"]["name"], made["business_profile"]["name"]) == ("custom", "North GmbH", "N")
    form = {"business_profile[url]": "https://north.example.test", "metadata[a]": "1", "metadata[b]": "2"}
    changed = stripe_http.post(f"/v1/accounts/{made['id']}", data=form).json()
    assert changed["business_profile"]["name"] == "N"
    assert changed["metadata"] == {"a": "1", "b": "2"}
    assert stripe_http.post(f"/v1/accounts/{made['id']}", data={"metadata[a]": ""}).json()["metadata"] == {"b": "2"}
    assert stripe_http.post(f"/v1/accounts/{made['id']}", data={"metadata": ""}).json()["metadata"] == {}


def test_list_is_newest_first_in_pages(stripe_http: httpx.Client) -> None:
    ids = [created(stripe_http)["id"] for _ in range(3)]
    first = stripe_http.get("/v1/accounts", params={"limit": 2}).json()
    assert ([account["id"] for account in first["data"]], first["has_more"]) == ([ids[2], ids[1]], True)
    second = stripe_http.get("/v1/accounts", params={"limit": 2, "starting_after": ids[1]}).json()
    assert ([account["id"] for account in second["data"]], second["has_more"]) == ([ids[0]], False)
    back = stripe_http.get("/v1/accounts", params={"limit": 1, "ending_before": ids[0]}).json()
    assert ([account["id"] for account in back["data"]], back["has_more"]) == ([ids[1]], True)


def test_list_is_narrowed_by_creation_time(stripe_http: httpx.Client) -> None:
    made = created(stripe_http)
    moment = made["created"]

    def count(**only: int) -> int:
        return len(stripe_http.get("/v1/accounts", params=only).json()["data"])

    assert count(**{"created[gte]": moment, "created[lte]": moment}) == 1
    assert count(**{"created[gt]": moment}) == count(**{"created[lt]": moment}) == 0
    assert count(created=moment) == 1


def test_deleted_and_unknown_accounts_are_forbidden(stripe_http: httpx.Client, sandbox: SandboxControl) -> None:
    made = created(stripe_http)
    assert stripe_http.delete(f"/v1/accounts/{made['id']}").json()["deleted"] is True
    for account_id in (made["id"], "acct_unknown"):
        answer = stripe_http.get(f"/v1/accounts/{account_id}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "account_invalid")
    assert stripe_http.get("/v1/accounts").json()["data"] == []
    assert sandbox.records("stripe", "accounts")[0]["deleted"] is True


@pytest.mark.parametrize(
    ("form", "param"),
    [
        ({"colour": "red"}, "colour"),
        ({"country": "Germany"}, "country"),
        ({"email": "nobody"}, "email"),
        ({"type": "special"}, "type"),
        ({"metadata": "x"}, "metadata"),
        ({"metadata[k]": "v" * 501}, "metadata"),
        ({"company": "North"}, "company"),
        ({**BANK, "external_account[account_number]": "DE00370400440532013000"}, "external_account[account_number]"),
        ({**BANK, "external_account[country]": ""}, "external_account[country]"),
        ({**BANK, "external_account[iban]": IBAN}, "external_account[iban]"),
        ({"a[b": "1"}, "a[b"),
    ],
)
def test_bad_parameters_are_named(stripe_http: httpx.Client, form: dict[str, str], param: str) -> None:
    answer = stripe_http.post("/v1/accounts", data=form)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    assert answer.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("query", [{"limit": "0"}, {"limit": "101"}, {"starting_after": "acct_x"}, {"email": "a@b.c"}])
def test_bad_list_filters_are_refused(stripe_http: httpx.Client, query: dict[str, str]) -> None:
    assert stripe_http.get("/v1/accounts", params=query).status_code == 400


def test_keys_are_checked(sandbox: SandboxControl, stripe_http: httpx.Client) -> None:
    assert stripe_http.get("/v1/account").json()["object"] == "account"
    url = f"{sandbox.base_url}/v1/account"
    assert httpx.get(url, auth=("sk_test_sandbox", ""), timeout=ANSWER_SECONDS).status_code == 200
    for headers in ({}, {"authorization": "Bearer sk_test_wrong"}, {"authorization": "Basic %%%"}):
        answer = httpx.get(url, headers=headers, timeout=ANSWER_SECONDS)
        assert (answer.status_code, answer.json()["error"]["type"]) == (401, "invalid_request_error")
    assert "sk_test_wrong" not in answer.text
    assert stripe_http.get("/v1/customers").status_code == 404


def test_forms_become_hashes_and_lists() -> None:
    body = b"a[b][c]=1&a[b][d]=%26&list[]=x&list[]=y&rows[1][n]=2&rows[0][n]=1&empty="
    assert decoded(body) == {
        "a": {"b": {"c": "1", "d": "&"}},
        "list": ["x", "y"],
        "rows": [{"n": "1"}, {"n": "2"}],
        "empty": "",
    }
