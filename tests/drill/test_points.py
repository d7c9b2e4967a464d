"""Schedules as text, the names of boundaries, and what is chosen of everything that can happen."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from domain.boundaries import Boundary, Side, boundary
from drill.lanes import Done
from drill.names import CODE, UnnamedBoundary, names_in, names_in_code
from drill.plan import ALWAYS, NamesDiffer, compare_names, sample, schedules
from drill.points import NotASchedule, Schedule, parsed
from drill.table import last
from drill.verdict import Verdict

ROOT = Path(__file__).parents[2]
TEXTS = ["stripe/straight", "stripe/straight/kill@permit.1.after", "stripe/amended/doubt@save-answer.2.before"]


@pytest.mark.parametrize("text", TEXTS)
def test_a_schedule_is_its_text(text: str) -> None:
    assert str(parsed(text)) == text


@pytest.mark.parametrize(
    "text", ["", "stripe", "stripe/straight/kill", "stripe/straight/kill@permit.x.after", "a/b/c@d"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(NotASchedule):
        parsed(text)


def test_a_boundary_without_hook_is_nothing_at_all() -> None:
    assert Boundary.hook is None
    assert boundary("permit") is boundary("send", "run-1")


def test_a_failed_block_has_no_point_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    come: list[tuple[str, Side]] = []
    monkeypatch.setattr(Boundary, "hook", staticmethod(lambda entered, side: come.append((entered.name, side))))
    with boundary("done"):
        pass
    with pytest.raises(ZeroDivisionError), boundary("failed"):
        _ = 1 / 0
    assert come == [("done", "before"), ("done", "after"), ("failed", "before")]


def test_a_name_must_stand_where_it_is_entered(tmp_path: Path) -> None:
    path = tmp_path / "entering.py"
    path.write_text('with boundary("one"), boundary("two", run_id):\n    pass\n')
    assert set(names_in(path)) == {"one", "two"}
    path.write_text("with boundary(name):\n    pass\n")
    with pytest.raises(UnnamedBoundary):
        set(names_in(path))


WRITES = {"write"}
"""Methods of the store that run a transaction which keeps something."""


@pytest.mark.parametrize("package", [name for name in CODE if name not in ("drill", "business_store", "connectors")])
def test_every_transaction_that_keeps_something_stands_in_a_boundary(package: str) -> None:
    bare = [place for path in (ROOT / package).rglob("*.py") for place in _bare_writes(path)]
    assert bare == []


def _bare_writes(path: Path) -> list[str]:
    tree = ast.parse(path.read_text())
    within = {id(inner) for node in ast.walk(tree) if _enters(node) for inner in ast.walk(node)}
    written = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and _writes(node)]
    return [f"{path.name}:{node.lineno}" for node in written if id(node) not in within]


def _enters(node: ast.AST) -> bool:
    """A block of one boundary, or of an ExitStack that enters several."""
    if not isinstance(node, ast.With):
        return False
    named = {c.func.id for c in map(_called, node.items) if c is not None and isinstance(c.func, ast.Name)}
    return "boundary" in named or ("ExitStack" in named and any(map(_is_boundary, ast.walk(node))))


def _called(item: ast.withitem) -> ast.Call | None:
    return item.context_expr if isinstance(item.context_expr, ast.Call) else None


def _is_boundary(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "boundary"


def _writes(node: ast.Attribute) -> bool:
    of = node.value
    named = of.attr if isinstance(of, ast.Attribute) else getattr(of, "id", "")
    return node.attr in WRITES and named.lstrip("_") == "store"


def _recorded(*trace: str, schedule: str = "stripe/straight") -> Done:
    return Done(Verdict(parsed(schedule)), trace)


def _lines(name: str) -> tuple[str, str]:
    return f"{name}.1.before", f"{name}.1.after"


def test_names_that_only_the_code_or_only_a_run_has_are_told() -> None:
    all_of_them = [_recorded(*_lines(name)) for name in names_in_code()]
    compare_names(all_of_them)
    with pytest.raises(NamesDiffer, match="permit"):
        compare_names([done for done in all_of_them if "permit.1.before" not in done.trace])
    with pytest.raises(NamesDiffer, match="unheard-of"):
        compare_names([*all_of_them, _recorded(*_lines("unheard-of"))])


def test_everything_that_can_happen_at_a_point_is_a_schedule() -> None:
    found = schedules([_recorded("facts.1.before", "facts store", "facts.1.after", "take-lease.2.before")])
    assert [str(each) for each in found] == [
        f"stripe/straight/{done}"
        for done in ("cut@facts.1.before", "doubt@facts.1.before", "kill@facts.1.after", "kill@facts.1.before")
    ]


def test_a_seed_chooses_the_same_and_another_one_others() -> None:
    every = schedules([_recorded(*(f"step.{n}.{side}" for n in range(9) for side in ("before", "after")))])
    first = sample(every, 5, "1")
    assert first == sample(every, 5, "1")
    assert first != sample(every, 5, "2")
    assert set(ALWAYS) <= set(sample([*every, *ALWAYS], 5, "1"))


def test_the_last_line_sums_up() -> None:
    verdicts = [Verdict(Schedule("stripe", "straight"), duplicates=1), Verdict(Schedule("stripe", "amended"), wrong=2)]
    assert last(verdicts) == "drill: 2 schedules, 1 duplicates, 0 losses, 2 wrong states, 0 audit violations"
    assert [each.passed for each in verdicts] == [False, False]


@pytest.mark.parametrize(("point", "passed"), [("facts.4.before", True), ("permit.1.before", False)])
def test_only_a_first_time_has_to_come(point: str, passed: bool) -> None:
    assert Verdict(parsed(f"stripe/straight/kill@{point}"), missed=True).passed is passed
