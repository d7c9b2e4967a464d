"""Many runs resolved at once by the command, and by the gateway: the same items, the same results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from commands import Counterfoil
from people import Who
from store_builder import Book
from store_writes import WRITES, Written

WHY = ("--reason", "checked by hand", "--evidence", "ticket 4711", "--json")


@pytest.fixture
def asking(book: Book, supervisor: Who, operator: Who) -> list[str]:
    """Three runs that need an operator after a defect of ours."""
    made = [Written(book, str(number)) for number in (801, 802, 803)]
    for at in made:
        WRITES["own defect"][0](at)
        WRITES["own defect"][1](at)
    return [at.run_id for at in made]


def results(document: Sequence[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(each["run"], each["status"]) for each in document]


def test_all_runs_of_one_reason(book: Book, counterfoil: Counterfoil, operator: Who, asking: list[str]) -> None:
    said = counterfoil("resolve-all", "retry", "--reason-code", "own_defect", *WHY, token=operator.token)
    assert said.code == 0
    assert sorted(results(said.document)) == sorted((run_id, 200) for run_id in asking)
    assert {book.run(run_id).state for run_id in asking} == {"running"}
    nothing = counterfoil("resolve-all", "retry", "--reason-code", "own_defect", *WHY, token=operator.token)
    assert (nothing.code, nothing.document) == (0, [])


def test_each_record_outside_has_an_id_of_its_own(counterfoil: Counterfoil, operator: Who, asking: list[str]) -> None:
    said = counterfoil("resolve-all", "confirm", "--reason-code", "own_defect", *WHY, token=operator.token)
    assert (said.code, said.refusal["field"]) == (1, "action")


def test_a_file_with_one_bad_item(
    book: Book, counterfoil: Counterfoil, operator: Who, asking: list[str], tmp_path: Path
) -> None:
    why = {"reason": "checked by hand", "evidence": "ticket 4711"}
    items = [{"run": asking[0], "action": "retry", **why}, {"run": "run-?", "action": "retry", **why},
             {"run": asking[1], "action": "fail", **why}]  # fmt: skip
    file = tmp_path / "items.json"
    file.write_text(json.dumps(items))
    for repeated in (False, True):
        said = counterfoil("resolve-file", str(file), "--json", token=operator.token)
        assert (said.code, results(said.document)) == (1, [(asking[0], 200), ("run-?", 404), (asking[1], 200)])
        assert [each.get("repeated") for each in said.document] == [repeated, None, repeated]
    assert book.count("resolution") == 2
    assert (book.run(asking[1]).state, book.run(asking[2]).state) == ("failed", "needs_operator")


@pytest.mark.parametrize("text", ["", "{}", '[{"run": "x"}]', '[{"run": "x", "action": "guess"}]'])
def test_a_file_that_says_nothing_of_use(counterfoil: Counterfoil, operator: Who, tmp_path: Path, text: str) -> None:
    file = tmp_path / "items.json"
    file.write_text(text)
    said = counterfoil("resolve-file", str(file), "--json", token=operator.token)
    assert (said.code, said.refusal["error"]) == (1, "invalid_input")
