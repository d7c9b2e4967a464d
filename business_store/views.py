"""What people and programs read of a run: bounded, from accepted state alone, without anything from the inputs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text

from business_store.facts import read_facts
from business_store.runs import load_run
from domain.contracts import AwaitCallback, Contract, ProbeAt, Resend, Settlement
from domain.errors import ContentErased, NotFound
from domain.execution import Then
from domain.reasons import meaning
from domain.records import Facts, Operation, Standing
from domain.recovery import settle, window_end
from domain.states import RunState
from domain.wording import EXPLAINED, SHOWN_AS, next_actions, shown_of, waiting_for

MAX_PAGE = 200
LISTED_VERSIONS = 20


def _instant(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def run_view(connection: Connection, run_id: str, contracts: Mapping[str, tuple[Contract, ...]]) -> dict[str, Any]:
    """One run as every door shows it. `contracts` by `system.operation` give the resend window. Raises NotFound."""
    facts = read_facts(connection, run_id)
    run, shown = facts.run, shown_of(facts, Standing(facts.run, Then.GO_ON), contracts)
    return {
        "run": run.id,
        "request": run.request_id,
        "process": run.process,
        "policy_version": run.policy_version,
        "business_key": run.business_key,
        "subject": str(facts.subject),
        "kind": run.kind,
        "number": run.number,
        "state": run.state,
        "shown_as": SHOWN_AS[run.state],
        "explained": EXPLAINED[run.state],
        "reason": run.reason,
        "meaning": meaning(run.reason),
        "since": _instant(run.state_since),
        "seq": run.seq,
        "waiting_for": waiting_for(shown),
        "next_owner": run.next_owner,
        "deadline": _instant(run.deadline),
        "next_look": _instant(_next_look(facts, contracts)),
        "resend_window_ends": _instant(_window(facts, contracts)),
        "next_actions": list(next_actions(shown)),
        "input_version": shown.version,
        "fingerprint": shown.fingerprint,
        "sealed_version": run.sealed_version,
        "versions": [_version(facts, number) for number in range(len(facts.versions))][-LISTED_VERSIONS:],
        "decisions": [_decision(decision) for decision in facts.decisions[-LISTED_VERSIONS:]],
        "operations": [_operation(operation) for operation in facts.operations],
        "engine": _engine(connection, run_id),
        "cancel_requested_at": _instant(run.cancel_requested_at),
        "erased_at": _instant(connection.execute(ERASED_AT, {"request": run.request_id}).scalar()),
    }


def _window(facts: Facts, contracts: Mapping[str, tuple[Contract, ...]]) -> datetime | None:
    ends = [
        window_end(contracts.get(f"{operation.system}.{operation.kind}", ()), operation.evidence.attempts)
        for operation in facts.unsettled()
    ]
    return min((end for end in ends if end is not None), default=None)


def _next_look(facts: Facts, contracts: Mapping[str, tuple[Contract, ...]]) -> datetime | None:
    """When automation next does something about an operation in doubt."""
    declared = [(contracts.get(f"{o.system}.{o.kind}", ()), o.evidence) for o in facts.unsettled()]
    return min(filter(None, (_due(settle(known, evidence, facts.now)) for known, evidence in declared)), default=None)


def _due(settlement: Settlement) -> datetime | None:
    match settlement:
        case ProbeAt(at):
            return at
        case Resend(moment) | AwaitCallback(moment):
            return moment
        case _:
            return None


def _version(facts: Facts, index: int) -> dict[str, Any]:
    stored = facts.versions[index]
    return {
        "number": stored.version.number,
        "fingerprint": stored.version.fingerprint,
        "read_at": _instant(stored.read_at),
        "problems": list(stored.problems),
        "erased": stored.canonical is None,
    }


def _decision(decision: Any) -> dict[str, Any]:  # noqa: ANN401 (domain.approvals.Decision)
    return {
        "decision": decision.id,
        "outcome": decision.outcome,
        "version": decision.version,
        "by": decision.person,
        "valid_until": _instant(decision.valid_until),
        "revoked": decision.revoked,
        "carried_to": sorted(decision.carried_to),
    }


def _operation(operation: Operation) -> dict[str, Any]:
    return {
        "operation": operation.key,
        "step": operation.step,
        "system": operation.system,
        "generation": operation.generation,
        "input_version": operation.input_version,
        "outcome": operation.outcome,
        "reference": operation.reference,
        "attempts": len(operation.evidence.attempts),
        "last_dispatch": operation.evidence.attempts[-1].dispatch if operation.evidence.attempts else None,
        "in_flight_until": _instant(operation.in_flight_until),
    }


ERASED_AT = text("""
    SELECT max(x.recorded_at) FROM erased_request e JOIN erasure x ON x.id = e.erasure_id WHERE e.request_id = :request
