"""What a schedule left behind, judged: how many records there are, where the run stands, and whether all agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from drill.ends import MODES, End
from drill.four_places import FourPlaces
from drill.journeys import JOURNEYS, Journey
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
    asked_wrongly: int = 0

    @property
    def journey(self) -> Journey:
        return JOURNEYS[self.schedule.journey]

    def may_ask(self) -> bool:
        """Whether a person may be asked where the run stands now; if not, that is where it ends."""
        if self.journey.asks:
            self.asked_wrongly = self._place(self.journey.asks)
        elif self._told_before():
            self.notes.append("a person is asked although the provider had told of the account")
            self.asked_wrongly = 1
        else:
            self.asked_wrongly = self._place(MODES[self.schedule.mode].asks if self._doubted() else ())
        return not self.asked_wrongly

    def verdict(self, late: Late | None) -> Verdict:
        """`late`: the journey's own complaint that the run did not move."""
        if late is not None:
            self.notes.append(str(late))
        duplicates = self._surplus()
        wrong = self.asked_wrongly or self._place(self.journey.ends)
        violations = [f"{v.invariant} {v.table} {v.row}: {v.detail}" for v in self.slot.audited()]
        self.notes += violations
        missed = self.schedule.point is not None and not self.slot.reached()
        losses = int(late is not None) + self._unknown()
        return Verdict(self.schedule, duplicates, losses, wrong, len(violations), missed, tuple(self.notes))

    def _surplus(self) -> int:
        made = {"accounts": self.slot.accounts(self.subject.run_id), "tasks": self.slot.tasks(self.subject.run_id)}
        self.notes += [f"{len(found)} {kind}" for kind, found in made.items() if len(found) > 1]
        return sum(max(0, len(found) - 1) for found in made.values())

    def _place(self, allowed: Sequence[End]) -> int:
        """Whether the run stands elsewhere than it may, or the places disagree.

        A request that is late may take effect while it is judged: then it is judged again.
        """
        notes, counted = len(self.notes), self._counted()
        wrong = self._placed(allowed, *counted)
        if not wrong or self._counted() == counted:
            return wrong
        del self.notes[notes:]
        return self._placed(allowed, *self._counted())

    def _counted(self) -> tuple[int, int]:
        return len(self.slot.accounts(self.subject.run_id)), len(self.slot.tasks(self.subject.run_id))

    def _placed(self, allowed: Sequence[End], accounts: int, tasks: int) -> int:
        row = self._run()
        if not any(_fits(end, row, accounts, tasks) for end in allowed):
            self.notes.append(f"stands in {row['state']} ({row['reason']}) with {accounts} accounts, {tasks} tasks")
            return 1
        return self._disagreements(row, accounts, tasks)

    def _run(self) -> dict[str, Any]:
        found = self.slot.rows("SELECT state, reason FROM run WHERE id = %s", self.subject.run_id)
        return found[0] if found else {"state": "", "reason": ""}

    def _doubted(self) -> bool:
        """Whether the store has no answer to a send, or one that says nothing."""
        return bool(self.slot.rows(DOUBTED, self.subject.run_id))

    def _told_before(self) -> bool:
        """Whether the provider's own word was there long enough for somebody to heed it."""
        made = [each["id"] for each in self.slot.accounts(self.subject.run_id)]
        return bool(self.slot.rows(TOLD_BEFORE, made, self.subject.run_id))

    def _unknown(self) -> int:
        """Accounts that exist while the store holds them for not made."""
        unmade = {each["key"] for each in self.slot.rows(HELD_FOR_UNMADE, self.subject.run_id)}
        made = [each["metadata"]["operation_key"] for each in self.slot.accounts(self.subject.run_id)]
        return sum(key in unmade for key in made)

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
    SELECT key FROM operation WHERE run_id = %s AND step = 'create-account' AND outcome IN ('not_sent', 'rejected')
"""
TOLD_BEFORE = """
    SELECT FROM callback_delivery d JOIN operation o ON o.key = d.told_key AND o.outcome = 'unknown'
    WHERE d.reference = ANY(%s) AND o.run_id = %s AND d.received_at < (
        SELECT max(e.at) FROM event e WHERE e.run_id = o.run_id
        AND e.next = 'needs_operator' AND e.previous <> 'needs_operator') - interval '1 second'
"""
