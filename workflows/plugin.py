"""One plugin for client, worker and replayer: converter, and a guard that no message can get past to wedge a run."""

from __future__ import annotations

import inspect

from temporalio import workflow
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.plugin import SimplePlugin
from temporalio.worker import HandleSignalInput, Interceptor, WorkflowInboundInterceptor, WorkflowInterceptorClassInput


class _DropsWhatDoesNotBind(WorkflowInboundInterceptor):
    """A signal whose arguments do not fit its handler would fail every workflow task from then on."""

    async def handle_signal(self, input: HandleSignalInput) -> None:
        handler = workflow.get_signal_handler(input.signal)
        if handler is not None:
            try:
                inspect.signature(handler).bind(*input.args)
            except TypeError:
                workflow.logger.warning("dropped a signal whose arguments do not fit")
                return
        await super().handle_signal(input)


class MessageGuard(Interceptor):
    """Puts the guard before every workflow."""

    def workflow_interceptor_class(
        self, input: WorkflowInterceptorClassInput
    ) -> type[WorkflowInboundInterceptor] | None:
        return _DropsWhatDoesNotBind


def counterfoil_plugin() -> SimplePlugin:
    """What client, worker and replayer must share."""
    return SimplePlugin("counterfoil", data_converter=pydantic_data_converter, interceptors=[MessageGuard()])
