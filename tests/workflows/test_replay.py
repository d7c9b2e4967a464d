"""Today's workflow code against executions that began under yesterday's: recorded by record_histories.py."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path

import pytest
from broken_worker import Incompatible
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, WorkflowReplayResult

from workflows.partner_onboarding import PartnerOnboarding
from workflows.plugin import counterfoil_plugin

FOLDER = Path(__file__).parent / "histories"
HISTORIES = sorted(FOLDER.glob("*/*.json"))
WAITING_POINTS = {"awaiting_review", "waiting", "outcome_unknown", "needs_operator", "retrying"}
STEPS = {"take-snapshot", "look-at-review", "carry-out", "compare-records"}


def replayed(workflow: type, *files: Path) -> dict[str, Exception | None]:
    """What replaying each file came to."""
    return asyncio.run(_replayed(workflow, files))


async def _replayed(workflow: type, files: tuple[Path, ...]) -> dict[str, Exception | None]:
    replayer = Replayer(workflows=[workflow], plugins=[counterfoil_plugin()])
    results: list[WorkflowReplayResult] = [
        await replayer.replay_workflow(history(file), raise_on_replay_failure=False) for file in files
    ]
    return {file.stem: result.replay_failure for file, result in zip(files, results, strict=True)}


def history(file: Path) -> WorkflowHistory:
    return WorkflowHistory.from_json(file.stem, file.read_text())


def kinds(file: Path) -> set[str]:
    return {event["eventType"].removeprefix("EVENT_TYPE_") for event in json.loads(file.read_text())["events"]}


@pytest.mark.parametrize("file", HISTORIES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_c67_a_recorded_history_replays(file: Path) -> None:
    assert replayed(PartnerOnboarding, file) == {file.stem: None}


def test_the_histories_run_past_every_waiting_point_and_step() -> None:
    """A history that still waits at a point passes the replay of code that is broken behind it."""
    closed = [file for file in HISTORIES if "WORKFLOW_EXECUTION_COMPLETED" in kinds(file)]
    text = "\n".join(file.read_text() for file in closed)
    assert {point for point in WAITING_POINTS if encoded(point) in text} == WAITING_POINTS
    assert {step for step in STEPS if f'"{step}"' in text} == STEPS


def encoded(state: str) -> str:
    """A search attribute's value as history JSON holds it."""
    return base64.b64encode(json.dumps(state).encode()).decode()


def test_there_is_one_open_history_for_each_waiting_point() -> None:
    still_open = {
        file.stem.removeprefix("open_") for file in HISTORIES if "WORKFLOW_EXECUTION_COMPLETED" not in kinds(file)
    }
    assert still_open == WAITING_POINTS


def test_code_that_does_not_fit_is_found_out_by_every_history() -> None:
    assert all(replayed(Incompatible, *HISTORIES).values())
