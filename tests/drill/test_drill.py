"""A small part of `make drill`: points of recorded runs, chosen by a seed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drill.ground import Servers, ground
from drill.lanes import Done, Drill
from drill.names import names_in_code
from drill.plan import points, sample, schedules
from drill.points import Action, Schedule, parsed
from drill.table import lines

TOLD, ASKED = "callback_only/answer-lost", "none/answer-lost"
RECORDED = ["stripe/answer-lost", "stripe/trigger-twice", TOLD, ASKED]
CHOSEN, LANES, SEED = 8, 4, "2"


def quick(recorded: list[Done]) -> list[Schedule]:
    """A worker that stands still is waited for; test_planted.py has one."""
    return [each for each in schedules(recorded) if each.action is not Action.FREEZE]


@pytest.mark.timeout(1800)
def test_wherever_a_process_ends_the_run_ends_right(servers: Servers) -> None:
    with ground(servers) as common:
        drill = Drill(common, LANES, "part")
        recorded = drill.carry_through([parsed(text) for text in RECORDED])
        done = recorded + drill.carry_through(sample(quick(recorded), CHOSEN, SEED))
    come = {str(each.verdict.schedule): {point.name for point in points(each.trace)} for each in recorded}
    assert set().union(*come.values()) <= names_in_code()
    assert "resolve" in come[ASKED]
    assert {"hear-callback", "draw-callback"} <= come[TOLD] - {"resolve"} == come[TOLD]
    verdicts = [each.verdict for each in done]
    assert len(verdicts) == len(RECORDED) + CHOSEN
    assert all(replace(each, missed=False).passed for each in verdicts), "\n".join(lines(verdicts))
    assert sum(each.missed for each in verdicts) < CHOSEN / 2, "\n".join(lines(verdicts))
