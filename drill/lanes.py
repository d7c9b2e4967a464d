"""Several lanes carry schedules through side by side; each is a slot that is renewed when a schedule went wrong."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from drill.callbacks import listen
from drill.driving import stands
from drill.ground import Ground
from drill.journeys import JOURNEYS
from drill.opening import slot
from drill.persons import ASKING
from drill.points import Action, Schedule
from drill.slot import Slot
from drill.verdict import Judging, Verdict
from drill.waiting import Late

ASKED_AT_MOST = 5
"""Times; each may be in doubt about another generation."""
AFTER = 40
"""Schedules after which a lane takes a fresh database, so that its audit stays short."""


@dataclass(frozen=True, slots=True)
class Done:
    """A schedule that was carried through, and the points that its run came to."""

    verdict: Verdict
    trace: tuple[str, ...]


@dataclass
class Drill:
    """Carries schedules through on this ground. `tell` hears of each, `settings` overrule those of every process."""

    ground: Ground
    lanes: int
    name: str = "drill"
    settings: Mapping[str, str] = field(default_factory=dict)
    tell: Callable[[Done], None] = lambda done: None
    _names: Iterator[int] = field(default_factory=lambda: iter(range(1_000_000)))

    def carry_through(self, schedules: Sequence[Schedule]) -> list[Done]:
        """All of them, in any order."""
        waiting: SimpleQueue[Schedule] = SimpleQueue()
        for schedule in schedules:
            waiting.put(schedule)
        with ThreadPoolExecutor(self.lanes) as threads:
            lanes = [threads.submit(self._lane, waiting) for _ in range(min(self.lanes, len(schedules)))]
            return [done for lane in lanes for done in lane.result()]

    def _lane(self, waiting: SimpleQueue[Schedule]) -> list[Done]:
        made: list[Done] = []
        with suppress(Empty):
            following = waiting.get_nowait()
            while True:
                following = self._stretch(following, waiting, made)
        return made

    def _stretch(self, first: Schedule, waiting: SimpleQueue[Schedule], made: list[Done]) -> Schedule:
        """In one slot, until a schedule fails, needs another contract, or the slot is old. Raises Empty at the end."""
        with ExitStack() as stack:
            lane = stack.enter_context(slot(self.ground, f"{self.name}_{next(self._names)}", first.mode, self.settings))
            schedule, count = first, 0
            while schedule.mode == lane.mode and count < AFTER:
                done = _carried(lane, schedule)
                made.append(done)
                self.tell(done)
                schedule, count = waiting.get_nowait(), count + 1
                if not done.verdict.passed:
                    break
        return schedule


def _carried(lane: Slot, schedule: Schedule) -> Done:
    subject = lane.seed()
    lane.ordered(subject.run_id, schedule.action, schedule.point)
    listen(lane, subject)
    judging, late = Judging(lane, subject, schedule), None
    try:
        JOURNEYS[schedule.journey].drive(lane, subject)
        _settled(judging)
        if schedule.action is Action.FREEZE and lane.reached():
            lane.thaw()
    except Late as complaint:
        late = complaint
    except Exception as problem:
        late = Late(f"{type(problem).__name__}: {problem}\n{traceback.format_exc(limit=-3)}")
    return Done(judging.verdict(late), tuple(lane.trace()))


def _settled(judging: Judging) -> None:
    """Persons carry on whatever may ask them, and each time that it asks is judged."""
    for _ in range(ASKED_AT_MOST):
        if stands(judging.slot, judging.subject) != ASKING or not judging.may_ask():
            return
        judging.journey.settle(judging.slot, judging.subject)
