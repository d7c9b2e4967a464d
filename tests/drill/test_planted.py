"""The drill finds a product whose guards are switched off, one at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from drill.ground import Servers, ground
from drill.lanes import Drill
from drill.points import parsed

NURSERY = str(Path(__file__).parents[1] / "support" / "planted.py")
SEEN_BY = {
    "in_flight": "stripe/restarted-in-flight",
    "probe": "lookup_strong_after_H/answer-lost",
    "fingerprint": "stripe/changed-unseen",
    "fence": "stripe/superseded/freeze@permit.1.before",
}
LONG_LEASE = {"SEND_BEFORE": "30"}
"""So long that another execution is there before the lease is over, however busy the machine is."""


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("plant", SEEN_BY)
def test_a_guard_that_is_switched_off_is_found(servers: Servers, plant: str) -> None:
    with ground(servers, (NURSERY, plant)) as common:
        (done,) = Drill(common, 1, plant, LONG_LEASE if plant == "in_flight" else {}).carry_through(
            [parsed(SEEN_BY[plant])]
        )
    found = done.verdict
    assert not found.missed
    assert found.duplicates + found.losses + found.wrong + found.violations > 0, done
