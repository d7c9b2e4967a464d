"""The elements of one JSON body and their fields, read strictly: a refusal names the field, never the value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from domain.canonical import Json, NotJson, number_text, parse
from domain.errors import CounterfoilError, InvalidInput
from domain.identity import short_digest

MAX_ELEMENTS = 1000
"""Ten times what any sender documents: a body above it is not a batch of theirs."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS = re.compile(r"(0|[1-9][0-9]{0,19})\Z")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class TooManyElements(CounterfoilError):
    """The batch has more than `limit` elements; none was read."""

    status = 413
    code = "too_many_elements"

    def __init__(self, limit: int) -> None:
        super().__init__(f"body: at most {limit} elements", next_actions=("send a smaller batch",), limit=limit)


def elements_of(body: bytes) -> Sequence[Json]:
    """The elements of a top-level array; anything else is one element. Raises NotJson or TooManyElements."""
    value = parse(body)
    elements = value if isinstance(value, list) else [value]
    if len(elements) > MAX_ELEMENTS:
        raise TooManyElements(MAX_ELEMENTS)
    return elements


def fields_of(name: str, value: Json) -> Mapping[str, Json]:
    """The fields of an object. Raises InvalidInput."""
    if not isinstance(value, Mapping):
        raise InvalidInput(name, "an object")
    return value


def exact_id(name: str, value: Json) -> str:
    """An id as its digits, whether sent as a number or as text: one id, one spelling. Raises InvalidInput."""
    digits = whole_text(value)
    if not _DIGITS.match(digits):
        raise InvalidInput(name, "a whole number of at most 20 digits, written without sign, point or exponent")
    return digits


def whole_text(value: Json) -> str:
    """Text, or the digits of a whole number; anything else is empty."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return ""
    return str(value)


def instant(name: str, value: Json) -> datetime:
    """A time from milliseconds since 1970. Raises InvalidInput."""
    try:
        return _EPOCH + timedelta(milliseconds=int(exact_id(name, value)))
    except OverflowError:
        raise InvalidInput(name, "milliseconds of a year up to 9999") from None


def printable(name: str, value: Json) -> str:
    """A name or id: 1 to 255 printable characters without blanks around. Raises InvalidInput."""
    text = whole_text(value)
    if not 1 <= len(text) <= 255 or text != text.strip() or not text.isprintable():
        raise InvalidInput(name, "1 to 255 printable characters without blanks around")
    return text


def value_text(name: str, value: Json) -> str | None:
    """A property's value as text: null stays null, empty stays empty. Raises InvalidInput for a nested value."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | Decimal):
        return _number(name, value)
    raise InvalidInput(name, "text, a number or null, not nested")


def _number(name: str, value: int | Decimal) -> str:
    try:
        return number_text(value)
    except NotJson:
        raise InvalidInput(name, "a number that can be written out") from None


def storable(text: str) -> str:
    """The text with U+FFFD for what no text column can hold (NUL, half a surrogate pair)."""
    return _UNSTORABLE.sub("\ufffd", text)


def is_storable(text: str) -> bool:
    """Whether `storable` would leave the text as it is."""
    return not _UNSTORABLE.search(text)


def element_digest(element: Json) -> str:
    """A key for an element that has none of its own: equal for equal content in any order of keys, at any depth."""
    return short_digest(*_tokens(element))


def _tokens(element: Json) -> Iterator[str]:
    # By hand rather than by recursion: the sender chooses the depth.
    pending = [element]
    while pending:
        token, parts = _opened(pending.pop())
        pending.extend(parts)
        yield token


def _opened(value: Json) -> tuple[str, list[Json]]:
    if isinstance(value, Mapping):
        return f"object:{len(value)}", [part for name in sorted(value) for part in (value[name], name)]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"array:{len(value)}", list(value)
    return f"{type(value).__name__}:{value}", []
