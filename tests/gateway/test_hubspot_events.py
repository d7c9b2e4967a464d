"""HubSpot batches: what each element becomes."""

import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inbound_samples import APP_ID, batch, fixture_bytes, hubspot_element
from json_values import JSON_VALUES, storable_everywhere

from domain.canonical import NotJson
from domain.deliveries import Change, Delivery, Quarantined
from domain.identity import SubjectRef
from gateway.elements import MAX_ELEMENTS, TooManyElements
from gateway.hubspot_events import parse_hubspot

COMPANY = SubjectRef("hubspot", "90210001", "0-2", "30100200300")


def only(body: bytes) -> Delivery:
    [element] = parse_hubspot(body, APP_ID)
    assert isinstance(element, Delivery), element
    return element


def refused(**changes: Any) -> Quarantined:  # noqa: ANN401
    [element] = parse_hubspot(batch(hubspot_element(**changes)), APP_ID)
    assert isinstance(element, Quarantined), element
    return element


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in hubspot_element().items() if key != name}


def keys(elements: Sequence[Delivery | Quarantined]) -> list[str]:
    return [element.dedupe_key for element in elements]


def test_the_generic_form() -> None:
    changed, created = parse_hubspot(fixture_bytes("hubspot_batch.json"), APP_ID)
    assert changed == Delivery(
        index=0,
        dedupe_key="90210001:object.propertyChange:30100200300:4100200301:1793000405123",
        change=Change.PROPERTY,
        subject=COMPANY,
        occurred_at=datetime(2026, 10, 26, 7, 40, 5, 123000, tzinfo=UTC),
        property_name="onboarding_stage",
        property_value="submitted",
        by="hubspot:61000001",
    )
    assert isinstance(created, Delivery)
    assert (created.index, created.change, created.by, created.own_echo) == (1, Change.CREATED, None, True)


def test_the_older_form_means_the_same_record() -> None:
    element = only(fixture_bytes("hubspot_batch_legacy_names.json"))
    assert (element.subject, element.change) == (COMPANY, Change.PROPERTY)


def test_event_type_is_read_where_subscription_type_is_missing() -> None:
    event = {**without("subscriptionType"), "eventType": "company.propertyChange"}
    assert only(batch(event)).change is Change.PROPERTY


@pytest.mark.parametrize(
    ("prefix", "type_id"), [("contact", "0-1"), ("company", "0-2"), ("deal", "0-3"), ("ticket", "0-5")]
)
def test_the_older_prefix_gives_the_object_type(prefix: str, type_id: str) -> None:
    event = {**without("objectTypeId"), "subscriptionType": f"{prefix}.creation"}
    assert only(batch(event)).subject.object_type == type_id


@pytest.mark.parametrize(
    ("event", "change"),
    [
        ("creation", Change.CREATED),
        ("restore", Change.CREATED),
        ("propertyChange", Change.PROPERTY),
        ("deletion", Change.DELETED),
        ("privacyDeletion", Change.DELETED),
    ],
)
def test_what_happened(event: str, change: Change) -> None:
    assert only(batch(hubspot_element(subscriptionType=f"object.{event}"))).change is change


def test_object_type_must_fit_the_prefix() -> None:
    assert refused(subscriptionType="contact.creation").reason.startswith("objectTypeId:")
    assert refused(objectTypeId=None).reason.startswith("objectTypeId:")


def test_a_single_object_is_one_element() -> None:
    assert only(json.dumps(hubspot_element()).encode()).subject == COMPANY


def test_own_echo_needs_the_integration_and_its_app() -> None:
    def echo(**changes: Any) -> bool:  # noqa: ANN401
        return only(batch(hubspot_element(**changes))).own_echo

    assert echo(changeSource="INTEGRATION", sourceId=APP_ID)
    assert echo(changeSource="INTEGRATION", sourceId=int(APP_ID))
    assert not echo(changeSource="INTEGRATION", sourceId="7700124")
    assert not echo(changeSource="IMPORT", sourceId=APP_ID)
    assert not echo(changeSource="CRM_UI", sourceId="userId:7700123")


def test_an_unset_app_id_is_nobodys() -> None:
    [element] = parse_hubspot(batch(hubspot_element(changeSource="INTEGRATION", sourceId="")), "")
    assert isinstance(element, Delivery)
    assert not element.own_echo


@pytest.mark.parametrize("source", ["7700123", "userId:", "userId:x", "userId:٣", "xuserId:1", None, 5, ["userId:1"]])
def test_only_a_user_is_an_author(source: object) -> None:
    assert only(batch(hubspot_element(sourceId=source))).by is None


def test_dedupe_key_ignores_the_attempt_and_nothing_else() -> None:
    first = hubspot_element()
    [same] = {key for n in range(3) for key in keys(parse_hubspot(batch({**first, "attemptNumber": n}), APP_ID))}
    others: list[dict[str, Any]] = [
        {"portalId": 1},
        {"objectId": 1},
        {"eventId": 1},
        {"occurredAt": 1},
        {"subscriptionType": "company.propertyChange"},
    ]
    found = {only(batch({**first, **other})).dedupe_key for other in others}
    assert len(found | {same}) == len(others) + 1


