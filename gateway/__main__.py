"""`python -m gateway`: serve until told to stop."""

from __future__ import annotations

import signal
import sys
from types import FrameType

import uvicorn

from composition import Parts
from gateway.app import application
from operating.endpoints import Endpoints, Listening, PortTaken, metrics
from operating.engine_runtime import observe_engine
from operating.logs import write_logs
from operating.metrics import REGISTRY
from operating.store_gauges import StoreGauges
from operating.traces import flush_traces, trace_as
from settings import Settings, SettingsError, load_settings

DRAIN_SECONDS = 10
"""How long requests in hand, and telling the engine of them, may take after a stop was asked for."""


def main() -> None:
    """Run the gateway of this environment."""
    try:
        settings = load_settings()
    except SettingsError as missing:
        sys.exit(f"gateway: {missing}")
    signal.signal(signal.SIGTERM, _stop)
    write_logs(settings.log_format, settings.log_level)
    observe_engine()
    trace_as("counterfoil-gateway")
    try:
        _serve(settings, Parts(settings))
    except PortTaken as taken:
        sys.exit(f"gateway: {taken}")
    finally:
        flush_traces()


def _serve(settings: Settings, parts: Parts) -> None:
    REGISTRY.register(StoreGauges(parts.gauges))
    at = Listening(settings.operating_host, settings.gateway_metrics_port, "COUNTERFOIL_GATEWAY_METRICS_PORT")
    endpoints = Endpoints(at, {"/metrics": metrics})
    try:
        uvicorn.run(
            application(parts),
            host=settings.gateway_host,
            port=settings.gateway_port,
            http="httptools",
            access_log=False,
            log_config=None,
            timeout_graceful_shutdown=DRAIN_SECONDS,
        )
    finally:
        endpoints.close()


def _stop(number: int, frame: FrameType | None) -> None:
    """Before the server serves, and again once it has drained: uvicorn repeats the signal that stopped it."""
    sys.exit(0)


if __name__ == "__main__":
    main()
