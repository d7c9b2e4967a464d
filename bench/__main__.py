"""`make bench`: every figure, one line each: `figure NAME VALUE AIM`."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench import audit, decisions, onboarding, triggers, waiting
from bench.ground import Ground, ground

ROUNDS = 4


def figure(name: str, value: float, aim: str) -> None:
    """Print one figure; nothing is judged here."""
    print(f"figure {name} {value:.3g} {aim}", flush=True)


def ratio(pairs: list[tuple[float, float]]) -> float:
    """Median over rounds of ours to theirs, each round measured side by side."""
    return statistics.median(ours / theirs for ours, theirs in pairs)


def onboardings(parts: Ground) -> None:
    measured = asyncio.run(onboarding.measure(parts, ROUNDS, 60))
    figure("onboarding_vs_bare", ratio(measured.rates), ">=0.9")
    figure("events_per_run", measured.events, "info")
    figure("transactions_per_run", measured.transactions, "info")


def accepted(parts: Ground) -> None:
    pairs = triggers.measure(parts, ROUNDS, 300)
    figure("triggers_vs_bare", ratio(pairs), ">=3")
    commits = triggers.commits_per_second(parts)
    figure("triggers_vs_commits", statistics.median(ours for ours, _ in pairs) / commits, "info")


def decided(parts: Ground) -> None:
    measured = asyncio.run(decisions.measure(parts, ROUNDS * 10))
    figure("decision_to_step_vs_bare", ratio(measured.pairs), "<=1.3")
    figure("decision_accepted_s", statistics.median(measured.accepting), "info")


def waited(parts: Ground) -> None:
    few = waiting.measure(parts, 5_000)
    figure("worker_mb_5k", few.worker_mb, "<=300")
    figure("idle_cpu_5k_percent", few.idle_cpu_percent, "<=2")
    if os.environ.get("FULL"):
        figure("worker_mb_growth", waiting.measure(parts, 20_000).worker_mb / few.worker_mb, "<=1.1")


def audited(parts: Ground) -> None:
    found = audit.measure(parts, 100_000)
    figure("audit_100k_s", found.seconds, "info")
    figure("audit_100k_mb", found.megabytes, "info")


def main() -> None:
    """Each figure on ground of its own, so that none works on what another left."""
    figures: tuple[Callable[[Ground], None], ...] = (onboardings, accepted, decided, waited, audited)
    for measure in figures:
        with tempfile.TemporaryDirectory() as folder, ground(Path(folder)) as parts:
            measure(parts)


if __name__ == "__main__":
    main()