""")
ENGINE = text("""
    SELECT engine_epoch AS epoch, engine_run AS temporal_run_id, engine_health AS health, created_at,
        nudge - nudge_seen AS unseen_nudges, seq - projected_seq AS unprojected
    FROM run WHERE id = :run
""")


def _engine(connection: Connection, run_id: str) -> dict[str, Any]:
    row = dict(connection.execute(ENGINE, {"run": run_id}).mappings().one())
    return {**row, "created_at": _instant(row["created_at"])}


EVENTS = text("""
    SELECT seq, at, previous, next, reason, step, attempt, actor_kind, actor_id, next_owner, deadline, evidence,
        workflow_version, policy_version, correlation_id, encode(hash, 'hex') AS hash
    FROM event WHERE run_id = :run AND seq > :after ORDER BY seq LIMIT :limit
""")


def event_page(connection: Connection, run_id: str, after: int = 0, limit: int = 100) -> list[dict[str, Any]]:
    """Events after `after`, oldest first, at most 200. Raises NotFound."""
    load_run(connection, run_id)
    rows = connection.execute(EVENTS, {"run": run_id, "after": after, "limit": min(limit, MAX_PAGE)}).mappings()
    return [{**row, "at": _instant(row["at"]), "deadline": _instant(row["deadline"])} for row in rows]


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs to list; None means any."""

    state: RunState | None = None
    process: str | None = None
    business_key: str | None = None
    owner: str | None = None
    before: str | None = None
    limit: int = 50
    reason: str | None = None


LIST = text("""
    SELECT run.id AS run, request.business_key, run.process, run.kind, run.number, run.state, run.reason,
        run.state_since AS since, run.next_owner, run.deadline, run.engine_health, run.created_at
    FROM run JOIN request ON request.id = run.request_id
    WHERE (cast(:state AS text) IS NULL OR run.state = :state)
    AND (cast(:process AS text) IS NULL OR run.process = :process)
    AND (cast(:business_key AS text) IS NULL OR request.business_key = :business_key)
    AND (cast(:owner AS text) IS NULL OR run.next_owner = :owner)
    AND (cast(:reason AS text) IS NULL OR run.reason = :reason)
    AND (cast(:before AS text) IS NULL OR (run.created_at, run.id) <
        (SELECT created_at, id FROM run WHERE id = :before))
    ORDER BY run.created_at DESC, run.id DESC LIMIT :limit
""")


def list_runs(connection: Connection, wanted: RunFilter) -> list[dict[str, Any]]:
    """Runs, newest first, a page at a time: pass the last run's id as `before` for the next page."""
    named = {name: getattr(wanted, name) for name in RunFilter.__dataclass_fields__}
    rows = connection.execute(LIST, {**named, "limit": max(1, min(wanted.limit, MAX_PAGE))}).mappings()
    return [_listed(dict(row)) for row in rows]


def _listed(row: dict[str, Any]) -> dict[str, Any]:
    moments = {name: _instant(row[name]) for name in ("since", "deadline", "created_at")}
    return {**row, **moments, "shown_as": SHOWN_AS[RunState(row["state"])]}


INPUTS = text("""
    SELECT v.canonical, v.fingerprint FROM input_version v JOIN run ON run.request_id = v.request_id
    WHERE run.id = :run AND v.number = :number
""")


def version_inputs(connection: Connection, run_id: str, number: int) -> dict[str, Any]:
    """The inputs themselves, for a person who decides about them. Raises NotFound, ContentErased."""
    row = connection.execute(INPUTS, {"run": run_id, "number": number}).first()
    if row is None:
        raise NotFound("input version", f"{run_id}/{number}")
    if row.canonical is None:
        raise ContentErased("input version", f"{run_id}/{number}")
    return {"run": run_id, "version": number, "fingerprint": row.fingerprint, "inputs": json.loads(row.canonical)}
