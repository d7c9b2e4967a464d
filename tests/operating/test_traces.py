"""One trace from the trigger to the provider's request."""

from __future__ import annotations

import subprocess
import sys

from eventually import eventually
from watching import SeenSpan, Watched

GATEWAY, WORKER = "counterfoil-gateway", "counterfoil-worker"
EXPECTED = {
    (GATEWAY, "POST /triggers/hubspot"),
    (GATEWAY, "StartWorkflow:partner-onboarding"),
    (WORKER, "RunActivity:take-snapshot"),
    (WORKER, "RunActivity:carry-out"),
    (WORKER, "read hubspot subject"),
    (WORKER, "send stripe.create_account"),
    (WORKER, "send hubspot.create_task"),
}


def sent(watched: Watched, run_id: str) -> list[SeenSpan]:
    return watched.collector.trace_of("send stripe.create_account", **{"counterfoil.run": run_id})


def test_a_trace_goes_from_trigger_to_provider_request(watched: Watched, approved: str) -> None:
    eventually(lambda: {(span.service, span.name) for span in sent(watched, approved)} >= EXPECTED)


def test_the_providers_answer_is_on_the_span_as_a_code(watched: Watched, approved: str) -> None:
    span = next(span for span in eventually(lambda: sent(watched, approved)) if span.name.startswith("send stripe"))
    assert span.attributes["counterfoil.signal"] == "accepted"
    operations = watched.world.show(approved)["operations"]
    assert span.attributes["counterfoil.operation"] in {each["operation"] for each in operations}


def test_log_lines_name_their_trace(watched: Watched, approved: str) -> None:
    trace = eventually(lambda: sent(watched, approved))[0].trace
    lines = [line for line in watched.lines("worker") if line.get("run") == approved and "sent" in line["message"]]
    assert {line["trace"] for line in lines} == {trace}


def test_without_a_collector_nothing_of_opentelemetry_is_loaded() -> None:
    look = (
        "import sys, operating.traces as t; t.trace_as('x'); t.tracing_plugins()\n"
        "with t.span('a') as shown: assert shown is None\n"
        "print(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    said = subprocess.run([sys.executable, "-c", look], env={}, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "False"
