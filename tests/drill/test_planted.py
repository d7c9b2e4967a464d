"""The drill finds a product whose guards are switched off, one at a time."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from drill.ground import Servers, ground
from drill.lanes import Drill
from drill.points import parsed
from drill.verdict import Verdict

NURSERY = str(Path(__file__).parents[1] / "support" / "planted.py")
SEEN_BY = {
    "in_flight": ("stripe/restarted-in-flight", "own_defect"),
    "probe": ("lookup_strong_after_H/answer-lost", "2 accounts"),
    "fingerprint": ("stripe/changed-unseen", "version 2 was sent, version 1 was approved"),
    "clock": ("none/answer-lost/freeze@send.1.before", "2 accounts"),
    "fence": ("stripe/superseded/freeze@permit.1.before", "permitted to epoch 1 after epoch 2"),
}
"""By which schedule, and what is noted of it."""
LONG_LEASE = {"SEND_BEFORE": "30"}
"""So long that another execution is there before the lease is over, however busy the machine is."""


@pytest.fixture(scope="module")
def found(servers: Servers) -> Mapping[str, Verdict]:
    """All of them side by side: most of their time is waiting."""
    with ThreadPoolExecutor(len(SEEN_BY)) as threads:
        drilled = {plant: threads.submit(_drilled, servers, plant) for plant in SEEN_BY}
        return {plant: verdict.result() for plant, verdict in drilled.items()}


def _drilled(servers: Servers, plant: str) -> Verdict:
    settings = LONG_LEASE if plant == "in_flight" else {}
    with ground(servers, (NURSERY, plant)) as common:
        (done,) = Drill(common, 1, plant, settings).carry_through([parsed(SEEN_BY[plant][0])])
    return done.verdict


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("plant", SEEN_BY)
def test_a_guard_that_is_switched_off_is_found(found: Mapping[str, Verdict], plant: str) -> None:
    verdict = found[plant]
    assert not verdict.missed
    assert verdict.duplicates + verdict.wrong + verdict.violations > 0, verdict
    assert any(SEEN_BY[plant][1] in note for note in verdict.notes), verdict
