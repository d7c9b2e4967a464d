"""`make bench`: every figure, one line each: `figure NAME VALUE AIM`; what is being done, on standard error."""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench import audit, decisions, onboarding, recovery, triggers, waiting
from bench.ground import Ground, ground


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured: rounds, and runs or triggers in each; `longer` is there for the growth of memory."""

    rounds: int = 4
    onboardings: int = 60
    triggers: int = 300
    decisions: int = 40
    waiting: int = 5_000
    longer: int | None = 20_000 if os.environ.get("FULL") else None
    audited: int = 100_000
    quiet: float = 60
    """Seconds for which idle CPU is watched: four sweeps, and thirty passes of the projection."""


SMALLEST = Sizes(1, 2, 5, 2, 3, 4, 3, 1)
"""For trying the bench itself: what it prints then says nothing."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure and what it should be; `info` is for information only."""

    name: str
    aim: str = "info"

    def show(self, value: float | None) -> None:
        """Print it, whatever it is; nothing is judged here."""
        print(f"figure {self.name} {'failed' if value is None else f'{value:.3g}'} {self.aim}", flush=True)


Measured = list[float]
"""Values in the order of the figures that they are for."""


def ratio(pairs: list[tuple[float, float]]) -> float:
    """Median over rounds of ours to theirs, each round measured side by side."""
    return statistics.median(ours / theirs for ours, theirs in pairs)


def onboardings(parts: Ground, sizes: Sizes) -> Measured:
    measured = asyncio.run(onboarding.measure(parts, sizes.rounds, sizes.onboardings))
    return [ratio(measured.rates), measured.events, measured.transactions]


def accepted(parts: Ground, sizes: Sizes) -> Measured:
    pairs = triggers.measure(parts, sizes.rounds, sizes.triggers)
    ours = statistics.median(rate for rate, _ in pairs)
    return [ratio(pairs), ours / triggers.commits_per_second(parts)]


def decided(parts: Ground, sizes: Sizes) -> Measured:
    measured = asyncio.run(decisions.measure(parts, sizes.decisions))
    return [ratio(measured.pairs), statistics.median(measured.accepting)]


def recovered(parts: Ground, sizes: Sizes) -> Measured:
    measured = asyncio.run(recovery.measure(parts))
    return [measured.events, measured.transactions]


def waited(parts: Ground, sizes: Sizes) -> Measured:
    measured = waiting.measure(parts, sizes.waiting, sizes.quiet)
    return [measured.worker_mb, measured.idle_cpu_percent]


def grown(parts: Ground, sizes: Sizes) -> Measured:
    """Both under a worker of their own, which has seen nothing else."""
    few, many = (waiting.measure(parts, runs, 0.1) for runs in (sizes.waiting, sizes.longer or sizes.waiting))
    return [many.worker_mb / few.worker_mb]


def audited(parts: Ground, sizes: Sizes) -> Measured:
    measured = audit.measure(parts, sizes.audited)
    return [measured.seconds, measured.megabytes]


Measure = Callable[[Ground, Sizes], Measured]
GROUPS: dict[str, tuple[Measure, tuple[Figure, ...]]] = {
    "onboarding": (
        onboardings,
        (Figure("onboarding_vs_bare", ">=0.9"), Figure("events_per_run"), Figure("transactions_per_run")),
    ),
    "triggers": (accepted, (Figure("triggers_vs_bare", ">=3"), Figure("triggers_vs_commits"))),
    "decisions": (decided, (Figure("decision_to_step_vs_bare", "<=1.3"), Figure("decision_accepted_s"))),
    "recovery": (recovered, (Figure("recovery_events"), Figure("recovery_transactions"))),
    "waiting": (waited, (Figure("worker_mb_5k", "<=300"), Figure("idle_cpu_5k_percent", "<=2"))),
    "growth": (grown, (Figure("worker_mb_growth", "<=1.1"),)),
    "audit": (audited, (Figure("audit_100k_s"), Figure("audit_100k_mb"))),
}


def measure(name: str, sizes: Sizes) -> bool:
    """One group on ground of its own, so that none works on what another left, and none hides another by failing."""
    work, figures = GROUPS[name]
    began = time.monotonic()
    print(f"bench: {name} …", file=sys.stderr, flush=True)
    values: list[float | None]
    try:
        with tempfile.TemporaryDirectory() as folder, ground(Path(folder)) as parts:
            values = [*work(parts, sizes)]
    except Exception:
        traceback.print_exc()
        values = [None] * len(figures)
    for figure, value in zip(figures, values, strict=True):
        figure.show(value)
    print(f"bench: {name} took {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return None not in values


def main() -> None:
    """The groups named, or all; the growth of memory only where FULL is set or it is named."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=", ".join(GROUPS))
    parser.add_argument("--smallest", action="store_true", help="only try whether everything can be measured")
    asked = parser.parse_args()
    if unknown := set(asked.groups) - GROUPS.keys():
        parser.error(f"no such group: {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    sizes = SMALLEST if asked.smallest else Sizes()
    groups = asked.groups or [name for name in GROUPS if name != "growth" or sizes.longer]
    done = [measure(name, sizes) for name in groups]
    sys.exit(0 if all(done) else 1)


if __name__ == "__main__":
    main()
