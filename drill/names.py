"""The names of all boundaries, as the code has them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from drill.ground import ROOT

ENTERED = "boundary"
CODE = ("activities", "business_store", "cli", "connectors", "drill", "gateway", "sweep", "workflows")
"""Packages whose processes are drilled."""


class UnnamedBoundary(Exception):
    """A boundary is entered under a name that is no literal: permitted next action, write the name where it stands."""


def names_in_code() -> frozenset[str]:
    """Every name under which a boundary is entered. Raises UnnamedBoundary."""
    return frozenset(name for package in CODE for path in (ROOT / package).rglob("*.py") for name in names_in(path))


def names_in(path: Path) -> Iterator[str]:
    """The names that this file enters. Raises UnnamedBoundary."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == ENTERED:
            yield _literal(path, node)


def _literal(path: Path, call: ast.Call) -> str:
    first = call.args[0] if call.args else None
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        return first.value
    raise UnnamedBoundary(f"{path}:{call.lineno}")
