"""What one schedule does: a contract, a journey, and what happens to a process at which point of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from domain.boundaries import Side


class Action(StrEnum):
    """What happens to the process that reaches the point."""

    KILL = "kill"
    """SIGKILL."""
    CUT = "cut"
    """Its database connection is lost at the first statement."""
    DOUBT = "doubt"
    """Its database connection is lost right after COMMIT was executed: nobody told it so."""
    FREEZE = "freeze"
    """SIGSTOP, and SIGCONT once another process has carried the run on."""


class NotASchedule(ValueError):
    """The text names no schedule; it looks like `stripe/straight/kill@permit.1.after` or `stripe/trigger-twice`."""


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """The nth time that a run comes to this side of a boundary in one process."""

    name: str
    nth: int
    side: Side

    def __str__(self) -> str:
        return f"{self.name}.{self.nth}.{self.side}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """One run to be drilled. Without a point it is the journey itself that goes wrong."""

    mode: str
    journey: str
    action: Action | None = None
    point: Point | None = None

    def __str__(self) -> str:
        done = f"/{self.action}@{self.point}" if self.action else ""
        return f"{self.mode}/{self.journey}{done}"


def parsed(text: str) -> Schedule:
    """The schedule of this text. Raises NotASchedule."""
    mode, _, rest = text.partition("/")
    journey, _, done = rest.partition("/")
    if not mode or not journey:
        raise NotASchedule(text)
    return Schedule(mode, journey, *_done(done)) if done else Schedule(mode, journey)


def _done(text: str) -> tuple[Action, Point]:
    try:
        action, where = text.split("@")
        name, nth, side = where.split(".")
        if side not in ("before", "after"):
            raise NotASchedule(text)
        return Action(action), Point(name, int(nth), cast(Side, side))
    except ValueError:
        raise NotASchedule(text) from None
