"""Operations: the permit that is the only door to sending, the answers, and what they settle."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection, text

from business_store.limits import turn_of
from business_store.runs import Move, Rider, move_through_running
from domain.canonical import sha256
from domain.operations import Answered, Looked, PermitAsked, Sendable, proved_absent
from domain.permits import Asking, Follow, Line, Permission, Permitted, Refused, Turn, permission
from domain.records import Facts, Operation, StoredVersion
from domain.signals import Evidence
from domain.states import RunState

INSERT_OPERATION = """
    taken AS (
        INSERT INTO operation (key, request_id, run_id, step, generation, input_version, policy_version, system, kind,
            content, content_sha256, outcome, in_flight_attempt, in_flight_until)
        VALUES (:key, :request, :run, :step, :generation, :version, :policy, :system, :kind, :content, :sha, 'unknown',
            :attempt, :lease_until)
    )
"""
TAKE_OFF = """
    taken AS (
        UPDATE operation SET outcome = 'unknown', in_flight_attempt = :attempt, in_flight_until = :lease_until
        WHERE key = :key AND (in_flight_attempt IS NULL OR in_flight_until <= clock_timestamp())
    )
"""
INSERT_ATTEMPT = """
    dispatched AS (
        INSERT INTO dispatch (id, system, kind, permitted_at) VALUES (:dispatch, :system, :kind, :now)
    ), permitted AS (
        INSERT INTO attempt (operation_key, number, run_id, decision_id, epoch, engine_run, permitted_at, send_before,
            lease_until, content_sha256, token, dispatch_id)
        VALUES (:key, :attempt, :run, :decision, :epoch, :engine_run, :now, :send_before, :lease_until, :sha, :token,
            :dispatch)
    )
"""
BY_TOKEN = text("SELECT number, send_before, lease_until, decision_id FROM attempt WHERE token = :token")


def permit(connection: Connection, facts: Facts, asked: PermitAsked) -> Permission:
    """Under the request lock: write operation and attempt, or say why not. The first permit seals the version."""
    target, line = facts.target, facts.line(asked.sendable.step)
    given = _given_before(connection, line, asked.token)
    if given is not None:
        return given
    if target is None or _former_exists(facts, asked.sendable):
        return Refused("former_generation_exists" if target else "no_version", Follow.OPERATOR)
    same = line if line is not None and line.generation == asked.sendable.generation else None
    turn = _turn(connection, facts, asked.sendable)
    answer = permission(_asking(facts, target, turn), _line(asked, same), asked.reading, asked.timing, facts.now)
    if isinstance(answer, Permitted):
        _use_turn(connection, facts, asked.sendable)
        _write(connection, facts, asked, answer)
    return answer


def _given_before(connection: Connection, line: Operation | None, token: str) -> Permitted | None:
    """The permit that a commit whose answer was lost has written already."""
    if line is None or line.in_flight_until is None:
        return None
    row = connection.execute(BY_TOKEN, {"token": token}).first()
    return Permitted(row.number, row.send_before, row.lease_until, row.decision_id) if row else None


def _former_exists(facts: Facts, sendable: Sendable) -> bool:
    """Evidence that any former generation exists bars every later one."""
    former = [o for o in facts.operations if o.step == sendable.step and o.generation < sendable.generation]
    return not all(map(proved_absent, former))


def _turn(connection: Connection, facts: Facts, sendable: Sendable) -> Turn | None:
    """Asked for only where the facts say that there is a limit at all: a run costs nothing more without one."""
    until = facts.throttles.get(sendable.system)
    if until is None or until <= facts.now:
        return None
    return turn_of(connection, sendable.account, facts.run.id, facts.now, use=False)


def _use_turn(connection: Connection, facts: Facts, sendable: Sendable) -> None:
    until = facts.throttles.get(sendable.system)
    if until is not None and until > facts.now:
        turn_of(connection, sendable.account, facts.run.id, facts.now, use=True)


def _asking(facts: Facts, target: StoredVersion, turn: Turn | None) -> Asking:
    newest = facts.newest or target
    run = facts.run
    return Asking(
        kind=run.kind,
        state=run.state,
        version=target.version,
        newest_fingerprint=newest.version.fingerprint,
        sealed=run.sealed_version is not None,
        decisions=facts.decisions,
        canceled=run.cancel_requested_at is not None,
        subjects_collide=facts.subjects_collide,
        unread_deliveries=facts.unread > 0,
        turn=turn,
    )


def _line(asked: PermitAsked, same: Operation | None) -> Line:
    if same is None:
        return Line(asked.sendable.contracts, Evidence(), None)
    return Line(asked.sendable.contracts, same.evidence, same.in_flight_until)


def _write(connection: Connection, facts: Facts, asked: PermitAsked, permitted: Permitted) -> None:
    run, sendable, target = facts.run, asked.sendable, facts.target
    assert target is not None
    dispatch = f"dsp-{asked.token}"
    named = {
        "key": sendable.key,
        "request": run.request_id,
        "run": run.id,
        "step": sendable.step,
        "generation": sendable.generation,
        "version": target.version.number,
        "policy": run.policy_version,
        "system": sendable.system,
        "kind": sendable.kind,
        "content": sendable.content,
        "sha": sha256(sendable.content),
        "attempt": permitted.attempt,
        "decision": permitted.decision_id,
        "epoch": asked.execution.epoch,
        "engine_run": asked.execution.engine_run,
        "now": facts.now,
        "send_before": permitted.send_before,
        "lease_until": permitted.lease_until,
        "token": asked.token,
        "dispatch": dispatch,
    }
    evidence = {"operation": sendable.key, "content_sha256": sha256(sendable.content).hex()}
    evidence |= {"decision": permitted.decision_id, "send_before": permitted.send_before.isoformat()}
    evidence |= {"dispatch": dispatch}
    made = Move(
        RunState.RUNNING,
        "permitted",
        sendable.step,
        permitted.attempt,
        evidence=evidence,
        tries=run.tries,
        seal=run.sealed_version or target.version.number,
        riders=(Rider(INSERT_OPERATION if permitted.attempt == 1 else TAKE_OFF, named), Rider(INSERT_ATTEMPT, named)),
    )
    move_through_running(connection, run, made)


INSERT_ANSWER = text("""
    INSERT INTO answer (id, operation_key, attempt, signal, code, doubt, reference, retry_after, refused, http_status,
        excerpt)
    VALUES (:id, :key, :attempt, :signal, :code, :doubt, :reference, :retry_after, :refused, :http_status, :excerpt)
    ON CONFLICT DO NOTHING
