"""The end of a run: the mandatory records were read back, and either agree or do not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, text

from business_store.requests import insert_run
from business_store.runs import Move, move_through_running
from domain.approvals import changed_fields
from domain.canonical import sha256
from domain.execution import Then
from domain.process import Process
from domain.records import Compared, Facts, Standing
from domain.states import RunKind, RunState

STEP = "agree"
READING = text("""
    INSERT INTO reading (run_id, request_id, purpose, system, reference, content, sha256, agrees, began_at)
    VALUES (:run, :request, 'agreement', :system, :reference, :content, :sha, :agrees, :began_at)
""")


def conclude(connection: Connection, facts: Facts, process: Process[Any], compared: Sequence[Compared]) -> Standing:
    """Store every reading; all equal ends the run, and opens the revision for a version that was held meanwhile."""
    for reading in compared:
        _keep(connection, facts, reading)
    differing = sorted(f"{reading.system}.{name}" for reading in compared for name in reading.differing)
    if differing:
        evidence = {"differing": differing}
        made = Move(
            RunState.NEEDS_OPERATOR, "records_disagree", STEP, next_owner=process.operator_role, evidence=evidence
        )
        return Standing(move_through_running(connection, facts.run, made), Then.WAIT)
    return _succeed(connection, facts, process, compared)


def _keep(connection: Connection, facts: Facts, reading: Compared) -> None:
    connection.execute(
        READING,
        {
            "run": facts.run.id,
            "request": facts.run.request_id,
            "system": reading.system,
            "reference": reading.reference,
            "content": reading.content,
            "sha": sha256(reading.content),
            "agrees": not reading.differing,
            "began_at": reading.began_at,
        },
    )


def _succeed(connection: Connection, facts: Facts, process: Process[Any], compared: Sequence[Compared]) -> Standing:
    rehearsal = facts.run.kind is RunKind.REHEARSAL
    evidence = {
        "readings": {f"{reading.system}:{reading.reference}": sha256(reading.content).hex() for reading in compared}
    }
    made = Move(RunState.SUCCEEDED, "rehearsed" if rehearsal else "records_agree", STEP, evidence=evidence)
    run = move_through_running(connection, facts.run, made)
    if not rehearsal and process.revises_after_success and held_materially(facts, process):
        insert_run(connection, run.request_id, process, RunKind.REVISION, run.correlation_id, run.id)
    return Standing(run, Then.ENDED)


def held_materially(facts: Facts, process: Process[Any]) -> bool:
    """Whether the newest version differs from the one this run was about in a material field.

    What cannot be compared any more, because it was erased, counts as material.
    """
    target, newest = facts.target, facts.newest
    if target is None or newest is None:
        return False
    if target.canonical is None or newest.canonical is None:
        return target.version.fingerprint != newest.version.fingerprint
    return bool(changed_fields(target.canonical, newest.canonical) & process.material)
