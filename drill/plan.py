"""From recorded journeys to schedules: every point that a run came to, and what can happen there."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from domain.boundaries import Side
from drill.ends import MODES
from drill.journeys import JOURNEYS
from drill.lanes import Done
from drill.names import names_in_code
from drill.points import Action, Point, Schedule, parsed

PERIODIC = frozenset({"take-lease", "finish-turn", "note-health", "project", "projected"})
"""Entered as often as time passes: only the first time is sure to come."""
FREEZING = frozenset({"send", "permit", "save-answer", "step", "begin"})
"""Where a process that stands still and comes back would do harm."""
ALWAYS = (
    parsed("stripe/superseded/freeze@permit.1.before"),
    parsed("none/killed-in-flight/freeze@send.1.before"),
)
"""In every sample: a journey that is made for this point, and a request that must not leave any more."""


class NamesDiffer(Exception):
    """Permitted next action: a journey that comes to the boundary, or no boundary of that name."""


def clean(modes: Sequence[str]) -> list[Schedule]:
    """Every journey as it is, under each contract of these that it is drilled under."""
    return [Schedule(m, name) for m in modes for name, each in JOURNEYS.items() if each.under(MODES[m])]


def compare_names(recorded: Iterable[Done]) -> None:
    """Raises NamesDiffer unless the recorded names are those of the code."""
    come = {point.name for done in recorded for point in points(done.trace)}
    differing = come ^ names_in_code()
    if differing:
        raise NamesDiffer(f"boundaries that are only in the code or only came in a run: {', '.join(sorted(differing))}")


def schedules(recorded: Iterable[Done]) -> list[Schedule]:
    """Everything that can happen at every point of every recorded run."""
    return sorted({each for done in recorded for each in _of(done)}, key=str)


def sample(every: Sequence[Schedule], count: int, seed: str) -> list[Schedule]:
    """Of every contract and boundary some, `count` in all, the same for the same seed; contract by contract."""
    chance = random.Random(seed)
    shuffled = chance.sample(every, len(every))
    rounds: Counter[tuple[str, str, str]] = Counter()
    ranked = []
    for each in shuffled:
        kind = _kind(each)
        rounds[kind] += 1
        ranked.append((0 if each in ALWAYS else rounds[kind], each))
    chosen = [each for _, each in sorted(ranked, key=lambda pair: pair[0])[:count]]
    order = list(MODES)
    return sorted(chosen, key=lambda each: order.index(each.mode))


def _kind(schedule: Schedule) -> tuple[str, str, str]:
    return schedule.mode, str(schedule.action), schedule.point.name if schedule.point else schedule.journey


def points(trace: Iterable[str]) -> Iterator[Point]:
    """The points that these lines of a trace name."""
    for line in trace:
        if not line.endswith(" store"):
            name, nth, side = line.split(".")
            yield Point(name, int(nth), cast(Side, side))


def _of(done: Done) -> Iterator[Schedule]:
    clean_run = done.verdict.schedule
    storing = {line.removesuffix(" store") for line in done.trace if line.endswith(" store")}
    for point in set(points(done.trace)):
        if point.nth == 1 or point.name not in PERIODIC:
            for action in _actions(point, storing):
                yield Schedule(clean_run.mode, clean_run.journey, action, point)


def _actions(point: Point, storing: set[str]) -> Iterator[Action]:
    yield Action.KILL
    if point.side == "before" and point.name in storing:
        yield from (Action.CUT, Action.DOUBT)
    if point.name in FREEZING:
        yield Action.FREEZE
