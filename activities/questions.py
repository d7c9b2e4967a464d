"""Where a run stands with its review: looked at before anything is done that rests on an approval."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from activities.snapshots import Snapshots
from activities.tools import Tools
from activities.turns import Turns
from domain.execution import StepCall, Then
from domain.process import Process
from domain.records import Facts, Standing
from domain.states import ASKING, RunState


@dataclass(frozen=True)
class Questions:
    """Asks, and looks for answers, for one worker."""

    tools: Tools
    snapshots: Snapshots

    def look(
        self, call: StepCall, facts: Facts, process: Process[Any], *, always: bool = False
    ) -> tuple[Facts, Standing]:
        """Believe the stored review alone; read the subject `always`, or where it was changed meanwhile.

        Raises ReadFailed, SubjectGone.
        """
        read = always or facts.unread > 0 or facts.run.state is RunState.RETRYING
        waiting = Turns(self.tools).not_yet(call, facts, (facts.subject.system,)) if read else None
        if waiting is not None:
            return waiting
        taken = self.snapshots.take(facts, process) if read else None
        return self.tools.ledger.begin(call, process, taken)

    def answered(self, call: StepCall, facts: Facts, process: Process[Any]) -> tuple[Facts, Standing]:
        """The same where the run waits for an answer; any other goes on. Raises ReadFailed, SubjectGone."""
        if facts.run.state not in ASKING:
            return facts, Standing(facts.run, Then.GO_ON)
        facts, standing = self.look(call, facts, process)
        return replace(facts, run=standing.run), standing
