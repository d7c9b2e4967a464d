"""What an operator may do about a run that needs one, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from domain.states import RunState


class Action(StrEnum):
    """The closed set of an operator's resolutions."""

    CONFIRM = "confirm"
    NOT_EXECUTED = "not_executed"
    WRITE_OFF = "write_off"
    RETRY = "retry"
    FAIL = "fail"


MEANING: dict[Action, str] = {
    Action.CONFIRM: "the effect exists outside, under this id: accept it and go on",
    Action.NOT_EXECUTED: "the effect does not exist and never will under this key: go on, it may be made anew",
    Action.WRITE_OFF: "nobody will ever know: end the run, never make it again (a second operator must agree)",
    Action.RETRY: "the cause is mended: look again",
    Action.FAIL: "end the run for good",
}


def permitted_actions(state: RunState, in_doubt: Sequence[str]) -> tuple[Action, ...]:
    """The resolutions of a run in this state whose operations with these keys are in doubt.

    An operation in doubt must be settled before anything else: neither a new look nor an end makes it known.
    """
    if state is not RunState.NEEDS_OPERATOR:
        return ()
    if in_doubt:
        return (Action.CONFIRM, Action.NOT_EXECUTED, Action.WRITE_OFF)
    return (Action.RETRY, Action.FAIL)
