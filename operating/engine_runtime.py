"""The SDK's own telemetry: its core's log lines through our logs, its metrics on a port of their own."""

from __future__ import annotations

import logging

from temporalio import activity, workflow
from temporalio.runtime import LogForwardingConfig, LoggingConfig, PrometheusConfig, Runtime, TelemetryConfig
from temporalio.runtime import TelemetryFilter as Filter


def observe_engine(metrics_address: str | None = None) -> None:
    """For every client of this process from now on; once, before the first connects.

    Raises RuntimeError when a client has connected already, ValueError when the address is taken.
    """
    forwarding = LogForwardingConfig(
        logging.getLogger("temporalio.core"), append_target_to_name=False, append_log_fields_to_message=False
    )
    logs = LoggingConfig(Filter(core_level="WARN", other_level="ERROR"), forwarding=forwarding)
    metrics = PrometheusConfig(bind_address=metrics_address) if metrics_address else None
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=logs, metrics=metrics)))
    activity.logger.activity_info_on_message = False
    workflow.logger.workflow_info_on_message = False
