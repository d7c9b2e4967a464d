"""What a schedule left behind, judged: how many records there are, where the run stands, and whether all agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from drill.ends import MODES, End
from drill.four_places import FourPlaces
from drill.journeys import JOURNEYS
from drill.points import Schedule
from drill.slot import Slot, Subject
from drill.waiting import Late


@dataclass(frozen=True, slots=True)
class Verdict:
    """Zero everywhere is the only pass. `notes` say what was seen; `missed`: no process came to the point."""

    schedule: Schedule
    duplicates: int = 0
    losses: int = 0
    wrong: int = 0
    violations: int = 0
    missed: bool = False
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return not (self.duplicates or self.losses or self.wrong or self.violations or self._never_come)

    @property
    def _never_come(self) -> bool:
        """How often a process comes to a point again depends on time; to a point's first time every run comes."""
        return self.missed and self.schedule.point is not None and self.schedule.point.nth == 1


@dataclass
class Judging:
    """One schedule's run being judged."""

    slot: Slot
    subject: Subject
    schedule: Schedule
    notes: list[str] = field(default_factory=list)

    def verdict(self, late: Late | None) -> Verdict:
        """`late`: the journey's own complaint that the run did not move."""
        if late is not None:
            self.notes.append(str(late))
        duplicates = self._surplus()
        wrong, lost = self._place()
        violations = [f"{v.invariant} {v.table} {v.row}: {v.detail}" for v in self.slot.audited()]
        self.notes += violations
        missed = self.schedule.point is not None and not self.slot.reached()
        losses = int(late is not None) + lost
        return Verdict(self.schedule, duplicates, losses, wrong, len(violations), missed, tuple(self.notes))

    def _surplus(self) -> int:
        made = {"accounts": self.slot.accounts(self.subject.run_id), "tasks": self.slot.tasks(self.subject.run_id)}
        self.notes += [f"{len(found)} {kind}" for kind, found in made.items() if len(found) > 1]
        return sum(max(0, len(found) - 1) for found in made.values())

    def _place(self) -> tuple[int, int]:
        """Whether the run stands where its contract lets it, and whether something outside is unknown to the store."""
        row = self._run()
        accounts, tasks = len(self.slot.accounts(self.subject.run_id)), len(self.slot.tasks(self.subject.run_id))
        if not any(_fits(end, row, accounts, tasks) for end in self._allowed()):
            self.notes.append(f"stands in {row['state']} ({row['reason']}) with {accounts} accounts, {tasks} tasks")
            return 1, self._unknown()
        return self._disagreements(row, accounts, tasks), self._unknown()

    def _run(self) -> dict[str, Any]:
        found = self.slot.rows("SELECT state, reason FROM run WHERE id = %s", self.subject.run_id)
        return found[0] if found else {"state": "", "reason": ""}

    def _allowed(self) -> Sequence[End]:
        ends = JOURNEYS[self.schedule.journey].ends
        return ends or MODES[self.schedule.mode].allowed(doubted=self._doubted())

    def _doubted(self) -> bool:
        """Whether the store has no answer to a send, or one that says nothing."""
        return bool(self.slot.rows(DOUBTED, self.subject.run_id))

    def _unknown(self) -> int:
        """Accounts that exist while the store holds them for not made."""
        known = self.slot.rows(HELD_FOR_UNMADE, self.subject.run_id)
        return len(self.slot.accounts(self.subject.run_id)) if known else 0

    def _disagreements(self, row: dict[str, Any], accounts: int, tasks: int) -> int:
        if not row["state"]:
            return 0
        try:
            FourPlaces(self.slot, self.subject.run_id).agree(row["state"], accounts, tasks)
        except (AssertionError, Late) as disagree:
            self.notes.append(f"the places disagree: {disagree!s:.300}")
            return 1
        return 0


def _fits(end: End, row: dict[str, Any], accounts: int, tasks: int) -> bool:
    stands = (end.state, end.reason) == (row["state"], row["reason"])
    return stands and accounts in end.accounts and tasks in end.tasks


DOUBTED = """
    SELECT FROM attempt a JOIN operation o ON o.key = a.operation_key WHERE o.run_id = %s
    AND NOT EXISTS (SELECT FROM answer n WHERE (n.operation_key, n.attempt) = (a.operation_key, a.number)
        AND (n.signal IN ('accepted', 'not_sent', 'rejected') OR n.refused))
"""
HELD_FOR_UNMADE = """
    SELECT FROM operation WHERE run_id = %s AND step = 'create-account' AND outcome IN ('not_sent', 'rejected')
"""
