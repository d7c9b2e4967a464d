"""Input versions: what the CRM said, when it was read, who made it, and which approval outlives the change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sqlalchemy import Connection, text

from business_store.actors import identified
from business_store.facts import read_facts
from business_store.requests import link_subjects
from business_store.runs import Move, move
from domain.approvals import Outcome, carry_over
from domain.canonical import sha256
from domain.deliveries import Disposition
from domain.process import Process
from domain.records import Facts, Taken

STALE = text("""
    INSERT INTO reading (request_id, run_id, purpose, system, reference, content, sha256, began_at)
    SELECT :request, :run, :purpose, :system, :reference, :content, :sha, :began_at WHERE NOT EXISTS (
        SELECT FROM reading WHERE (run_id, purpose, sha256, began_at) = (:run, :purpose, :sha, :began_at))
""")
CLOSE = text("""
    UPDATE delivery SET disposition = :disposition, settled_at = clock_timestamp()
    WHERE request_id = :request AND disposition = 'pending_read' AND id <= :upto
""")
INSERT = text("""
    INSERT INTO input_version (request_id, number, canonical, fingerprint, problems, marker, owner, read_at)
    VALUES (:request, :number, :canonical, :fingerprint, :problems, :marker, :owner, :read_at)
""")
MAKER = text("""
    INSERT INTO version_maker (request_id, number, actor_id) VALUES (:request, :number, :actor) ON CONFLICT DO NOTHING
""")
SUPERSEDE = text("""
    UPDATE review SET status = 'superseded', closed_at = clock_timestamp() WHERE run_id = :run AND status = 'open'
""")
CARRY = text("""
    INSERT INTO carry_over (decision_id, request_id, version, policy_version, material, changed)
    VALUES (:decision, :request, :version, :policy, :material, :changed) ON CONFLICT DO NOTHING
""")


def record_snapshot(connection: Connection, facts: Facts, process: Process, taken: Taken) -> Facts:  # type: ignore[type-arg]
    """Under the request lock: store what was read as a new version, an echo or stale; return the facts after it."""
    disposition = _judged(facts, taken)
    if disposition is Disposition.STALE:
        _keep_stale(connection, facts, taken)
    if disposition is Disposition.READ:
        _insert(connection, facts, taken)
        facts = _amended(connection, read_facts(connection, facts.run.id), process)
    if taken.upto:
        named = {"disposition": disposition, "request": facts.run.request_id, "upto": taken.upto}
        connection.execute(CLOSE, named)
        facts = replace(facts, unread=0, inline=None)
    return facts


def _judged(facts: Facts, taken: Taken) -> Disposition:
    """An open run needs the bytes, so the same ones again are a new version where the former were erased."""
    newest = facts.newest
    if newest is None:
        return Disposition.READ
    needed = newest.canonical is None and facts.run.is_open
    if taken.snapshot.fingerprint == newest.version.fingerprint and not needed:
        return Disposition.ECHO
    return Disposition.STALE if taken.read_at < newest.read_at else Disposition.READ


def _keep_stale(connection: Connection, facts: Facts, taken: Taken) -> None:
    connection.execute(
        STALE,
        {
            "request": facts.run.request_id,
            "run": facts.run.id,
            "purpose": "stale_snapshot",
            "system": facts.subject.system,
            "reference": facts.subject.object_id,
            "content": taken.snapshot.canonical,
            "sha": sha256(taken.snapshot.canonical),
            "began_at": taken.read_at,
        },
    )


def _insert(connection: Connection, facts: Facts, taken: Taken) -> None:
    number = len(facts.versions) + 1
    connection.execute(
        INSERT,
        {
            "request": facts.run.request_id,
            "number": number,
            "canonical": taken.snapshot.canonical,
            "fingerprint": taken.snapshot.fingerprint,
            "problems": list(taken.snapshot.problems),
            "marker": taken.marker,
            "owner": taken.owner,
            "read_at": taken.read_at,
        },
    )
    _insert_makers(connection, facts.run.request_id, number, taken.makers)
    if taken.linked is not None:
        link_subjects(connection, [(facts.run.request_id, taken.linked)], live=False)


def _insert_makers(connection: Connection, request_id: str, number: int, makers: Iterable[str]) -> None:
    for identity in sorted(makers):
        connection.execute(MAKER, {"request": request_id, "number": number, "actor": identified(connection, identity)})


def _amended(connection: Connection, facts: Facts, process: Process) -> Facts:  # type: ignore[type-arg]
    """What a newer version does to an open run: held once sealed, else it closes the question about the older one."""
    newest = facts.newest
    if newest is None or not facts.run.is_open or newest.version.number == 1:
        return facts
    evidence = {"version": newest.version.number, "fingerprint": newest.version.fingerprint}
    if facts.run.sealed_version is not None:
        return _noted(connection, facts, "amendment_held", evidence)
    connection.execute(SUPERSEDE, {"run": facts.run.id})
    carried = _carry_over(connection, facts, process)
    return _noted(connection, facts, "approval_carried_over" if carried else "amended", evidence)


def _noted(connection: Connection, facts: Facts, reason: str, evidence: dict[str, object]) -> Facts:
    run = facts.run
    noted = Move(
        run.state, reason, step="snapshot", next_owner=run.next_owner, deadline=run.deadline, evidence=evidence
    )
    move(connection, run, noted)
    return read_facts(connection, run.id)


def _carry_over(connection: Connection, facts: Facts, process: Process) -> bool:  # type: ignore[type-arg]
    approved = next((d for d in reversed(facts.decisions) if d.outcome is Outcome.APPROVED), None)
    if approved is None:
        return False
    since = [(stored.version, stored.canonical) for stored in facts.versions[approved.version - 1 :]]
    immaterial = set(process.inputs.model_fields) - process.material
    ruling = carry_over(approved, since, immaterial, facts.now)
    if ruling is None:
        return False
    connection.execute(
        CARRY,
        {
            "decision": ruling.decision_id,
            "request": facts.run.request_id,
            "version": len(facts.versions),
            "policy": facts.run.policy_version,
            "material": sorted(process.material),
            "changed": sorted(ruling.changed),
        },
    )
    return True