""")


def record_answer(connection: Connection, answered: Answered) -> None:
    """Insert the answer, whoever owns the run by now: a late answer is evidence and never lost."""
    answer = answered.answer
    connection.execute(
        INSERT_ANSWER,
        {
            "id": answered.id,
            "key": answered.key,
            "attempt": answered.attempt,
            "signal": answer.signal,
            "code": answer.code,
            "doubt": answer.doubt,
            "reference": answer.reference,
            "retry_after": answer.retry_after,
            "refused": answer.refused,
            "http_status": answer.http_status,
            "excerpt": answer.excerpt.replace("\0", "�")[:500],
        },
    )


INSERT_PROBE = text("""
    INSERT INTO probe (id, operation_key, began_at, found, code, reference)
    VALUES (:id, :key, :began_at, :found, :code, :reference) ON CONFLICT DO NOTHING
""")


def record_probe(connection: Connection, looked: Looked) -> None:
    """Insert what one look-up saw; the same one again adds nothing."""
    connection.execute(
        INSERT_PROBE,
        {
            "id": looked.id,
            "key": looked.key,
            "began_at": looked.began_at,
            "found": looked.finding.found,
            "code": looked.finding.code,
            "reference": looked.finding.reference,
        },
    )


SETTLE = """
    settled AS (
        UPDATE operation SET outcome = :outcome, settled_by = :by, reference = coalesce(:reference, reference),
            in_flight_attempt = NULL, in_flight_until = NULL
        WHERE key = :key
    )
"""
LAND = text("UPDATE operation SET in_flight_attempt = NULL, in_flight_until = NULL WHERE key = :key")


def settled(key: str, outcome: str, by: str, reference: str | None = None) -> Rider:
    """The projection of a settled outcome onto the operation's row, riding in the transition that it causes."""
    return Rider(SETTLE, {"key": key, "outcome": outcome, "by": by, "reference": reference})


def land(connection: Connection, key: str) -> None:
    """The latest attempt is not in flight any more, and what it did is still in doubt."""
    connection.execute(LAND, {"key": key})


def unsealed(connection: Connection, facts: Facts) -> Facts:
    """Lift the seal when every operation of the run is proved not executed: a newer version may then be asked about."""
    own = [operation for operation in facts.operations if operation.run_id == facts.run.id]
    if facts.run.sealed_version is None or not own or not all(map(proved_absent, own)):
        return facts
    run = facts.run
    made = Move(run.state, "seal_lifted", "snapshot", next_owner=run.next_owner, deadline=run.deadline, unseal=True)
    return replace(facts, run=move_through_running(connection, run, made))
