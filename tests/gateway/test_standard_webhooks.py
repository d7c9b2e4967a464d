"""Partner requests as Standard Webhooks: inputs come with the message."""

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inbound_samples import fixture_bytes, partner_request
from json_values import JSON_VALUES, TEXT, storable_everywhere

from domain.canonical import NotJson
from domain.deliveries import Change, Delivery, Quarantined
from domain.errors import InvalidInput
from domain.identity import SubjectRef
from gateway.standard_webhooks import parse_standard_webhook

MESSAGE = "msg_test_000731"


def parsed(event: Any) -> Delivery | Quarantined:  # noqa: ANN401
    [element] = parse_standard_webhook(MESSAGE, json.dumps(event).encode())
    return element


def delivery(event: Any) -> Delivery:  # noqa: ANN401
    element = parsed(event)
    assert isinstance(element, Delivery), element
    return element


def reason(event: Any) -> str:  # noqa: ANN401
    element = parsed(event)
    assert isinstance(element, Quarantined), element
    assert (element.index, element.dedupe_key) == (0, MESSAGE)
    return element.reason


def test_a_submitted_request() -> None:
    [element] = parse_standard_webhook(MESSAGE, fixture_bytes("partner_request_submitted.json"))
    assert element == Delivery(
        index=0,
        dedupe_key=MESSAGE,
        change=Change.SUBMITTED,
        subject=SubjectRef("standard-webhooks", "default", "request", "preq_731"),
        occurred_at=datetime(2026, 11, 2, 9, 15, 4, tzinfo=UTC),
        by="standard-webhooks:anna.k",
        inputs={
            "name": "Jörg Söhne & Co",
            "country": "DE",
            "share": "1.1",
            "employees": "12",
            "phone": None,
            "description": "",
        },
        marker=MESSAGE,
    )


def test_an_amended_request() -> None:
    assert delivery({**partner_request(), "type": "partner_request.amended"}).change is Change.PROPERTY


def test_the_author_may_be_missing_but_not_unreadable() -> None:
    assert delivery(partner_request(requested_by=None)).by is None
    for bad in ("", " ", "a\x00", {"name": "x"}, True, 1.5):
        assert reason(partner_request(requested_by=bad)).startswith("data.requested_by:")


@pytest.mark.parametrize("bad", [None, "", " preq", "a\nb", "a\x00", "a\ud83d", "x" * 256, 1.5, True, ["a"]])
def test_an_id_that_is_no_key(bad: object) -> None:
    assert reason(partner_request(id=bad)).startswith("data.id:")


def test_c15_the_id_may_be_a_number_of_any_size() -> None:
    assert (
        delivery(partner_request(id=9007199254740993)).subject
        == delivery(partner_request(id="9007199254740993")).subject
    )


@pytest.mark.parametrize("kind", ["partner_request.withdrawn", "", None, 7, {}])
def test_an_unknown_type(kind: object) -> None:
    assert reason({**partner_request(), "type": kind}).startswith("type:")


@pytest.mark.parametrize(
    "stamp",
    [
        "2026-11-02T09:15:04",
        "2026-11-02",
        "",
        "soon",
        None,
        1793000406,
        "0001-01-01T00:00:00+23:59",
        "2026-11-02T09:15Z\x00",
    ],
)
def test_c93_a_time_without_offset_is_refused(stamp: object) -> None:
    assert reason({**partner_request(), "timestamp": stamp}).startswith("timestamp:")


def test_c93_an_offset_gives_one_instant() -> None:
    utc, east = ({**partner_request(), "timestamp": t} for t in ("2026-11-02T09:15:04Z", "2026-11-02T14:45:04+05:30"))
    assert delivery(utc) == delivery(east)


def test_c19_absent_null_and_empty_inputs_stay_apart() -> None:
    assert delivery(partner_request(inputs={})).inputs == {}
    assert delivery(partner_request(inputs={"phone": None})).inputs == {"phone": None}
    assert delivery(partner_request(inputs={"phone": ""})).inputs == {"phone": ""}


@pytest.mark.parametrize("bad", [{"a": 1}, ["a"], True, "a\x00b", "a\ud83d"])
def test_c16_an_input_is_never_repaired(bad: object) -> None:
    assert reason(partner_request(inputs={"name": "x", "iban": bad})).startswith("data.inputs.iban:")


def test_c16_harmless_text_is_left_alone() -> None:
    assert delivery(partner_request(inputs={"name": r"Ac\u0000me"})).inputs == {"name": r"Ac\u0000me"}


@pytest.mark.parametrize("inputs", [None, [], "x", {"a b": "x"}, {"": "x"}, {"a\x00": "x"}, {"x" * 65: "x"}])
def test_inputs_must_be_a_flat_object(inputs: object) -> None:
    assert reason(partner_request(inputs=inputs)).startswith("data.inputs:")


@pytest.mark.parametrize("body", [b"null", b"7", b'"x"', b"{}", b"[[]]", b'{"type":"partner_request.submitted"}'])
def test_c13_json_that_is_no_event_is_quarantined(body: bytes) -> None:
    [element] = parse_standard_webhook(MESSAGE, body)
    assert isinstance(element, Quarantined)


def test_c13_no_event() -> None:
    assert parse_standard_webhook(MESSAGE, b"[]") == []


@pytest.mark.parametrize("body", [b"", b"  ", b'{"a":NaN}', b'{"type":', b'{"a":1,"a":2}'])
def test_c13_broken_json(body: bytes) -> None:
    with pytest.raises(NotJson):
        parse_standard_webhook(MESSAGE, body)


@pytest.mark.parametrize("message", ["", " ", "a b", "a\n", "é", "x" * 256])
def test_a_message_id_that_is_no_key(message: str) -> None:
    with pytest.raises(InvalidInput):
        parse_standard_webhook(message, b"{}")


@given(st.one_of(TEXT, st.just(MESSAGE)), st.one_of(st.binary(), JSON_VALUES.map(lambda v: json.dumps(v).encode())))
@settings(deadline=None)
def test_anything_raises_only_the_typed_errors(message: str, body: bytes) -> None:
    with suppress(InvalidInput):
        assert all(map(storable_everywhere, parse_standard_webhook(message, body)))


@given(st.dictionaries(st.sampled_from(["id", "inputs", "requested_by"]), JSON_VALUES), JSON_VALUES)
@settings(deadline=None)
def test_nearly_right_requests_give_one_storable_value(data: dict[str, Any], stamp: Any) -> None:  # noqa: ANN401
    assert storable_everywhere(parsed(partner_request(**data)))
    assert storable_everywhere(parsed({**partner_request(**data), "timestamp": stamp}))
