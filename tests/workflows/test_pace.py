"""What may be sent within a workflow task: a slow provider must not keep other runs waiting."""

from __future__ import annotations

import pytest
from temporalio.exceptions import ApplicationError

from activities.pace import QUICK, REST, Pace

STEP, OTHER = "create-account", "create-task"


class Clock:
    """Stands still until moved."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pace(clock: Clock) -> Pace:
    return Pace(clock)


def may(pace: Pace, step: str) -> bool:
    try:
        with pace.quick(step):
            return True
    except ApplicationError as refused:
        return refused.type != "TooSlow"


def takes(pace: Pace, clock: Clock, seconds: float) -> None:
    with pace.quick(STEP):
        clock.at += seconds


@pytest.mark.parametrize(("seconds", "again"), [(0.01, True), (QUICK, True), (QUICK + 0.1, False)])
def test_a_step_that_was_slow_is_not_made_within_a_task_again(
    pace: Pace, clock: Clock, seconds: float, again: bool
) -> None:
    takes(pace, clock, seconds)
    assert may(pace, STEP) is again
    assert may(pace, OTHER)


def test_after_a_rest_it_is_tried_again(pace: Pace, clock: Clock) -> None:
    takes(pace, clock, QUICK + 1)
    clock.at += REST - 0.1
    assert not may(pace, STEP)
    clock.at += 0.1
    with pace.quick(STEP):
        assert not may(pace, STEP), "one alone tries"
    with pace.quick(STEP):
        assert may(pace, STEP)


def test_one_that_hangs_keeps_the_next_from_joining_it(pace: Pace, clock: Clock) -> None:
    with pace.quick(STEP):
        assert may(pace, STEP)
        clock.at += QUICK + 0.1
        assert not may(pace, STEP)
        assert may(pace, OTHER)


def test_a_step_that_failed_is_under_way_no_more(pace: Pace) -> None:
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), pace.quick(STEP):
            raise ZeroDivisionError
    assert may(pace, STEP)