@pytest.mark.parametrize("name", ["portalId", "objectId", "eventId", "occurredAt", "propertyName", "subscriptionType"])
def test_c07_a_missing_field_is_named(name: str) -> None:
    [element] = parse_hubspot(batch(without(name)), APP_ID)
    assert isinstance(element, Quarantined)
    assert element.reason.startswith(f"{name}:")


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        (without("objectId"), "objectId:"),
        (hubspot_element(subscriptionType="object.wedding"), "subscriptionType:"),
        (hubspot_element(subscriptionType="conversation.creation"), "subscriptionType:"),
        (7, "element:"),
    ],
)
def test_c07_one_bad_element_of_five(bad: Any, named: str) -> None:  # noqa: ANN401
    good = [hubspot_element(eventId=n) for n in range(4)]
    body = batch(*good[:2], bad, *good[2:])
    elements = parse_hubspot(body, APP_ID)
    assert [type(element) for element in elements] == [Delivery, Delivery, Quarantined, Delivery, Delivery]
    assert [element.index for element in elements] == [0, 1, 2, 3, 4]
    assert isinstance(elements[2], Quarantined)
    assert elements[2].reason.startswith(named)
    assert len(set(keys(elements))) == 5
    assert keys(parse_hubspot(body, APP_ID)) == keys(elements)


def test_c07_a_redelivered_bad_element_has_the_same_key() -> None:
    bad = without("objectId")
    again = dict(reversed({**bad, "attemptNumber": 4}.items()))
    assert keys(parse_hubspot(batch(bad), APP_ID)) == keys(parse_hubspot(batch(again), APP_ID))
    assert keys(parse_hubspot(batch(bad), APP_ID)) != keys(parse_hubspot(batch({**bad, "eventId": 1}), APP_ID))


@pytest.mark.parametrize("body", [b"null", b"7", b'"x"', b"{}", b"[[]]", b"true", b"[null]"])
def test_c13_json_that_is_no_event_is_quarantined(body: bytes) -> None:
    [element] = parse_hubspot(body, APP_ID)
    assert isinstance(element, Quarantined)


@pytest.mark.parametrize(
    "body", [b"", b"  ", b'{"a":NaN}', b"[-Infinity]", b'[{"objectId":1', b'{"a":1,"a":2}', b"\xff\xfe[\x00]\x00"]
)
def test_c13_broken_json(body: bytes) -> None:
    with pytest.raises(NotJson):
        parse_hubspot(body, APP_ID)


def test_c13_no_events_and_a_byte_order_mark() -> None:
    assert parse_hubspot(b"[]", APP_ID) == []
    assert only(b"\xef\xbb\xbf" + batch(hubspot_element())).subject == COMPANY


def test_c14_a_thousand_elements_and_not_one_more() -> None:
    most = [hubspot_element(eventId=n) for n in range(MAX_ELEMENTS)]
    assert len(set(keys(parse_hubspot(batch(*most), APP_ID)))) == MAX_ELEMENTS
    with pytest.raises(TooManyElements):
        parse_hubspot(batch(*most, 1), APP_ID)


@pytest.mark.parametrize("digits", ["9007199254740993", "7615917337495251231", "18446744073709551615"])
def test_c15_number_and_text_are_one_subject(digits: str) -> None:
    number, text = (only(batch(hubspot_element(objectId=form))) for form in (int(digits), digits))
    assert number == text
    assert number.subject.object_id == digits


@pytest.mark.parametrize(
    "literal", ["1e3", "1.5", "5.0", "-1", "true", "null", '"1e3"', '"-1"', '" 1"', '"007"', '"٣"', '"1\\n"', "[1]"]
)
def test_c15_anything_but_digits_is_refused(literal: str) -> None:
    body = batch(hubspot_element(objectId="HERE")).replace(b'"HERE"', literal.encode())
    [element] = parse_hubspot(body, APP_ID)
    assert isinstance(element, Quarantined)
    assert element.reason.startswith("objectId:")


@pytest.mark.parametrize(
    ("literal", "text"), [("1.10", "1.1"), ("9007199254740993", "9007199254740993"), ("1E2", "100"), ("true", "true")]
)
def test_c15_amounts_stay_exact(literal: str, text: str) -> None:
    body = batch(hubspot_element(propertyValue="HERE")).replace(b'"HERE"', literal.encode())
    assert only(body).property_value == text


def test_c15_an_endless_number_and_a_nested_value_are_quarantined() -> None:
    for literal in (b"1e999999", b'{"amount": 1}', b"[1]"):
        [element] = parse_hubspot(batch(hubspot_element(propertyValue="HERE")).replace(b'"HERE"', literal), APP_ID)
        assert isinstance(element, Quarantined)
        assert element.reason.startswith("propertyValue:")


