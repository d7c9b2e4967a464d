"""An operator's word on a run that needs one: recorded with reason and evidence, and only where it is permitted."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, text

from business_store.actors import Actor
from business_store.facts import locked_facts
from business_store.operations import settled
from business_store.runs import Move, Rider, move, want_nudge
from business_store.sweeping import restart_if_lost
from domain.canonical import sha256
from domain.errors import InvalidInput, NotAuthorised, ResolutionRefused
from domain.identity import short_digest
from domain.records import Facts, Operation
from domain.resolutions import Action, permitted_actions
from domain.states import ActorKind, RunState


@dataclass(frozen=True, slots=True)
class ResolutionAsked:
    """What an operator wants recorded; `operation_key` may be left out when one operation alone is in doubt."""

    run_id: str
    action: Action
    reason: str
    evidence: str
    reference: str | None = None
    operation_key: str | None = None


@dataclass(frozen=True, slots=True)
class Resolved:
    """`proposed` is true where a second operator must still agree."""

    id: str
    run_id: str
    action: str
    state: str
    proposed: bool = False


INSERT = text("""
    INSERT INTO resolution (id, run_id, operation_key, action, reference, actor_id, reason, reason_sha256, evidence,
        evidence_sha256)
    VALUES (:id, :run, :operation, :action, :reference, :actor, :reason, :reason_sha, :evidence, :evidence_sha)
""")
COUNT = text("SELECT count(*) FROM resolution WHERE run_id = :run")
PROPOSED_BY_ANOTHER = text("""
    SELECT EXISTS (SELECT FROM resolution WHERE operation_key = :operation AND action = 'propose_write_off'
    AND person_behind(actor_id) <> :person)
""")


def resolve(connection: Connection, actor: Actor, asked: ResolutionAsked) -> Resolved:
    """Record the resolution and move the run on. Raises ResolutionRefused, NotAuthorised, InvalidInput."""
    if "operator" not in actor.roles or not actor.active:
        raise NotAuthorised("resolving needs the role operator", role="operator")
    _require_text(asked)
    facts = locked_facts(connection, asked.run_id)
    in_doubt = {operation.key: operation for operation in facts.in_doubt()}
    permitted = permitted_actions(facts.run.state, tuple(in_doubt))
    if asked.action not in permitted:
        raise ResolutionRefused(
            f"{asked.action} is not permitted for a run that is {facts.run.state}",
            next_actions=permitted,
            state=facts.run.state,
            reason=facts.run.reason,
        )
    operation = _operation(in_doubt, asked)
    return _Resolving(connection, actor, asked, facts, operation).record()


def _require_text(asked: ResolutionAsked) -> None:
    for name in ("reason", "evidence"):
        if not getattr(asked, name).strip():
            raise InvalidInput(name, "a text that an auditor can follow")
    if asked.action is Action.CONFIRM and not (asked.reference or "").strip():
        raise InvalidInput("reference", "the id of the record that exists outside")


def _operation(in_doubt: dict[str, Operation], asked: ResolutionAsked) -> Operation | None:
    if not in_doubt:
        return None
    if asked.operation_key is None and len(in_doubt) == 1:
        return next(iter(in_doubt.values()))
    if asked.operation_key not in in_doubt:
        raise InvalidInput("operation", f"one of {', '.join(sorted(in_doubt))}")
    return in_doubt[asked.operation_key]


@dataclass(frozen=True, slots=True)
class _Resolving:
    connection: Connection
    actor: Actor
    asked: ResolutionAsked
    facts: Facts
    operation: Operation | None

    def record(self) -> Resolved:
        self._refuse_in_flight()
        self._refuse_against_evidence()
        if self.asked.action is Action.WRITE_OFF and not self._second_pair_of_eyes():
            return Resolved(
                self._insert("propose_write_off"), self.asked.run_id, "write_off", self.facts.run.state, True
            )
        resolution_id = self._insert(self.asked.action)
        return Resolved(resolution_id, self.asked.run_id, self.asked.action, self._moved(resolution_id))

    def _refuse_in_flight(self) -> None:
        until = self.operation.in_flight_until if self.operation else None
        if until is not None and self.facts.now < until:
            raise ResolutionRefused(
                f"the send may still be in flight until {until.isoformat()}",
                next_actions=["wait"],
                until=until.isoformat(),
            )

    def _refuse_against_evidence(self) -> None:
        """Nobody's word takes back what was seen outside."""
        operation = self.operation
        if self.asked.action is Action.NOT_EXECUTED and operation is not None and operation.evidence.effect_seen:
            raise ResolutionRefused(
                f"operation {operation.key} was seen outside: it was executed",
                next_actions=[Action.CONFIRM, Action.WRITE_OFF],
                operation=operation.key,
            )

    def _second_pair_of_eyes(self) -> bool:
        named = {"operation": self.operation.key if self.operation else None, "person": self.actor.person}
        return bool(self.connection.execute(PROPOSED_BY_ANOTHER, named).scalar_one())

    def _insert(self, action: str) -> str:
        count = self.connection.execute(COUNT, {"run": self.asked.run_id}).scalar_one()
        resolution_id = f"res-{short_digest(self.asked.run_id, str(count + 1))}"
        reason = self.asked.reason.encode("utf-8", "surrogatepass")
        evidence = self.asked.evidence.encode("utf-8", "surrogatepass")
        named = {"id": resolution_id, "run": self.asked.run_id, "action": action, "reference": self.asked.reference}
        who = {"operation": self.operation.key if self.operation else None, "actor": self.actor.id}
        kept = {"reason": reason, "reason_sha": sha256(reason), "evidence": evidence, "evidence_sha": sha256(evidence)}
        self.connection.execute(INSERT, {**named, **who, **kept})
        return resolution_id

    def _outcome(self, resolution_id: str) -> tuple[Rider, ...]:
        outcomes = {
            Action.CONFIRM: "accepted",
            Action.NOT_EXECUTED: "not_sent",
            Action.WRITE_OFF: "written_off",
        }
        outcome = outcomes.get(self.asked.action)
        if outcome is None or self.operation is None:
            return ()
        reference = self.asked.reference if self.asked.action is Action.CONFIRM else None
        return (settled(self.operation.key, outcome, f"operator:{resolution_id}", reference),)

    def _moved(self, resolution_id: str) -> str:
        over = self.asked.action in (Action.FAIL, Action.WRITE_OFF)
        evidence = {"resolution": resolution_id, "action": self.asked.action}
        if self.operation is not None:
            evidence["operation"] = self.operation.key
        reason = f"operator_{self.asked.action}"
        want_nudge(self.connection, self.facts.run.id)
        to = RunState.FAILED if over and not self._others_in_doubt() else RunState.RUNNING
        step = self.operation.step if self.operation else "resolve"
        run = move(
            self.connection,
            self.facts.run,
            Move(to, reason, step, evidence=evidence, riders=self._outcome(resolution_id)),
            (ActorKind.OPERATOR, self.actor.id),
        )
        if run.is_open:
            restart_if_lost(self.connection, run.id)
        return run.state

    def _others_in_doubt(self) -> bool:
        return any(self.operation is None or op.key != self.operation.key for op in self.facts.in_doubt())
