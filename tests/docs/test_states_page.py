"""docs/states.md says what the move table and the wording say."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from domain.states import MOVES, TERMINAL, ActorKind, RunState
from domain.wording import EXPLAINED, SHOWN_AS

PAGE = (Path(__file__).parents[2] / "docs" / "states.md").read_text()


def moves_of(state: RunState, kind: ActorKind) -> list[str]:
    return sorted(after for who, before, after in MOVES if who is kind and before is state and after is not state)


def described(state: RunState) -> str:
    return f"| `{state}` | {SHOWN_AS[state]} | {EXPLAINED[state]} |"


def move_rows() -> Iterator[str]:
    for state in RunState:
        for kind in ActorKind:
            afters = moves_of(state, kind)
            if afters:
                yield f"| `{state}` | {kind} | {', '.join(f'`{after}`' for after in afters)} |"


@pytest.mark.parametrize("state", RunState)
def test_every_state_is_described_as_it_is_shown(state: RunState) -> None:
    assert described(state) in PAGE.splitlines()


def test_every_move_and_no_other_is_listed() -> None:
    table = PAGE.split("## Moves")[1].split("\n## ")[0]
    listed = [line for line in table.splitlines() if line.startswith("| `")]
    assert listed == list(move_rows())


def test_terminal_states_are_named_as_such() -> None:
    named = PAGE.split("are terminal")[0].splitlines()[-1]
    assert all(f"`{state}`" in named for state in TERMINAL)