@pytest.mark.parametrize("occurred", [253402300800000, 10**19, -1, "soon", 1.5, None])
def test_occurred_at_out_of_range(occurred: object) -> None:
    assert refused(occurredAt=occurred).reason.startswith("occurredAt:")


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ("Ac\x00me", "Ac\ufffdme"),
        ("x\ud83d", "x\ufffd"),
        (r"Ac\u0000me", r"Ac\u0000me"),
        ("x\U0001f600", "x\U0001f600"),
    ],
)
def test_c16_value_goes_through_alone_and_as_second_of_three(value: str, kept: str) -> None:
    bad = hubspot_element(propertyValue=value, eventId=2)
    assert only(batch(bad)).property_value == kept
    three = parse_hubspot(batch(hubspot_element(), bad, hubspot_element(eventId=3)), APP_ID)
    assert [element.property_value for element in three if isinstance(element, Delivery)] == [
        "submitted",
        kept,
        "submitted",
    ]


@pytest.mark.parametrize("name", ["objectId", "propertyName", "objectTypeId", "subscriptionType", "portalId"])
@pytest.mark.parametrize("bad", ["a\x00", "a\ud83d"])
def test_c16_elsewhere_it_quarantines_that_element_alone(name: str, bad: str) -> None:
    first, second, third = parse_hubspot(
        batch(hubspot_element(), hubspot_element(**{name: bad}), hubspot_element(eventId=3)), APP_ID
    )
    assert isinstance(first, Delivery)
    assert isinstance(third, Delivery)
    assert isinstance(second, Quarantined)
    assert second.reason.startswith(f"{name}:")
    assert storable_everywhere(second)


def test_c19_null_and_empty_are_both_told() -> None:
    assert only(batch(hubspot_element(propertyValue=None))).property_value is None
    assert only(batch(without("propertyValue"))).property_value is None
    assert only(batch(hubspot_element(propertyValue=""))).property_value == ""


def merge(**ids: Any) -> bytes:  # noqa: ANN401
    return batch({**without("objectId"), "subscriptionType": "object.merge", **ids})


@pytest.mark.parametrize(
    ("new", "survivor", "gone"), [(305, "305", ["201", "202"]), (None, "201", ["202"]), (201, "201", ["202"])]
)
def test_c20_a_merge_names_survivor_and_all_others(new: int | None, survivor: str, gone: list[str]) -> None:
    element = only(merge(primaryObjectId=201, mergedObjectIds=[202, "202", 201], newObjectId=new))
    assert element.change is Change.MERGED
    assert element.subject == SubjectRef("hubspot", "90210001", "0-2", survivor)
    assert [each.object_id for each in element.merged_from] == gone


@pytest.mark.parametrize(
    ("ids", "named"),
    [
        ({"mergedObjectIds": [202]}, "primaryObjectId:"),
        ({"primaryObjectId": 201}, "mergedObjectIds:"),
        ({"primaryObjectId": 201, "mergedObjectIds": [201]}, "mergedObjectIds:"),
        ({"primaryObjectId": 201, "mergedObjectIds": [1.5]}, "mergedObjectIds:"),
        ({"primaryObjectId": 201, "mergedObjectIds": [202], "newObjectId": "x"}, "newObjectId:"),
    ],
)
def test_c20_a_merge_that_cannot_be_followed_is_quarantined(ids: dict[str, Any], named: str) -> None:
    [element] = parse_hubspot(merge(**ids), APP_ID)
    assert isinstance(element, Quarantined)
    assert element.reason.startswith(named)


def test_c20_the_object_id_of_a_merge_is_part_of_its_key() -> None:
    ids = {"primaryObjectId": 201, "mergedObjectIds": [202], "newObjectId": 305}
    found = {only(merge(**ids, **object_id)).dedupe_key for object_id in ({}, {"objectId": 201}, {"objectId": "202"})}
    assert len(found) == 3


def test_a_reason_never_holds_the_value() -> None:
    assert "secret-iban" not in refused(objectId="secret-iban").reason
    assert "secret-iban" not in refused(propertyValue={"secret-iban": 1}).reason


@given(st.binary())
@settings(deadline=None)
def test_arbitrary_bytes_raise_only_the_typed_error(body: bytes) -> None:
    with suppress(NotJson):
        assert isinstance(parse_hubspot(body, APP_ID), list)


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 900 + b"1" + b"}" * 900, b"[" * 900 + b"]" * 900])
def test_depth_is_no_way_in(body: bytes) -> None:
    try:
        [element] = parse_hubspot(body, APP_ID)
    except NotJson:
        return
    assert isinstance(element, Quarantined)


NEARLY = st.dictionaries(st.sampled_from([*hubspot_element(), "primaryObjectId", "mergedObjectIds"]), JSON_VALUES).map(
    lambda changes: hubspot_element(**changes)
)


@given(st.lists(st.one_of(NEARLY, JSON_VALUES), max_size=6))
@settings(deadline=None)
def test_any_batch_gives_one_storable_value_for_each_element(elements: list[Any]) -> None:
    found = parse_hubspot(batch(*elements), APP_ID)
    assert [element.index for element in found] == list(range(len(elements)))
    assert all(map(storable_everywhere, found))
    again = [{**each, "attemptNumber": 9} if isinstance(each, dict) else each for each in elements]
    assert keys(parse_hubspot(batch(*again), APP_ID)) == keys(found)
