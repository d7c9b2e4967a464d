"""OpenTelemetry spans from trigger to provider request, sent by OTLP over HTTP where the environment names a collector.

Without OTEL_EXPORTER_OTLP_ENDPOINT nothing of OpenTelemetry is loaded, and a span costs one comparison.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from operating.joining import fields

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer
    from temporalio.contrib.opentelemetry import OpenTelemetryPlugin
    from temporalio.contrib.opentelemetry._tracer_provider import ReplaySafeTracerProvider

WANTED_BY = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""The SDK's own variables; it reads the rest of OTEL_… by itself."""


class _Tracing:
    """What this process traces with; nothing until it is switched on."""

    provider: ReplaySafeTracerProvider | None = None
    tracer: Tracer | None = None


def trace_as(service: str) -> None:
    """Send spans as this service, if the environment asks for it. Once per process, before a client connects."""
    if not any(os.environ.get(name) for name in WANTED_BY):
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import set_tracer_provider
    from temporalio.contrib.opentelemetry import create_tracer_provider

    provider = create_tracer_provider(resource=Resource.create({"service.name": service}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    set_tracer_provider(provider)
    # A waiting workflow that this process forgets leaves its span's context in another one than it entered: harmless.
    logging.getLogger("opentelemetry.context").setLevel(logging.CRITICAL)
    _Tracing.provider, _Tracing.tracer = provider, provider.get_tracer("counterfoil")


def flush_traces() -> None:
    """Send what is waiting, and stop."""
    if _Tracing.provider is not None:
        # A workflow that waits on ends its span when this process forgets it: nothing is lost by that.
        logging.getLogger("opentelemetry.sdk").setLevel(logging.ERROR)
        _Tracing.provider.shutdown()


def tracing_plugins() -> list[OpenTelemetryPlugin]:
    """What a client of the engine needs so that a trace goes on in workflows and activities."""
    if _Tracing.tracer is None:
        return []
    from temporalio.contrib.opentelemetry import OpenTelemetryPlugin

    return [OpenTelemetryPlugin(add_temporal_spans=True)]


@contextmanager
def span(name: str, kind: str = "internal", **attributes: str) -> Iterator[Span | None]:
    """A span around the block with the joining fields and these attributes: ids and codes, never values.

    `kind` is `server` for what is asked of us and `client` for what we ask. Exceptions are noted by type alone.
    """
    if _Tracing.tracer is None:
        yield None
        return
    from opentelemetry.trace import SpanKind, Status, StatusCode

    with _Tracing.tracer.start_as_current_span(
        name,
        kind=SpanKind[kind.upper()],
        attributes={**{f"counterfoil.{known}": text for known, text in fields().items()}, **attributes},
        record_exception=False,
        set_status_on_exception=False,
    ) as started:
        try:
            yield started
        except Exception as problem:
            started.set_status(Status(StatusCode.ERROR, type(problem).__name__))
            raise


def current_trace() -> str:
    """The id of the trace that is going on, in hexadecimal; empty without one."""
    if _Tracing.tracer is None:
        return ""
    from opentelemetry.trace import get_current_span

    context = get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else ""
