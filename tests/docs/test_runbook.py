"""docs/runbook.md has an entry for every reason that the code can give an operator, and for no other."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from domain.errors import CredentialRefused, ReadFailed, Throttled

ROOT = Path(__file__).parents[2]
PACKAGES = ("activities", "business_store", "domain", "gateway", "sweep", "workflows", "cli")
PRODUCERS = {"AskOperator": 0, "ask_operator": 2, "_operator": 0}
"""Functions that take the reason itself, and which argument it is."""
FORWARDED = {
    ("domain/recovery.py", "AskOperator", "alarm"),
    ("business_store/ledger.py", "to_operator", "call.step, reason"),
    ("business_store/ledger.py", "to_operator", "step.step, 'subjects_merged'"),
    ("business_store/ledger.py", "to_operator", "sendable.step, refused.code"),
    ("business_store/waiting.py", "to_operator", "step, code"),
    ("business_store/waiting.py", "Move", "reason"),
    ("business_store/settlements.py", "_operator", "reason"),
    ("business_store/settlements.py", "_made", "reason"),
    ("business_store/reviews.py", "Move", "f'{reason}_in_doubt'"),
}
"""Places that hand a reason on which another place gave. A new one has to be understood here first."""


@cache
def trees() -> dict[str, ast.Module]:
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in paths}


def calls(wanted: str) -> Iterator[tuple[str, ast.Call]]:
    for where, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and name_of(node.func) == wanted:
                yield where, node


def name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def texts(node: ast.AST) -> list[str]:
    return [each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)]


def given() -> Iterator[tuple[str, str, ast.expr]]:
    """Every expression that becomes the reason of a run that needs an operator: file, producer, expression."""
    for producer, position in PRODUCERS.items():
        for where, call in calls(producer):
            yield where, producer, call.args[position]
    for where, call in calls("to_operator"):
        yield where, "to_operator", call.args[3]
    for producer in ("Move", "_made"):
        for where, call in calls(producer):
            to = [n for n, argument in enumerate(call.args) if name_of(argument) == "NEEDS_OPERATOR"]
            if to:
                yield where, producer, call.args[to[0] + 1]


def is_text(node: ast.expr) -> bool:
    either = isinstance(node, ast.IfExp) and is_text(node.body) and is_text(node.orelse)
    return either or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def unparsed(node: ast.expr) -> str:
    return ast.unparse(node).strip("()")


def alarms() -> list[str]:
    (alarm,) = [n for n in ast.walk(trees()["domain/recovery.py"]) if getattr(n, "name", "") == "_alarm"]
    (reasons,) = [n for n in ast.walk(alarm) if isinstance(n, ast.Dict)]
    return [text for key in reasons.keys if key is not None for text in texts(key)]


def refused_permits() -> list[str]:
    """Refusals that go to an operator, whose codes the ledger hands on."""
    to_operator = [c for _, c in calls("Refused") if len(c.args) > 1 and name_of(c.args[1]) == "OPERATOR"]
    assert all(is_text(call.args[0]) for call in to_operator)
    values = [call.args[0] for call in to_operator]
    return [text for value in values for text in (branches(value))]


def branches(value: ast.expr) -> list[str]:
    return [*branches(value.body), *branches(value.orelse)] if isinstance(value, ast.IfExp) else texts(value)


def ends_in_doubt() -> list[str]:
    return [f"{text}_in_doubt" for _, call in calls("_over") if len(call.args) > 1 for text in texts(call.args[1])]


WAITED_OUT = (CredentialRefused, Throttled)
"""Every run waits for these, however often they are met."""


def unreadable() -> list[str]:
    """A failed read's code, after the last try."""
    kinds: list[type[ReadFailed]] = [ReadFailed, *ReadFailed.__subclasses__()]
    return [kind.code for kind in kinds if kind not in WAITED_OUT]


def reasons() -> set[str]:
    literal = [text for _, _, value in given() if is_text(value) for text in branches(value)]
    return {*literal, *alarms(), *refused_permits(), *ends_in_doubt(), *unreadable()}


def documented(page: str) -> list[str]:
    return re.findall(r"^### `(\w+)`$", page, re.MULTILINE)


PAGE = (ROOT / "docs" / "runbook.md").read_text()


def test_every_reason_has_one_entry_and_none_is_invented() -> None:
    assert sorted(documented(PAGE)) == sorted(reasons())


def test_a_reason_comes_from_no_place_that_is_not_known_here() -> None:
    forwarded = {(where, producer, unparsed(value)) for where, producer, value in given() if not is_text(value)}
    assert forwarded == FORWARDED


@pytest.mark.parametrize("reason", sorted(reasons()))
def test_every_entry_says_what_it_means_and_what_to_do(reason: str) -> None:
    entry = PAGE.split(f"### `{reason}`\n")[1].split("\n#")[0]
    assert len(entry.split()) >= 15


def test_the_collector_finds_reasons_of_every_kind() -> None:
    kinds = {"provider_rejected", "several_records", "subjects_merged", "no_version", "rejected_in_doubt"}
    assert kinds | {"execution_lost", "read_failed", "own_defect", "records_disagree", "no_recovery"} <= reasons()
