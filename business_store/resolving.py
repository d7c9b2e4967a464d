"""An operator's word on a run that needs one: recorded with reason and evidence, and only where it is permitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from sqlalchemy import Connection, text

from business_store.actors import Actor
from business_store.database import STORE_AWAY, Store, away_because
from business_store.facts import locked_facts
from business_store.operations import settled
from business_store.runs import Move, Rider, move, want_nudge
from business_store.sweeping import restart_if_lost
from domain.boundaries import boundary
from domain.canonical import sha256
from domain.contracts import Contract
from domain.errors import CounterfoilError, InvalidInput, NotAuthorised, ResolutionRefused, StoreAway
from domain.identity import short_digest
from domain.records import Facts, Operation
from domain.recovery import may_execute_until
from domain.resolutions import Action, doubts, permitted_actions
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
    repeated: bool = False


Contracts: TypeAlias = Mapping[str, tuple[Contract, ...]]
"""The recovery contracts by `system.operation`."""
MOST = 500
"""Items of one bulk resolution."""

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


def resolve(connection: Connection, actor: Actor, asked: ResolutionAsked, contracts: Contracts) -> Resolved:
    """Record the resolution and move the run on; the same word of the same person again is answered as before.

    Raises ResolutionRefused, NotAuthorised, InvalidInput, NotFound.
    """
    if "operator" not in actor.roles or not actor.active:
        raise NotAuthorised("resolving needs the role operator", role="operator")
    _require_text(asked)
    facts = locked_facts(connection, asked.run_id)
    in_doubt = {operation.key: operation for operation in facts.in_doubt()}
    permitted = permitted_actions(facts.run.state, doubts(facts, contracts))
    earlier = _earlier(connection, actor, asked, facts)
    if earlier is not None:
        return earlier
    if asked.action not in permitted:
        raise ResolutionRefused(
            f"{asked.action} is not permitted for a run that is {facts.run.state}",
            next_actions=permitted,
            state=facts.run.state,
            reason=facts.run.reason,
        )
    operation = _operation(in_doubt, asked)
    resolving = _Resolving(connection, actor, asked, facts, operation)
    resolving.refuse_in_flight(contracts)
    return resolving.record()


LAST = text("""
    SELECT r.*, person_behind(r.actor_id) AS person, e.next FROM resolution r
    LEFT JOIN event e ON e.run_id = r.run_id AND e.evidence ->> 'resolution' = r.id
    WHERE r.run_id = :run ORDER BY r.at DESC LIMIT 1
""")


def _earlier(connection: Connection, actor: Actor, asked: ResolutionAsked, facts: Facts) -> Resolved | None:
    """The last word on this run, if it was this one, and the run has not come back to ask again since."""
    row = connection.execute(LAST, {"run": asked.run_id}).first()
    if row is None or (row.next is not None and facts.run.state is RunState.NEEDS_OPERATOR):
        return None
    said = (row.person, row.action.removeprefix("propose_"), row.reference, row.reason_sha256, row.evidence_sha256)
    same = (actor.person, str(asked.action), asked.reference, *(sha256(_bytes(each)) for each in _texts(asked)))
    if said != same or asked.operation_key not in (None, row.operation_key):
        return None
    return Resolved(row.id, asked.run_id, asked.action, row.next or facts.run.state, row.next is None, repeated=True)


def _texts(asked: ResolutionAsked) -> tuple[str, str]:
    return asked.reason, asked.evidence


def _bytes(words: str) -> bytes:
    return words.encode("utf-8", "surrogatepass")


def resolve_each(
    store: Store, actor: Actor, asked: Sequence[ResolutionAsked], contracts: Contracts
) -> list[Resolved | CounterfoilError]:
    """Each in a transaction of its own: one that is refused, or meets a store that is away, stops no other."""
    if len(asked) > MOST:
        raise InvalidInput("items", f"at most {MOST}")
    return [_attempted(store, actor, each, contracts) for each in asked]


def _attempted(store: Store, actor: Actor, asked: ResolutionAsked, contracts: Contracts) -> Resolved | CounterfoilError:
    try:
        with boundary("resolve", asked.run_id):
            return store.once(lambda connection: resolve(connection, actor, asked, contracts))
    except CounterfoilError as refused:
        return refused
    except STORE_AWAY as away:
        code, message = away_because(away) or ("store_refused", "the store refused")
        return StoreAway(message, next_actions=["repeat it: what was recorded already stays one"], why=code)


def _require_text(asked: ResolutionAsked) -> None:
    for name in ("reason", "evidence"):
        if not getattr(asked, name).strip():
            raise InvalidInput(name, "a text that an auditor can follow")
    if asked.action is Action.CONFIRM and not (asked.reference or "").strip():
        raise InvalidInput("reference", "the id of the record that exists outside")


def _operation(in_doubt: dict[str, Operation], asked: ResolutionAsked) -> Operation | None:
    if not in_doubt or asked.action is Action.RETRY:
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
        self._refuse_against_evidence()
        if self.asked.action is Action.WRITE_OFF and not self._second_pair_of_eyes():
            return Resolved(
                self._insert("propose_write_off"), self.asked.run_id, "write_off", self.facts.run.state, True
            )
        resolution_id = self._insert(self.asked.action)
        return Resolved(resolution_id, self.asked.run_id, self.asked.action, self._moved(resolution_id))

    def refuse_in_flight(self, contracts: Contracts) -> None:
        """Until its lease and H are over a request may still take effect, whatever somebody saw before."""
        until = self._may_execute_until(contracts)
        if self.asked.action is not Action.RETRY and until is not None and self.facts.now < until:
            raise ResolutionRefused(
                f"the send may still take effect until {until.isoformat()}",
                next_actions=["wait"],
                until=until.isoformat(),
            )

    def _may_execute_until(self, contracts: Contracts) -> datetime | None:
        operation = self.operation
        if operation is None:
            return None
        declared = contracts.get(f"{operation.system}.{operation.kind}", ())
        ends = (operation.in_flight_until, may_execute_until(declared, operation.evidence))
        return max((end for end in ends if end is not None), default=None)

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
        reason, evidence = map(_bytes, _texts(self.asked))
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
