"""What an operator may do about a run that needs one, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from domain.contracts import AskOperator, Contract
from domain.records import Facts, Operation
from domain.recovery import settle
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


@dataclass(frozen=True, slots=True)
class Doubtful:
    """An operation in doubt. `automatic`: the settle function has a permitted action for it; `seen`: it did happen."""

    key: str
    automatic: bool = False
    seen: bool = False


def doubts(facts: Facts, contracts: Mapping[str, tuple[Contract, ...]]) -> tuple[Doubtful, ...]:
    """What a person or automation must settle first. `contracts` by `system.operation`."""
    return tuple(
        Doubtful(
            operation.key,
            _automatic(operation, contracts.get(f"{operation.system}.{operation.kind}", ()), facts.now),
            operation.evidence.effect_seen,
        )
        for operation in facts.in_doubt()
    )


def _automatic(operation: Operation, contracts: tuple[Contract, ...], now: datetime) -> bool:
    """The very function that chooses automatic actions says whether it has one left."""
    if operation.outcome != "unknown" or not contracts:
        return False
    return not isinstance(settle(contracts, operation.evidence, now), AskOperator)


def permitted_actions(state: RunState, in_doubt: Sequence[Doubtful]) -> tuple[Action, ...]:
    """The resolutions of a run in this state with these operations in doubt.

    An operation in doubt must be settled before anything else: no end makes it known, and a new look only where
    automation has a permitted action left. Nobody's word takes back what was seen.
    """
    if state is not RunState.NEEDS_OPERATOR:
        return ()
    if not in_doubt:
        return (Action.RETRY, Action.FAIL)
    absent = () if all(each.seen for each in in_doubt) else (Action.NOT_EXECUTED,)
    again = (Action.RETRY,) if all(each.automatic for each in in_doubt) else ()
    return (Action.CONFIRM, *absent, Action.WRITE_OFF, *again)
