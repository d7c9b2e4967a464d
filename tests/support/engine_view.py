"""Temporal as an operator sees it: by its client and by its command line, past all of our own doors."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus, WorkflowHandle, WorkflowHistory
from temporalio.service import RPCError, RPCStatusCode
from world import World

from domain.identity import workflow_id
from stack.temporal import ISOLATED, NAMESPACE, temporal_program

T = TypeVar("T")
CALL_SECONDS = 60.0


@dataclass(frozen=True)
class EngineView:
    """The executions of one world."""

    world: World
    client: Client
    runner: asyncio.Runner

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for a call of the client."""
        return self.runner.run(asyncio.wait_for(work, CALL_SECONDS))

    def workflow_id(self, run_id: str, epoch: int | None = None) -> str:
        """The id of the run's execution: of its present epoch unless told otherwise."""
        shown = self.world.show(run_id)
        wanted = shown["engine"]["epoch"] if epoch is None else epoch
        return workflow_id(shown["process"], shown["business_key"], shown["number"], wanted)

    def handle(self, run_id: str, epoch: int | None = None) -> WorkflowHandle[Any, Any]:
        return self.client.get_workflow_handle(self.workflow_id(run_id, epoch))

    def status(self, run_id: str, epoch: int | None = None) -> WorkflowExecutionStatus | None:
        """None where the engine has never heard of it, or has forgotten."""
        try:
            return self.run(self.handle(run_id, epoch).describe()).status
        except RPCError as refused:
            if refused.status is RPCStatusCode.NOT_FOUND:
                return None
            raise

    def terminate(self, run_id: str) -> None:
        self.run(self.handle(run_id).terminate("by hand"))

    def history(self, run_id: str, epoch: int | None = None) -> WorkflowHistory:
        return self.run(self.handle(run_id, epoch).fetch_history())

    def events(self, run_id: str, kind: str) -> list[dict[str, Any]]:
        """Events of one kind, such as EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED, of the present epoch."""
        found: list[dict[str, Any]] = self.history(run_id).to_json_dict()["events"]
        return [event for event in found if event["eventType"] == kind]

    def executions(self, run_id: str) -> list[WorkflowExecution]:
        """All executions of all epochs of the run, in any order. Visibility may lag a moment behind."""
        prefix = self.workflow_id(run_id, 0).removesuffix("0")
        return self.run(self._listed(f"WorkflowId STARTS_WITH '{prefix}'"))

    async def _listed(self, query: str) -> list[WorkflowExecution]:
        return [found async for found in self.client.list_workflows(query)]

    def cli(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Temporal's own command line."""
        at = ("--address", self.client.service_client.config.target_host, "--namespace", NAMESPACE, *ISOLATED)
        clean = {"PATH": os.environ["PATH"], "HOME": "/"}
        command = (temporal_program(), *words, *at)
        return subprocess.run(command, env=clean, timeout=CALL_SECONDS, capture_output=True, text=True, check=False)

    def send(self, run_id: str, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        """`temporal workflow signal`, with whatever options."""
        return self.cli("workflow", "signal", "--workflow-id", self.workflow_id(run_id), "--name", name, *words)

    def reset(self, run_id: str) -> str:
        """Reset to the first workflow task; Temporal's id of the new execution."""
        words = ("--workflow-id", self.workflow_id(run_id), "--type", "FirstWorkflowTask", "--reason", "test")
        done = self.cli("workflow", "reset", *words, "--output", "json")
        assert done.returncode == 0, done.stderr
        new_id: str = json.loads(done.stdout)["runId"]
        return new_id
