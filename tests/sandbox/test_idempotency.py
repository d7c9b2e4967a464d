"""Stripe's idempotency keys, and what survives of them."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from eventually import ANSWER_SECONDS, eventually
from sandboxes import sandbox_process

from sandbox.control import SandboxControl

FORM = {"country": "DE", "metadata[operation_key]": "op-1"}
STRIPE = {"authorization": "Bearer sk_test_sandbox"}


def create(client: httpx.Client, key: str = "op-1", **form: str) -> httpx.Response:
    return client.post("/v1/accounts", data={**FORM, **form}, headers={"idempotency-key": key})


def accounts(sandbox: SandboxControl) -> int:
    return len(sandbox.records("stripe", "accounts"))


def test_repeat_replays_the_stored_answer(stripe_http: httpx.Client, sandbox: SandboxControl) -> None:
    first, second = create(stripe_http), create(stripe_http)
    assert first.json() == second.json()
    assert "idempotent-replayed" not in first.headers
    assert second.headers["idempotent-replayed"] == "true"
    assert accounts(sandbox) == 1


def test_order_of_parameters_does_not_matter(stripe_http: httpx.Client) -> None:
    first = create(stripe_http)
    form = dict(reversed(FORM.items()))
    again = stripe_http.post("/v1/accounts", data=form, headers={"idempotency-key": "op-1"})
    assert again.json()["id"] == first.json()["id"]


def test_c59_same_key_with_other_parameters_is_refused(
    stripe_http: httpx.Client, sandbox: SandboxControl, outbound: Callable[[str], str]
) -> None:
    example = json.loads(outbound("stripe_idempotency_mismatch.response.json"))["error"]
    first = create(stripe_http).json()
    other = create(stripe_http, email="a@example.test")
    elsewhere = stripe_http.post(f"/v1/accounts/{first['id']}", data=FORM, headers={"idempotency-key": "op-1"})
    for answer in (other, elsewhere):
        assert (answer.status_code, answer.json()["error"]["type"]) == (400, example["type"])
    assert accounts(sandbox) == 1


def test_refused_parameters_do_not_use_up_a_key(stripe_http: httpx.Client) -> None:
    assert create(stripe_http, country="Germany").status_code == 400
    assert create(stripe_http).status_code == 200


def test_key_under_way_is_busy(
    stripe_http: httpx.Client, sandbox: SandboxControl, outbound: Callable[[str], str]
) -> None:
    example = json.loads(outbound("stripe_409_in_use.response.json"))["error"]
    sandbox.fault("slow_before", seconds=3)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(create, stripe_http)
        eventually(lambda: sandbox.requests(key="op-1"))
        busy = create(stripe_http)
        assert first.result().status_code == 200
    assert busy.status_code == 409
    assert {name: busy.json()["error"][name] for name in ("type", "code")} == {
        name: example[name] for name in ("type", "code")
    }
    assert busy.headers["stripe-should-retry"] == "true"
    assert create(stripe_http).headers["idempotent-replayed"] == "true"
    assert accounts(sandbox) == 1


def test_eight_creates_with_one_key_make_one_account(stripe_http: httpx.Client, sandbox: SandboxControl) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: create(stripe_http), range(8)))
    assert {answer.json()["id"] for answer in answers if answer.status_code == 200} == {
        account["id"] for account in sandbox.records("stripe", "accounts")
    }
    assert accounts(sandbox) == 1


def test_stored_500_is_replayed_although_the_account_exists(stripe_http: httpx.Client, sandbox: SandboxControl) -> None:
    sandbox.fault("commit_500")
    first, second = create(stripe_http), create(stripe_http)
    assert (first.status_code, second.status_code) == (500, 500)
    assert second.headers["idempotent-replayed"] == "true"
    assert accounts(sandbox) == 1


def test_500_before_execution_leaves_the_key_free_unless_stored(
    stripe_http: httpx.Client, sandbox: SandboxControl
) -> None:
    sandbox.fault("error_500_before")
    assert [create(stripe_http).status_code for _ in range(2)] == [500, 200]
    sandbox.fault("error_500_before", stored=True)
    assert [create(stripe_http, "op-2").status_code for _ in range(2)] == [500, 500]
    assert accounts(sandbox) == 1


def test_after_retention_a_key_runs_as_new(stripe_http: httpx.Client, sandbox: SandboxControl) -> None:
    first = create(stripe_http)
    sandbox.settings(idempotency_retention=0)
    second = create(stripe_http, email="other@example.test")
    assert (second.status_code, accounts(sandbox)) == (200, 2)
    assert second.json()["id"] != first.json()["id"]


@pytest.mark.parametrize(("length", "status"), [(255, 200), (256, 400)])
def test_keys_have_a_greatest_length(stripe_http: httpx.Client, length: int, status: int) -> None:
    assert create(stripe_http, "k" * length).status_code == status


def test_accounts_and_keys_survive_sigkill(tmp_path: Path) -> None:
    with (
        sandbox_process(tmp_path / "s.sqlite") as running,
        httpx.Client(base_url=running.url, headers=STRIPE, timeout=ANSWER_SECONDS) as client,
    ):
        first = create(client)
        running.kill()
    with (
        sandbox_process(tmp_path / "s.sqlite") as running,
        httpx.Client(base_url=running.url, headers=STRIPE, timeout=ANSWER_SECONDS) as client,
    ):
        again = create(client)
        assert (again.json(), again.headers["idempotent-replayed"]) == (first.json(), "true")
        assert client.get(f"/v1/accounts/{first.json()['id']}").status_code == 200
