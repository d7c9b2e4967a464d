"""Account events: none unless asked for, then one for each change, as Stripe's own library takes them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest
from stripe import WebhookSignature
from webhook_receiver import Receiver, receiving

from sandbox.control import SandboxControl

SECRET = "whsec_test_stripe_example"
ACCOUNT = {"country": "DE", "email": "a@partner.example", "metadata[operation_key]": "op-1"}


@pytest.fixture
def receiver(sandbox: SandboxControl) -> Iterator[Receiver]:
    """Set as the only target of Stripe's events."""
    with receiving("/callbacks/stripe") as receiver:
        sandbox.settings(
            stripe_webhook_urls=[receiver.url], stripe_webhook_secret=SECRET, webhook_retry_first=0.02, webhook_urls=[]
        )
        yield receiver


def test_without_a_url_nothing_is_sent(sandbox: SandboxControl, stripe_http: httpx.Client) -> None:
    stripe_http.post("/v1/accounts", data=ACCOUNT).raise_for_status()
    assert sandbox.webhooks() == []


def test_a_create_and_an_update_are_one_event_each(
    sandbox: SandboxControl, receiver: Receiver, stripe_http: httpx.Client
) -> None:
    keyed = {"Idempotency-Key": "op-1"}
    made = [stripe_http.post("/v1/accounts", data=ACCOUNT, headers=keyed).json() for _ in range(2)]
    assert made[0] == made[1]
    stripe_http.post(f"/v1/accounts/{made[0]['id']}", data={"email": "b@partner.example"})
    sandbox.wait_until_delivered()
    events = [json.loads(body) for body in receiver.bodies]
    assert [event["type"] for event in events] == ["account.updated"] * 2
    assert len({event["id"] for event in events}) == 2
    assert [event["request"]["idempotency_key"] for event in events] == ["op-1", None]
    assert events[0]["data"]["object"] == made[0]
    assert {event["account"] for event in events} == {made[0]["id"]}
    assert events[1]["data"]["object"]["email"] == "b@partner.example"


def test_a_refused_create_tells_nothing(sandbox: SandboxControl, receiver: Receiver, stripe_http: httpx.Client) -> None:
    assert stripe_http.post("/v1/accounts", data={"nonsense": "1"}).status_code == 400
    assert sandbox.webhooks() == []
    assert receiver.bodies == []


def test_events_pass_the_official_signature_check_and_are_sent_until_accepted(
    sandbox: SandboxControl, receiver: Receiver, stripe_http: httpx.Client
) -> None:
    receiver.statuses.extend([500, 302])
    stripe_http.post("/v1/accounts", data=ACCOUNT)
    sandbox.wait_until_delivered()
    assert len(receiver.bodies) == 3
    assert len({json.loads(body)["id"] for body in receiver.bodies}) == 1
    for headers, body in zip(receiver.headers, receiver.bodies, strict=True):
        assert WebhookSignature.verify_header(body.decode(), headers["stripe-signature"], SECRET, 300)
