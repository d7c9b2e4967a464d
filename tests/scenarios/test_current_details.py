"""What Temporal UI shows of a run is what the gateway shows of it, at every wait and at the end."""

from __future__ import annotations

from typing import Any

import pytest
from engine_view import EngineView
from eventually import eventually
from temporalio.api.sdk.v1 import WorkflowMetadata
from world import World


def current(engine: EngineView, run_id: str) -> str:
    """The current details, as Temporal UI asks for them."""
    handle = engine.handle(run_id)
    told: WorkflowMetadata = engine.run(handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata))
    return told.current_details


def agrees(engine: EngineView, world: World, run_id: str) -> dict[str, Any]:
    """Wait until the workflow has heard of the run's state; they say the same then."""
    shown = world.show(run_id)
    heard = f"**{shown['shown_as']}**", f"- Reason: `{shown['reason']}`"
    text = eventually(lambda: all(each in (said := current(engine, run_id)) for each in heard) and said)
    assert text.startswith(heard[0])
    assert [action for action in shown["next_actions"] if action not in text] == []
    assert text.count("`counterfoil ") == len(shown["next_actions"])
    assert f"]({world.settings.public_url}/runs/{run_id})" in text
    return shown


@pytest.mark.parametrize("state", ["awaiting_review", "succeeded"])
def test_the_way_of_a_straight_run(shared: World, engine: EngineView, state: str) -> None:
    run_id = shared.submit(shared.seed().company_id)
    shared.wait_state(run_id, "awaiting_review")
    if state == "succeeded":
        shared.approve(run_id)
        shared.wait_state(run_id, state)
    agrees(engine, shared, run_id)


def test_incomplete_inputs_are_named(shared: World, engine: EngineView) -> None:
    run_id = shared.submit(shared.seed(iban="").company_id)
    shown = shared.wait_state(run_id, "waiting", reason="inputs_incomplete")
    assert shown["versions"][-1]["problems"] == ["iban: missing"]
    text = eventually(lambda: "- Problems: `iban: missing`" in (said := current(engine, run_id)) and said)
    assert "**What to do:** amend the record in the CRM." in text


def test_a_refusal_leaves_no_doubt_behind(shared: World, engine: EngineView) -> None:
    """The provider refused for good: nobody is asked whether it happened."""
    run_id = shared.submit(shared.seed(partner_email="details@partner..example").company_id)
    shared.approve(run_id)
    shared.wait_state(run_id, "needs_operator", reason="provider_rejected")
    shown = agrees(engine, shared, run_id)
    assert [action.split()[3] for action in shown["next_actions"]] == ["retry", "fail"]
