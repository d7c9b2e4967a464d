"""Stripe's form encoding: `a[b]=v` for objects, `a[]=v` and `a[0]=v` for lists."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import parse_qsl

from sandbox.stripe_errors import StripeRefusal
from sandbox.wire import Json

_KEY = re.compile(r"([^\[\]]+)((?:\[[^\[\]]*\])*)")
# nesting deeper than any documented parameter; also bounds recursion
_DEEPEST = 12


def decoded(body: bytes) -> Json:
    """Raises Stripe's 400 for a body that is not a form or contradicts itself."""
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=bool(body), max_num_fields=1000)
    except ValueError as error:
        raise StripeRefusal(400, "Invalid request: the body is not form-encoded") from error
    return nested(pairs)


def nested(pairs: Iterable[tuple[str, str]]) -> Json:
    tree: Json = {}
    for key, value in pairs:
        _place(tree, _parts(key), value)
    return {name: _lists(value) for name, value in tree.items()}


def _parts(key: str) -> list[str]:
    found = _KEY.fullmatch(key)
    parts = [found[1], *re.findall(r"\[([^\[\]]*)\]", found[2])] if found else []
    if not 0 < len(parts) <= _DEEPEST:
        raise StripeRefusal(400, f"Invalid request: cannot read the parameter {key}", param=key)
    return parts


def _place(tree: Json, parts: list[str], value: str) -> None:
    node = tree
    for part in parts[:-1]:
        node = node.setdefault(part, {})
        if not isinstance(node, dict):
            raise StripeRefusal(400, f"Invalid request: {parts[0]} is given as text and as a hash", param=parts[0])
    last = parts[-1] or str(len(node))
    if isinstance(node.get(last), dict):
        raise StripeRefusal(400, f"Invalid request: {parts[0]} is given as text and as a hash", param=parts[0])
    node[last] = value


def _lists(value: object) -> object:
    """A hash whose keys are all numbers becomes a list."""
    if not isinstance(value, dict):
        return value
    if value and all(key.isdigit() for key in value):
        return [_lists(value[key]) for key in sorted(value, key=int)]
    return {key: _lists(part) for key, part in value.items()}
