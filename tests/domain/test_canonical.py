"""One meaning has one spelling, and bytes that two readers could understand differently are refused."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.canonical import (
    MAX_DEPTH,
    MAX_DIGITS,
    Json,
    NotJson,
    canonical_bytes,
    fingerprint,
    number_text,
    parse,
    sha256,
)


def canonical(raw: bytes) -> bytes:
    return canonical_bytes(parse(raw))


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"1.10", "1.1"),
        (b"1.1", "1.1"),
        (b"1E2", "100"),
        (b"100.00", "100"),
        (b"1e-7", "0.0000001"),
        (b"-0", "0"),
        (b"-0.0", "0"),
        (b"0e5", "0"),
        (b"-1.50", "-1.5"),
        (b"9007199254740993", "9007199254740993"),
        (b"7615917337495251231", "7615917337495251231"),
        (b"0.1000000000000000055511151231257827", "0.1000000000000000055511151231257827"),
    ],
)
def test_c08_c15_numbers_keep_every_digit_and_lose_every_accident(raw: bytes, text: str) -> None:
    assert canonical(raw) == b'"' + text.encode() + b'"'


def test_c15_the_number_and_the_text_of_an_id_are_one_meaning() -> None:
    assert canonical(b'{"objectId": 9007199254740993}') == canonical(b'{"objectId": "9007199254740993"}')


def test_c08_spacing_escapes_and_key_order_are_not_meaning() -> None:
    sent = b'{ "amount": 1.10, "n":"J\\u00f6rg" , "e":1E2}'
    assert canonical(sent) == canonical('{"e":100,"n":"Jörg","amount":1.1}'.encode())
    assert canonical(sent) == '{"amount":"1.1","e":"100","n":"Jörg"}'.encode()


def test_keys_are_ordered_by_utf_16_units_as_rfc_8785_says() -> None:
    assert canonical('{"\ufb33": 1, "😀": 2, "1": 3}'.encode()) == '{"1":"3","😀":"2","\ufb33":"1"}'.encode()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"  ",
        b"NaN",
        b'{"a":NaN}',
        b"[Infinity]",
        b"-Infinity",
        b'{"a":1,"a":1}',
        b'[{"b":{"a":1,"\\u0061":2}}]',
        b'{"a":',
        b"01",
        b"1 2",
        b'{"a":1,}',
        b"\xff",
        b'"\xed\xa0\xbd"',
        b"\xef\xbb\xbf\xef\xbb\xbf{}",
        b'"a\x00b"',
        b"1e99999999999999999999",
        b"1" * 5000,
        b"[" * 100_000,
        b'{"a":' * 100_000,
    ],
    ids=lambda raw: repr(raw[:24]),
)
def test_c13_what_two_readers_would_read_differently_is_refused(raw: bytes) -> None:
    with pytest.raises(NotJson) as refused:
        parse(raw)
    assert refused.value.status == 422


@pytest.mark.parametrize("raw", [b"null", b"[]", b"7", b'"x"', b"{}", b"[[]]", b"\xef\xbb\xbf{}"])
def test_c13_any_one_json_value_is_parsed_also_after_a_byte_order_mark(raw: bytes) -> None:
    assert parse(raw) == json.loads(raw.decode("utf-8-sig"))


@pytest.mark.parametrize("raw", [b"1e401", b"1e-401", b"0e-500", b"1E+999999999999999999", b"0." + b"1" * 5000])
def test_an_exponent_never_becomes_a_page_of_zeros(raw: bytes) -> None:
    with pytest.raises(NotJson):
        canonical(raw)


def test_the_longest_permitted_numbers_are_written_out() -> None:
    assert len(number_text(Decimal(f"1e{MAX_DIGITS}"))) == MAX_DIGITS + 1
    assert len(number_text(Decimal(f"1e-{MAX_DIGITS}"))) == MAX_DIGITS + 2


@pytest.mark.parametrize("number", ["NaN", "sNaN", "Infinity", "-Infinity"])
def test_a_decimal_that_is_no_number_is_refused(number: str) -> None:
    with pytest.raises(NotJson):
        canonical_bytes({"amount": Decimal(number)})


def test_nesting_is_limited_whatever_the_stack_leaves() -> None:
    def nested(depth: int) -> bytes:
        return b"[" * depth + b"]" * depth

    assert canonical(nested(MAX_DEPTH)) == nested(MAX_DEPTH)
    with pytest.raises(NotJson):
        canonical(nested(MAX_DEPTH + 1))


@pytest.mark.parametrize("value", [1.5, b"ab", {"a": {1}}, object()], ids=["float", "bytes", "set", "object"])
def test_a_value_that_is_not_json_is_refused_and_not_guessed(value: Json) -> None:
    with pytest.raises(NotJson):
        canonical_bytes(value)


@pytest.mark.parametrize("raw", [rb'"x\ud83d"', rb'{"x\ud83d":1}', rb'[1,"\udc00"]'])
def test_c16_a_lone_surrogate_is_readable_and_has_no_canonical_form(raw: bytes) -> None:
    value = parse(raw)
    with pytest.raises(NotJson):
        canonical_bytes(value)


def test_c16_nul_and_the_text_that_looks_like_it_stay_apart() -> None:
    assert canonical(rb'"Ac\u0000me"') == rb'"Ac\u0000me"'
    assert canonical(rb'"Ac\\u0000me"') == rb'"Ac\\u0000me"'
    assert canonical(rb'"\ud83d\ude00"') == '"😀"'.encode()


def test_fingerprint_is_the_published_sha256() -> None:
    assert fingerprint(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert fingerprint(b"abc") == sha256(b"abc").hex()


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NUMBERS = st.integers(-(10**20), 10**20) | st.decimals(
    allow_nan=False, allow_infinity=False, min_value=-99, max_value=99
)
VALUES: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


def meaning(value: object) -> object:
    """What a value says, in terms that owe nothing to the code under test: exact fractions instead of spellings."""
    if isinstance(value, bool) or value is None:
        return ("constant", value)
    if isinstance(value, int | Decimal):
        return ("scalar", plain(Decimal(value)))
    if isinstance(value, str):
        return ("scalar", value)
    if isinstance(value, dict):
        return ("object", frozenset((name, meaning(inner)) for name, inner in value.items()))
    assert isinstance(value, list)
    return ("array", tuple(meaning(inner) for inner in value))


def plain(number: Decimal) -> str:
    numerator, denominator = number.as_integer_ratio()
    places = next(places for places in range(2000) if 10**places % denominator == 0)
    digits = str(abs(numerator) * (10**places // denominator)).rjust(places + 1, "0")
    sign = "-" if numerator < 0 else ""
    return sign + (f"{digits[:-places]}.{digits[-places:]}" if places else digits)


@settings(deadline=None, derandomize=True, max_examples=300)
@given(VALUES, VALUES)
def test_fingerprints_are_equal_exactly_when_the_meaning_is(one: Json, other: Json) -> None:
    equal = fingerprint(canonical_bytes(one)) == fingerprint(canonical_bytes(other))
    assert equal == (meaning(one) == meaning(other))


@settings(deadline=None, derandomize=True, max_examples=300)
@given(VALUES)
def test_canonical_bytes_are_stable_json_whatever_the_spelling(value: Json) -> None:
    once = canonical_bytes(value)
    assert canonical_bytes(parse(once)) == once
    spelled = json.dumps(parse(once), indent=2, ensure_ascii=True).encode()
    assert canonical(spelled) == once
