"""The table of permitted moves, against an expectation written down a second time from the design."""

from __future__ import annotations

import itertools

import pytest

from domain.errors import MoveNotPermitted
from domain.states import MOVES, OPEN, TERMINAL, ActorKind, RunState, check_move, next_states

# What may follow each state, by whoever may bring it about, as the design's table of run states has it.
MAY_MOVE_TO = {
    "queued": "running deferred suppressed expired needs_operator canceling failed",
    "running": "waiting awaiting_review deferred retrying outcome_unknown needs_operator canceling "
    "succeeded failed suppressed expired",
    "waiting": "running suppressed expired needs_operator canceling",
    "awaiting_review": "running failed expired needs_operator canceling",
    "deferred": "running suppressed expired needs_operator canceling",
    "retrying": "running needs_operator failed canceling",
    "outcome_unknown": "running needs_operator canceling",
    "needs_operator": "running failed canceling",
    "canceling": "canceled needs_operator succeeded",
    "succeeded": "",
    "failed": "",
    "canceled": "",
    "suppressed": "",
    "expired": "",
}
TRIPLES = list(itertools.product(ActorKind, RunState, RunState))


def expected(kind: str, previous: str, following: str) -> bool:
    """An operator asks to stop and resolves what needs one; the sweep only calls an operator; workers do the rest."""
    if previous == following:
        return MAY_MOVE_TO[previous] != ""
    if following not in MAY_MOVE_TO[previous].split():
        return False
    if previous == "needs_operator" or following == "canceling":
        return kind == "operator"
    return kind == "worker" or (kind == "sweep" and following == "needs_operator")


@pytest.mark.parametrize(("kind", "previous", "following"), TRIPLES)
def test_every_move_is_permitted_or_refused_as_designed(
    kind: ActorKind, previous: RunState, following: RunState
) -> None:
    assert ((kind, previous, following) in MOVES) == expected(kind, previous, following)


@pytest.mark.parametrize("state", RunState)
def test_next_states_are_those_of_the_design(state: RunState) -> None:
    assert set(next_states(state)) == set(MAY_MOVE_TO[state].split())


def test_the_table_holds_every_state_and_nothing_else() -> None:
    assert {state.value for state in RunState} == set(MAY_MOVE_TO)
    assert {state.value for state in TERMINAL} == {"succeeded", "failed", "canceled", "suppressed", "expired"}
    assert set(RunState) == OPEN | TERMINAL


@pytest.mark.parametrize(("kind", "state", "following"), [each for each in TRIPLES if each[1] in TERMINAL])
def test_i5_a_terminal_run_never_moves(kind: ActorKind, state: RunState, following: RunState) -> None:
    with pytest.raises(MoveNotPermitted) as refused:
        check_move(kind, state, following)
    assert refused.value.next_actions == ()


@pytest.mark.parametrize(("kind", "previous", "following"), [each for each in TRIPLES if each in MOVES])
def test_a_permitted_move_passes(kind: ActorKind, previous: RunState, following: RunState) -> None:
    check_move(kind, previous, following)


def test_a_refused_move_names_the_state_and_what_may_be_done_next() -> None:
    with pytest.raises(MoveNotPermitted) as refused:
        check_move(ActorKind.WORKER, RunState.NEEDS_OPERATOR, RunState.SUCCEEDED)
    assert refused.value.as_dict() == {
        "error": "move_not_permitted",
        "message": "worker may not move a run from needs_operator to succeeded",
        "next_actions": ["canceling", "failed", "running"],
        "state": "needs_operator",
        "asked": "succeeded",
    }


def test_i13_a_run_asked_to_stop_does_not_go_on_after_its_operator() -> None:
    with pytest.raises(MoveNotPermitted) as refused:
        check_move(ActorKind.OPERATOR, RunState.NEEDS_OPERATOR, RunState.RUNNING, cancel_requested=True)
    assert refused.value.next_actions == ("canceling", "failed")
    check_move(ActorKind.OPERATOR, RunState.NEEDS_OPERATOR, RunState.CANCELING, cancel_requested=True)
    check_move(ActorKind.OPERATOR, RunState.NEEDS_OPERATOR, RunState.RUNNING)
