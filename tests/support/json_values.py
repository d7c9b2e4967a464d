"""Any JSON value, the nasty ones included."""

from dataclasses import fields, is_dataclass
from typing import Any

from hypothesis import strategies as st

TEXT = st.text(st.one_of(st.characters(), st.sampled_from("\x00\ud800\udfff\ufeff")), max_size=8)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXT,
    st.sampled_from(["1", "-1", "1e3", "9007199254740993", 2**70, 1e300, "0-2", "object.merge", "userId:1"]),
)
JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=8
)


def storable_everywhere(value: Any) -> bool:  # noqa: ANN401
    """Whether PostgreSQL can hold every text in a frozen value: UTF-8 without NUL."""
    if isinstance(value, str):
        return "\x00" not in value and value == value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return all(storable_everywhere(part) for pair in value.items() for part in pair)
    if isinstance(value, tuple):
        return all(map(storable_everywhere, value))
    if is_dataclass(value):
        return all(storable_everywhere(getattr(value, each.name)) for each in fields(value))
    return True
