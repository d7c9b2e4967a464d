"""What our processes count. Labels come from closed sets: systems, operations, codes, states, routes."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

REGISTRY = CollectorRegistry()
"""One process's own metrics, apart from whatever a library registers by itself."""

ProcessCollector(registry=REGISTRY)
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

REQUESTS = Counter(
    "counterfoil_gateway_requests", "Requests answered", ("route", "method", "status"), registry=REGISTRY
)
REQUEST_SECONDS = Histogram(
    "counterfoil_gateway_request_seconds",
    "From the request's first byte to the answer's last",
    ("route",),
    buckets=SECONDS,
    registry=REGISTRY,
)
RECEIPTS = Counter(
    "counterfoil_trigger_receipts",
    "Trigger bodies received, by what was made of the whole body",
    ("source", "verdict"),
    registry=REGISTRY,
)
ELEMENTS = Counter(
    "counterfoil_trigger_elements", "Elements of genuine bodies", ("source", "disposition"), registry=REGISTRY
)
CALLBACK_RECEIPTS = Counter(
    "counterfoil_callback_receipts",
    "Callback bodies received, by what was made of the whole body",
    ("source", "verdict"),
    registry=REGISTRY,
)
CALLBACK_ELEMENTS = Counter(
    "counterfoil_callback_elements", "Elements of genuine callbacks", ("source", "disposition"), registry=REGISTRY
)
SENDS = Counter("counterfoil_sends", "Requests with an effect", ("system", "operation", "signal"), registry=REGISTRY)
SEND_SECONDS = Histogram(
    "counterfoil_send_seconds",
    "Length of requests with an effect",
    ("system", "operation"),
    buckets=SECONDS,
    registry=REGISTRY,
)
PROBES = Counter("counterfoil_probes", "Look-ups", ("system", "operation", "found"), registry=REGISTRY)
READS_FAILED = Counter("counterfoil_reads_failed", "Outside reads that failed", ("system", "code"), registry=REGISTRY)
PERMITS_REFUSED = Counter("counterfoil_permits_refused", "Permits not given", ("code",), registry=REGISTRY)
SAVES_RETRIED = Counter(
    "counterfoil_saves_retried", "Answers and look-ups whose saving had to be tried again", registry=REGISTRY
)
SWEPT = Counter("counterfoil_swept_runs", "Runs that a sweep's pass took up", ("sweep_pass",), registry=REGISTRY)
PASSES_FAILED = Counter(
    "counterfoil_sweep_passes_failed", "Passes of a sweep that failed", ("sweep_pass",), registry=REGISTRY
)


def exposition() -> tuple[str, bytes]:
    """Content type and text of all metrics of this process."""
    return CONTENT_TYPE_LATEST, generate_latest(REGISTRY)
