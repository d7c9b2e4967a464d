"""A small part of `make drill`: points of recorded runs, chosen by a seed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drill.ground import Servers, ground
from drill.lanes import Drill
from drill.names import names_in_code
from drill.plan import points, sample, schedules
from drill.points import parsed
from drill.table import lines

RECORDED = ["stripe/straight", "stripe/killed-executed", "stripe/trigger-twice"]
CHOSEN, LANES, SEED = 8, 4, "2"


@pytest.mark.timeout(1800)
def test_wherever_a_process_ends_the_run_ends_right(servers: Servers) -> None:
    with ground(servers) as common:
        drill = Drill(common, LANES, "part")
        recorded = drill.carry_through([parsed(text) for text in RECORDED])
        assert {point.name for done in recorded for point in points(done.trace)} <= names_in_code()
        done = recorded + drill.carry_through(sample(schedules(recorded), CHOSEN, SEED))
    verdicts = [each.verdict for each in done]
    assert len(verdicts) == len(RECORDED) + CHOSEN
    assert all(replace(each, missed=False).passed for each in verdicts), "\n".join(lines(verdicts))
    assert sum(each.missed for each in verdicts) < CHOSEN / 2, "\n".join(lines(verdicts))
