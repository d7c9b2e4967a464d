"""The practice provider as its clients see it: what is checked, listed, kept over a crash, and called back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from eventually import ANSWER_SECONDS, eventually
from sandboxes import sandbox_process
from standardwebhooks import Webhook, WebhookVerificationError
from webhook_receiver import Receiver, receiving

from sandbox.control import SandboxControl
from sandbox.practice_modes import MODES

SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
BODY = {"reference": "op-1", "name": "Nörd", "country": "DE", "email": "north@example.test"}


@pytest.fixture
def practice(sandbox: SandboxControl) -> Iterator[httpx.Client]:
    headers = {"authorization": "Bearer practice-sandbox-token", "idempotency-key": "op-1"}
    with httpx.Client(
        base_url=f"{sandbox.base_url}/practice", headers=headers, trust_env=False, timeout=ANSWER_SECONDS
    ) as client:
        yield client


def code_of(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def test_every_mode_makes_reads_and_keeps_an_account(sandbox: SandboxControl, practice: httpx.Client) -> None:
    for mode in MODES:
        made = practice.post(f"/{mode}/accounts", json={**BODY, "iban": "DE89370400440532013000"})
        assert made.status_code == 201
        assert practice.get(f"/{mode}/accounts/{made.json()['id']}").json() == made.json()
        [stored] = sandbox.records("practice", mode)
        assert (stored["iban_last4"], "iban" in stored) == ("3000", False)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ([], "body"),
        ({**BODY, "reference": ""}, "reference"),
        ({**BODY, "email": "nonsense"}, "email"),
        ({**BODY, "name": 7}, "name"),
        ({**BODY, "colour": "red"}, "colour"),
        ({"reference": "op-1"}, "name"),
    ],
)
def test_bad_bodies_are_refused_and_stored_under_no_key(practice: httpx.Client, body: object, field: str) -> None:
    refused = practice.post("/keyed_store_all/accounts", json=body)
    assert (*code_of(refused), refused.json()["error"]["param"]) == (400, "invalid_request", field)
    assert practice.post("/keyed_store_all/accounts", json=BODY).status_code == 201


def test_what_is_not_there_or_not_allowed_says_so(practice: httpx.Client) -> None:
    assert code_of(practice.get("/none/accounts/pa_1")) == (404, "not_found")
    assert code_of(practice.get("/none/accounts")) == (405, "no_look_up")
    assert code_of(practice.post("/no_such/accounts", json=BODY)) == (404, "no_such_mode")
    assert code_of(practice.get("/keyed_store_all/accounts?reference=op-1")) == (400, "invalid_request")
    assert code_of(practice.get("/upsert_unique/accounts?after=pa_1")) == (400, "invalid_request")
    assert code_of(practice.get("/none/accounts/pa_1", headers={"authorization": "Bearer other"})) == (
        401,
        "unauthenticated",
    )
    keyless = practice.post("/keyed_store_all/accounts", json=BODY, headers={"idempotency-key": "k" * 65})
    assert code_of(keyless) == (400, "invalid_key")


def test_stored_failure_is_replayed_and_one_that_is_not_stored_runs_again(
    sandbox: SandboxControl, practice: httpx.Client
) -> None:
    for mode, statuses in {"keyed_store_all": [500, 500], "keyed_store_2xx": [500, 201]}.items():
        sandbox.fault("commit_500")
        assert [practice.post(f"/{mode}/accounts", json=BODY).status_code for _ in range(2)] == statuses
        assert len(sandbox.records("practice", mode)) == 1


def test_account_can_be_hidden_for_a_while(sandbox: SandboxControl, practice: httpx.Client) -> None:
    sandbox.fault("drop_after_hidden_commit", seconds=60)
    with pytest.raises(httpx.TransportError):
        practice.post("/upsert_unique/accounts", json=BODY)
    [hidden] = sandbox.records("practice", "upsert_unique")
    assert practice.get(f"/upsert_unique/accounts/{hidden['id']}").status_code == 404
    assert practice.get("/upsert_unique/accounts?reference=op-1").json()["data"] == []
    sandbox.settings(practice_ahead=61)
    assert practice.get(f"/upsert_unique/accounts/{hidden['id']}").json()["reference"] == "op-1"


def test_late_execution_survives_a_kill(tmp_path: Path) -> None:
    data = tmp_path / "sandbox.sqlite"
    headers = {"authorization": "Bearer practice-sandbox-token"}
    with sandbox_process(data) as first, SandboxControl(first.url) as control:
        control.fault("drop_then_commit", seconds=3600)
        with pytest.raises(httpx.TransportError):
            httpx.post(f"{first.url}/practice/none/accounts", json=BODY, headers=headers, timeout=ANSWER_SECONDS)
        first.kill()
    with sandbox_process(data) as second, SandboxControl(second.url) as control:
        assert control.records("practice", "none") == []
        control.settings(practice_ahead=3601)
        assert [account["reference"] for account in control.records("practice", "none")] == ["op-1"]
        assert [request["executed"] for request in control.requests(method="POST")] == [True]


@pytest.fixture
def receiver(sandbox: SandboxControl) -> Iterator[Receiver]:
    """Called back to."""
    with receiving("/callbacks/practice") as receiver:
        sandbox.settings(practice_callback_url=receiver.url, practice_callback_secret=SECRET)
        yield receiver
        sandbox.settings(practice_callback_url="")


def events(receiver: Receiver) -> list[tuple[str, dict[str, Any]]]:
    """Ids and bodies, as the official library verifies them."""
    received = zip(receiver.headers, receiver.bodies, strict=True)
    return [(headers["webhook-id"], Webhook(SECRET).verify(body, headers)) for headers, body in received]


def test_callback_echoes_our_reference_and_keeps_its_id_when_repeated(
    sandbox: SandboxControl, practice: httpx.Client, receiver: Receiver
) -> None:
    sandbox.settings(webhook_duplicate=True)
    practice.post("/callback_only/accounts", json=BODY)
    practice.post("/none/accounts", json=BODY)
    sandbox.wait_until_delivered()
    (first, event), (second, again) = events(receiver)
    assert (first, event) == (second, again)
    assert (event["type"], event["data"]["reference"]) == ("account.created", "op-1")
    assert event["data"] == {
        name: value for name, value in sandbox.records("practice", "callback_only")[0].items() if name != "visibleAt"
    }


def test_callback_of_a_late_execution_comes_by_itself(
    sandbox: SandboxControl, practice: httpx.Client, receiver: Receiver
) -> None:
    sandbox.fault("drop_then_commit", seconds=0.1)
    with pytest.raises(httpx.TransportError):
        practice.post("/callback_only/accounts", json=BODY)
    assert eventually(lambda: receiver.bodies)
    with pytest.raises(WebhookVerificationError):
        Webhook("whsec_AAAA").verify(receiver.bodies[0], receiver.headers[0])


def test_replays_say_that_they_are_replays(practice: httpx.Client) -> None:
    first = practice.post("/keyed_ignore_body/accounts", json=BODY)
    second = practice.post("/keyed_ignore_body/accounts", content=json.dumps({**BODY, "name": "South"}))
    assert (second.status_code, second.json()) == (first.status_code, first.json())
    assert ("idempotent-replayed" in first.headers, second.headers["idempotent-replayed"]) == (False, "true")
