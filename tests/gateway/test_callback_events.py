"""Bodies of callbacks: what each element says of a record of ours, or why it says nothing."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inbound_samples import fixture_bytes, stripe_event
from json_values import JSON_VALUES, TEXT, storable_everywhere

from connectors.stripe_callbacks import StripeCallbacks
from domain.callbacks import Irrelevant, Told
from domain.canonical import NotJson, canonical_bytes
from domain.deliveries import Quarantined
from domain.errors import InvalidInput
from gateway.callback_events import Element, parse_standard_callbacks, parse_stripe_events

STRIPE = StripeCallbacks()
KEY, ACCOUNT = "op-01JC0000000000000000000001", "acct_1TEST0000000731"


def parsed(event: Any) -> Element:  # noqa: ANN401 (any JSON value, right or wrong)
    [element] = parse_stripe_events(STRIPE, json.dumps(event).encode())
    return element


def told(event: Any) -> Told:  # noqa: ANN401
    element = parsed(event)
    assert isinstance(element, Told), element
    return element


def test_an_account_of_ours() -> None:
    [element] = parse_stripe_events(STRIPE, fixture_bytes("stripe_account_updated.json"))
    account = json.loads(fixture_bytes("stripe_account_updated.json"))["data"]["object"]
    assert element == Told(0, "evt_1TESTaccount0001", "create_account", KEY, ACCOUNT, canonical_bytes(account))


def test_the_key_in_the_record_goes_before_the_key_of_the_request() -> None:
    other = {"id": "req_1", "idempotency_key": "op-of-another-request"}
    assert told(stripe_event(request=other)).key == KEY
    assert told(stripe_event(metadata={}, request=other)).key == "op-of-another-request"
    assert told(stripe_event(metadata={}, request=None)).key is None
    assert told(stripe_event(metadata={}, request={"id": None, "idempotency_key": None})).key is None


@pytest.mark.parametrize("kind", ["account.application.authorized", "payout.paid", "", None, 7])
def test_events_about_nothing_of_ours(kind: object) -> None:
    assert parsed(stripe_event(type=kind)) == Irrelevant(0, "evt_1TESTaccount0001")


@pytest.mark.parametrize("bad", [None, "", " evt", "a\x00", "a\ud83d", "x" * 256, 1.5, True, ["a"]])
def test_an_event_without_a_usable_id_is_put_aside(bad: object) -> None:
    element = parsed(stripe_event(id=bad))
    assert isinstance(element, Quarantined)
    assert element.reason.startswith("id:")
    assert element.dedupe_key == parsed(stripe_event(id=bad)).dedupe_key


@pytest.mark.parametrize(
    "account", [None, [], "x", {}, {"object": "account"}, {"object": "account", "id": "cus_1"}, {"id": ACCOUNT}]
)
def test_an_account_event_without_an_account_is_put_aside(account: object) -> None:
    element = parsed(stripe_event(data={"object": account}))
    assert isinstance(element, Quarantined)
    assert element.reason.startswith("data.object:")


@pytest.mark.parametrize("text", ["Ac\u0000me", "x\ud83d", "Ac\\u0000me"])
def test_c16_text_that_no_column_can_hold_loses_no_neighbour(text: str) -> None:
    odd = stripe_event(id="evt_odd", company={"name": text})
    body = json.dumps([odd, stripe_event(id="evt_good")]).encode()
    first, second = parse_stripe_events(STRIPE, body)
    assert isinstance(second, Told)
    assert isinstance(first, Quarantined if text.startswith("x") else Told)


@pytest.mark.parametrize("body", [b"null", b"7", b'"x"', b"[[]]"])
def test_c13_json_that_is_no_event_is_put_aside(body: bytes) -> None:
    [element] = parse_stripe_events(STRIPE, body)
    assert isinstance(element, Quarantined)


@pytest.mark.parametrize("body", [b"", b"  ", b'{"a":NaN}', b'{"type":', b'{"a":1,"a":2}'])
def test_c13_broken_json(body: bytes) -> None:
    with pytest.raises(NotJson):
        parse_stripe_events(STRIPE, body)


def test_standard_webhooks_are_known_by_their_message_and_place() -> None:
    events = [stripe_event(), stripe_event()]
    first, second = parse_standard_callbacks(STRIPE, "msg_1", json.dumps(events).encode())
    assert (first.dedupe_key, second.dedupe_key) == ("msg_1", "msg_1#1")
    with pytest.raises(InvalidInput):
        parse_standard_callbacks(STRIPE, "a b", b"{}")


@given(st.one_of(st.binary(), JSON_VALUES.map(lambda value: json.dumps(value).encode())))
@settings(deadline=None)
def test_anything_raises_only_the_typed_errors(body: bytes) -> None:
    with suppress(InvalidInput):
        assert all(map(storable_everywhere, parse_stripe_events(STRIPE, body)))


@given(
    st.dictionaries(st.sampled_from(["id", "type", "request", "data", "metadata"]), JSON_VALUES),
    st.one_of(TEXT, st.just(KEY)),
)
@settings(deadline=None)
def test_nearly_right_events_give_one_storable_value(changes: dict[str, Any], key: str) -> None:
    assert storable_everywhere(parsed(stripe_event(**{"metadata": {"operation_key": key}, **changes})))
