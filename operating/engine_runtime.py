"""The SDK's own telemetry: its core's log lines through our logs, its metrics on a port of their own."""

from __future__ import annotations

import logging

from temporalio import activity, workflow
from temporalio.runtime import LogForwardingConfig, LoggingConfig, PrometheusConfig, Runtime, TelemetryConfig
from temporalio.runtime import TelemetryFilter as Filter

from operating.endpoints import Listening, PortTaken


def observe_engine(at: Listening | None = None) -> None:
    """For every client of this process from now on; once, before the first connects. `at` is for the SDK's metrics.

    Raises RuntimeError when a client has connected already, or PortTaken.
    """
    forwarding = LogForwardingConfig(
        logging.getLogger("temporalio.core"), append_target_to_name=False, append_log_fields_to_message=False
    )
    logs = LoggingConfig(Filter(core_level="WARN", other_level="ERROR"), forwarding=forwarding)
    Runtime.set_default(_runtime(logs, at if at is not None and at.port else None))
    activity.logger.activity_info_on_message = False
    workflow.logger.workflow_info_on_message = False


def _runtime(logs: LoggingConfig, at: Listening | None) -> Runtime:
    if at is None:
        return Runtime(telemetry=TelemetryConfig(logging=logs))
    metrics = PrometheusConfig(bind_address=f"{at.host}:{at.port}")
    try:
        return Runtime(telemetry=TelemetryConfig(logging=logs, metrics=metrics))
    except ValueError as refused:
        raise PortTaken(at) from refused
