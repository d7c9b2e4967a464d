"""One spelling for one meaning: strict JSON in, canonical bytes and their fingerprint out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias

import rfc8785

from domain.errors import InvalidInput

Json: TypeAlias = "str | bool | int | Decimal | Sequence[Json] | Mapping[str, Json] | None"

MAX_DIGITS = 400
"""A number with more digits on either side of the point is refused: an exponent must not become a page of zeros."""

MAX_DEPTH = 100
"""Deeper nesting is refused, whatever room the stack happens to leave."""


class NotJson(InvalidInput):
    """The bytes are not one JSON value that two readers would understand alike."""

    code = "not_json"

    def __init__(self, problem: str) -> None:
        super().__init__("body", f"one JSON value that every reader understands alike ({problem})")


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    names = [name for name, _ in pairs]
    if len(names) != len(set(names)):
        raise NotJson("a key is repeated")
    return dict(pairs)


def _constant(name: str) -> Json:
    raise NotJson(f"{name} is not a number")


def parse(raw: bytes) -> Json:
    """The value in `raw` (UTF-8, a byte order mark is allowed). Numbers are int or Decimal, never float.

    Raises NotJson for anything Python's decoder would let through that others would not.
    """
    try:
        return json.loads(  # type: ignore[no-any-return]
            raw.decode("utf-8-sig"), parse_float=Decimal, parse_constant=_constant, object_pairs_hook=_object
        )
    except NotJson:
        raise
    except (ValueError, RecursionError, ArithmeticError) as problem:
        raise NotJson(type(problem).__name__) from None


def number_text(number: int | Decimal) -> str:
    """Integer digits, or a decimal without exponent or trailing zeros: 1.10 and 1.1 are one number."""
    exact = Decimal(number)
    if not exact.is_finite() or abs(exact.adjusted()) > MAX_DIGITS or len(exact.as_tuple().digits) > 2 * MAX_DIGITS:
        raise NotJson("a number is out of range")
    text = format(exact, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def _spelled(value: object, room: int = MAX_DEPTH) -> Json:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int | Decimal):
        return number_text(value)
    if room == 0:
        raise NotJson("nested too deep")
    if isinstance(value, Mapping):
        return {name: _spelled(inner, room - 1) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_spelled(inner, room - 1) for inner in value]
    raise NotJson(f"{type(value).__name__} has no JSON form")


def canonical_bytes(value: Json) -> bytes:
    """RFC 8785 bytes of `value`, every number first turned into a JSON string."""
    try:
        return rfc8785.dumps(_spelled(value))  # type: ignore[arg-type]
    except (rfc8785.CanonicalizationError, UnicodeError) as problem:
        raise NotJson(type(problem).__name__) from None


def sha256(raw: bytes) -> bytes:
    """The digest that stands beside every payload-bearing column."""
    return hashlib.sha256(raw).digest()


def fingerprint(canonical: bytes) -> str:
    """SHA-256 of canonical bytes as 64 hex digits. Never taken of a re-encoded value."""
    return sha256(canonical).hex()
