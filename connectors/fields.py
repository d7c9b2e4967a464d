"""Fields as they go into a request body."""

from __future__ import annotations

from collections.abc import Mapping

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
