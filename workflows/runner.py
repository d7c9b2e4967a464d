"""The SDK's sandbox for workflow code, asked less often.

SDK 1.35 asks the sandbox for a context at each payload that it writes or reads, and compiles a line of code each time.
Only converters and storage drivers that take a context use the answer; ours takes none (`workflows/plugin.py`).
"""

from __future__ import annotations

from typing import Any

from temporalio import workflow
from temporalio.converter import SerializationContext, StorageDriverStoreContext
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

NOWHERE = StorageDriverStoreContext()


class _WithoutContext(WorkflowInstance):
    """A sandboxed instance whose payloads have no context."""

    def __init__(self, sandboxed: WorkflowInstance) -> None:
        self._sandboxed = sandboxed

    def activate(self, act: Any) -> Any:  # noqa: ANN401 (the SDK's messages)
        return self._sandboxed.activate(act)

    def get_serialization_context(self, command_info: object) -> SerializationContext | None:
        return None

    def get_external_store_context(self, command_info: object) -> StorageDriverStoreContext:
        return NOWHERE

    def get_info(self) -> workflow.Info:
        return self._sandboxed.get_info()

    def get_thread_id(self) -> int | None:
        return self._sandboxed.get_thread_id()


class Sandbox(SandboxedWorkflowRunner):
    """The same restrictions and checks; no context for payloads."""

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        return _WithoutContext(super().create_instance(det))
