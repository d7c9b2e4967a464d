"""Fields as they go into a request body."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from domain.contracts import Contract, Keyed, Upsert
from domain.errors import InvalidInput

Fields = Mapping[str, str | None]


def present(fields: Fields, *required: str) -> dict[str, str]:
    """The fields with a value, empty text being none. Raises InvalidInput for a missing or unencodable one."""
    given = {name: value for name, value in fields.items() if value}
    for name in required:
        if name not in given:
            raise InvalidInput(name, "given")
    for name, value in given.items():
        if not _encodable(value):
            raise InvalidInput(name, "text without lone surrogates and NUL")
    return given


def _encodable(value: str) -> bool:
    return "\0" not in value and not any("\ud800" <= sign <= "\udfff" for sign in value)


def fitting(key: str, contracts: Iterable[Contract]) -> str:
    """Our key, if it is no longer than each of these contracts takes. Raises InvalidInput."""
    longest = min((each.key.longest for each in contracts if isinstance(each, Keyed | Upsert)), default=len(key))
    if len(key) > longest:
        raise InvalidInput("key", f"at most {longest} characters")
    return key
