"""Reading every mandatory record back and comparing it field by field with what was approved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from activities.snapshots import Snapshots
from activities.tools import Tools
from domain.boundaries import boundary
from domain.canonical import canonical_bytes
from domain.effects import context_of, differing, expected, target_of
from domain.process import Effect, Process
from domain.records import Compared, Facts, Taken


@dataclass(frozen=True)
class Agreement:
    """Compares for one worker."""

    tools: Tools
    snapshots: Snapshots

    def compare(self, facts: Facts, process: Process[Any]) -> tuple[Taken | None, list[Compared]]:
        """Readings of every effect and of the subject. Raises ReadFailed, SubjectGone."""
        compared = [self._effect(facts, process, effect) for effect in process.effects]
        taken = self.snapshots.take(facts, process)
        if taken is not None:
            compared.append(_subject(facts, taken))
        return taken, compared

    def _effect(self, facts: Facts, process: Process[Any], effect: Effect[Any]) -> Compared:
        line = facts.line(effect.step)
        if line is None or line.reference is None:
            raise AssertionError(f"{effect.step} has no accepted operation")
        connector = self.tools.connectors[effect.system]
        with boundary("read-back", facts.run.id):
            found = connector.read_back(effect.operation, line.reference)
        version = target_of(facts)
        wanted = expected(effect, process, version, context_of(facts, line.run_id, version))
        content = canonical_bytes({name: found.get(name) for name in sorted(wanted)})
        return Compared(effect.system, line.reference, content, facts.now, differing(wanted, found))


def _subject(facts: Facts, taken: Taken) -> Compared:
    """The CRM record agrees with the sealed version, or with the newest, which may just have been read and held."""
    return Compared(facts.subject.system, facts.subject.object_id, taken.snapshot.canonical, taken.read_at, ())


def intent(process: Process[Any], step: str, facts: Facts) -> Mapping[str, Any]:
    """What a rehearsal records instead of sending."""
    effect = process.effect(step)
    version = facts.target.version.number if facts.target else 0
    return {"would_send": f"{effect.system}.{effect.operation}", "version": version}
