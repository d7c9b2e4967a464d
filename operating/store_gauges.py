"""The store's gauges as Prometheus metrics, read once per scrape."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from business_store.gauges import Backlog, Gauges

log = logging.getLogger(__name__)
BACKLOGS = {
    "unstarted": "Open runs that the engine was not asked for yet",
    "unseen": "Runs that were to look again and have not",
    "unread": "Triggers whose subject was not read yet",
    "unprojected": "Runs whose newest state the CRM does not show yet",
}


class StoreGauges(Collector):
    """Asks the store when it is scraped. A store that does not answer is a metric, not a failed scrape."""

    def __init__(self, look: Callable[[], Gauges]) -> None:
        self._look = look

    def describe(self) -> list[GaugeMetricFamily]:
        """Nothing is asked at registration."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        seen = self._seen()
        yield GaugeMetricFamily(
            "counterfoil_store_up", "Whether the store answered this scrape", float(seen is not None)
        )
        if seen is not None:
            yield from _families(seen)

    def _seen(self) -> Gauges | None:
        try:
            return self._look()
        except Exception as problem:
            log.warning("the store's gauges could not be read: %s", type(problem).__name__)
            return None


def _families(seen: Gauges) -> Iterator[GaugeMetricFamily]:
    yield from _open_runs(seen)
    yield from _in_doubt(seen)
    for name, meaning in BACKLOGS.items():
        yield from _backlog(name, meaning, getattr(seen, name))
    yield from _loops(seen)
    yield from _holds(seen)
    yield GaugeMetricFamily("counterfoil_executions_unwell", "Open runs with a lost or stuck execution", seen.unwell)


def _open_runs(seen: Gauges) -> Iterator[GaugeMetricFamily]:
    counted = GaugeMetricFamily(
        "counterfoil_open_runs", "Open runs by time in their state", labels=("process", "state", "age")
    )
    oldest = GaugeMetricFamily(
        "counterfoil_oldest_open_run_seconds", "Longest time in this state", labels=("process", "state")
    )
    for runs in seen.open_runs:
        oldest.add_metric((runs.process, runs.state), runs.oldest)
        for age, count in runs.by_age.items():
            counted.add_metric((runs.process, runs.state, age), count)
    yield from (counted, oldest)


def _in_doubt(seen: Gauges) -> Iterator[GaugeMetricFamily]:
    names = ("system", "operation")
    unknown = GaugeMetricFamily("counterfoil_operations_unknown", "Sent, outcome unknown", labels=names)
    flying = GaugeMetricFamily("counterfoil_operations_in_flight", "May be under way now", labels=names)
    window = GaugeMetricFamily(
        "counterfoil_resend_window_seconds", "Until the first resend window closes", labels=names
    )
    for doubt in seen.in_doubt:
        labels = (doubt.system, doubt.operation)
        (flying if doubt.in_flight else unknown).add_metric(labels, doubt.operations)
        if doubt.window_left is not None and not doubt.in_flight:
            window.add_metric(labels, doubt.window_left)
    yield from (unknown, flying, window)


def _backlog(name: str, meaning: str, backlog: Backlog) -> Iterator[GaugeMetricFamily]:
    yield GaugeMetricFamily(f"counterfoil_{name}", meaning, backlog.waiting)
    yield GaugeMetricFamily(f"counterfoil_{name}_oldest_seconds", f"{meaning}: age of the oldest", backlog.oldest)


def _holds(seen: Gauges) -> Iterator[GaugeMetricFamily]:
    labels = ("system", "scope", "reason")
    held = GaugeMetricFamily(
        "counterfoil_held", "Accounts that every run waits for until somebody mends it", labels=labels
    )
    for hold in seen.holds:
        held.add_metric(tuple(hold[name] for name in labels), 1)
    yield held


def _loops(seen: Gauges) -> Iterator[GaugeMetricFamily]:
    lag = GaugeMetricFamily("counterfoil_loop_lag_seconds", "Since this loop last finished a turn", labels=("loop",))
    for name, seconds in seen.loops.items():
        lag.add_metric((name,), seconds)
    yield lag
