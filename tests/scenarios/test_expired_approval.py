"""An approval that ends while a send is in doubt: looking needs nobody's leave, sending again does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from databases import Database
from sandboxes import sandbox_process
from world import World, world

ACCOUNTS = {"method": "POST", "path_prefix": "/v1/accounts"}


@pytest.fixture
def short_lived(database: Database, temporal_server: str, tmp_path: Path) -> Iterator[World]:
    """A world of its own, in which an approval holds for ten seconds: time enough to send, and over in the doubt."""
    with (
        sandbox_process(tmp_path / "sandbox.db") as outside,
        world(database, temporal_server, outside, tmp_path, decision_valid_for="10") as running,
    ):
        yield running


def test_a_doubt_is_looked_into_although_the_approval_has_ended(short_lived: World) -> None:
    run_id = short_lived.submit(short_lived.seed().company_id)
    short_lived.fault("drop_after_commit", match=ACCOUNTS, times=50)
    short_lived.approve(run_id)
    short_lived.wait_state(run_id, "outcome_unknown")
    shown = short_lived.wait_state(run_id, "awaiting_review", within=40)
    (account,) = shown["operations"]
    assert (account["outcome"], account["step"]) == ("accepted", "create-account")
    assert short_lived.events(run_id)[-1]["evidence"]["done"] == ["create-account"]
    short_lived.agrees(run_id, "awaiting_review", tasks=0)
    short_lived.approve(run_id)
    short_lived.wait_state(run_id, "succeeded")
    short_lived.agrees(run_id)
