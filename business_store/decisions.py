"""A person's decision: version, fingerprint, deadline and four eyes are proved in the transaction that writes it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, text

from business_store.actors import Actor
from business_store.database import Store
from business_store.facts import locked_facts
from business_store.reviews import CLOSE
from business_store.runs import want_nudge
from domain.approvals import Outcome
from domain.boundaries import boundary
from domain.canonical import sha256
from domain.errors import DecisionRefused, InvalidInput, NotAuthorised
from domain.identity import short_digest
from domain.records import Facts, Review
from domain.states import RunState


@dataclass(frozen=True, slots=True)
class DecisionAsked:
    """What somebody wants recorded: the version and fingerprint that they saw."""

    run_id: str
    outcome: Outcome
    version: int
    fingerprint: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """The immutable answer, as every door gives it back."""

    id: str
    run_id: str
    outcome: str
    version: int
    fingerprint: str
    actor_id: str
    decided_at: datetime
    valid_until: datetime
    repeated: bool = False


INSERT = text("""
    INSERT INTO decision (id, review_id, run_id, request_id, version, fingerprint, outcome, actor_id, comment,
        comment_sha256, decided_at, valid_until)
    VALUES (:id, :review, :run, :request, :version, :fingerprint, :outcome, :actor, :comment, :sha, :now, :valid_until)
""")
OF_REVIEW = text("""
    SELECT d.*, a.name, person_behind(d.actor_id) AS person FROM decision d JOIN actor a ON a.id = d.actor_id
    WHERE d.review_id = :review
""")
LOG = text("""
    INSERT INTO refused_decision (run_id, actor_id, outcome, version, fingerprint, code)
    VALUES (:run, :actor, :outcome, :version, :fingerprint, :code)
""")


def decide(store: Store, actor: Actor, asked: DecisionAsked, valid_for: timedelta) -> RecordedDecision:
    """Record the decision, or the refusal with its author. Raises DecisionRefused, NotAuthorised, NotFound."""
    try:
        with boundary("decide", asked.run_id):
            return store.write(lambda connection: _record(connection, actor, asked, valid_for))
    except (DecisionRefused, NotAuthorised) as refused:
        code = str(refused.fields.get("why", refused.code))
        with boundary("refuse-decision", asked.run_id):
            store.once(lambda connection: _log(connection, actor, asked, code))
        raise


def _log(connection: Connection, actor: Actor, asked: DecisionAsked, code: str) -> None:
    fingerprint = asked.fingerprint[:64].encode("ascii", "replace").decode().replace("\0", "?")
    named: dict[str, Any] = {"run": asked.run_id, "actor": actor.id, "outcome": asked.outcome, "code": code}
    version = asked.version if 0 <= asked.version < 2**31 else None
    connection.execute(LOG, {**named, "version": version, "fingerprint": fingerprint})


def _record(connection: Connection, actor: Actor, asked: DecisionAsked, valid_for: timedelta) -> RecordedDecision:
    facts = locked_facts(connection, asked.run_id)
    review = _review_of(facts, asked)
    earlier = _earlier(connection, review, actor, asked)
    if earlier is not None:
        return earlier
    _refuse_unless_open(facts, review)
    _refuse_mismatch(facts, review, asked)
    _refuse_person(facts, review, actor, asked)
    return _insert(connection, facts, review, _Made(actor, asked, valid_for))


def _review_of(facts: Facts, asked: DecisionAsked) -> Review:
    """The review that the caller saw: of their version, else the newest."""
    if not facts.reviews:
        raise _refused("no_review", "this run has not asked for a decision", facts)
    about = [review for review in facts.reviews if review.version == asked.version]
    return about[-1] if about else facts.reviews[-1]


def _refused(why: str, message: str, facts: Facts, **fields: object) -> DecisionRefused:
    newest = facts.reviews[-1] if facts.reviews else None
    still_open = newest is not None and newest.status == "open" and facts.run.is_open
    actions = [f"decide on version {newest.version}"] if newest and still_open else [f"look at run {facts.run.id}"]
    return DecisionRefused(message, next_actions=actions, why=why, state=facts.run.state, **fields)


def _earlier(connection: Connection, review: Review, actor: Actor, asked: DecisionAsked) -> RecordedDecision | None:
    row = connection.execute(OF_REVIEW, {"review": review.id}).first()
    if row is None:
        return None
    same = (row.person, row.outcome, row.version, row.fingerprint) == (
        actor.person,
        asked.outcome,
        asked.version,
        asked.fingerprint,
    )
    if not same:
        raise DecisionRefused(
            f"version {row.version} was {row.outcome} by {row.name} already",
            next_actions=[f"look at run {row.run_id}"],
            why="already_decided",
            decided_by=row.actor_id,
            outcome=row.outcome,
            decided_at=row.decided_at.isoformat(),
        )
    names = ("id", "run_id", "outcome", "version", "fingerprint", "actor_id", "decided_at", "valid_until")
    return RecordedDecision(**{name: getattr(row, name) for name in names}, repeated=True)


def _refuse_unless_open(facts: Facts, review: Review) -> None:
    if not facts.run.is_open:
        raise _refused("run_over", f"the run is {facts.run.state}: a decision can change nothing", facts)
    if review.status == "superseded":
        raise _refused("superseded", f"version {review.version} was superseded by a newer one", facts)
    if review.status == "expired" or facts.now >= review.deadline:
        raise _refused("expired", f"the deadline passed at {review.deadline.isoformat()}", facts)
    if facts.run.state is not RunState.AWAITING_REVIEW:
        raise _refused("not_awaiting_review", f"the run is {facts.run.state}", facts)


def _refuse_mismatch(facts: Facts, review: Review, asked: DecisionAsked) -> None:
    if (asked.version, asked.fingerprint) != (review.version, review.fingerprint):
        raise _refused(
            "other_content",
            f"the question is about version {review.version} with another fingerprint than the one given",
            facts,
            version=review.version,
            fingerprint=review.fingerprint,
        )


def _refuse_person(facts: Facts, review: Review, actor: Actor, asked: DecisionAsked) -> None:
    if not actor.active or review.role not in actor.roles:
        raise NotAuthorised(f"deciding needs the role {review.role}", why="role_missing", role=review.role)
    makers = facts.versions[review.version - 1].version.makers
    if asked.outcome is Outcome.APPROVED and actor.person in makers:
        raise NotAuthorised(
            "nobody approves what they asked for or changed",
            next_actions=["ask somebody else with the role"],
            why="own_work",
        )


@dataclass(frozen=True, slots=True)
class _Made:
    actor: Actor
    asked: DecisionAsked
    valid_for: timedelta


def _insert(connection: Connection, facts: Facts, review: Review, made: _Made) -> RecordedDecision:
    asked, comment = made.asked, made.asked.comment.encode("utf-8", "surrogatepass")
    recorded = RecordedDecision(
        id=f"dec-{short_digest(review.id)}",
        run_id=facts.run.id,
        outcome=asked.outcome,
        version=review.version,
        fingerprint=review.fingerprint,
        actor_id=made.actor.id,
        decided_at=facts.now,
        valid_until=facts.now + made.valid_for,
    )
    named = {"review": review.id, "run": facts.run.id, "request": facts.run.request_id, "actor": made.actor.id}
    columns = {name: getattr(recorded, name) for name in ("id", "version", "fingerprint", "outcome", "valid_until")}
    kept = {"comment": comment, "sha": sha256(comment), "now": facts.now}
    connection.execute(INSERT, {**named, **columns, **kept})
    connection.execute(CLOSE, {"id": review.id, "status": "decided"})
    want_nudge(connection, facts.run.id)
    return recorded


REVOKE = text("""
    INSERT INTO revocation (decision_id, actor_id, reason) VALUES (:decision, :actor, :reason) ON CONFLICT DO NOTHING
""")


def revoke_decision(connection: Connection, actor: Actor, run_id: str, reason: str) -> str:
    """Take the newest approval of a run back. Refused once a permit rests on it, naming the operation."""
    if not reason.strip() or "\0" in reason or reason != reason.encode("utf-8", "replace").decode():
        raise InvalidInput("reason", "a text that an auditor can follow, without NUL or lone surrogates")
    facts = locked_facts(connection, run_id)
    approved = next((d for d in reversed(facts.decisions) if d.outcome is Outcome.APPROVED and not d.revoked), None)
    if approved is None:
        raise _refused("nothing_to_revoke", "no approval of this run holds", facts)
    if actor.person != approved.person and "admin" not in actor.roles:
        raise NotAuthorised("an approval is revoked by its author or an admin", why="not_the_author")
    sent = [op.key for op in facts.operations if op.run_id == run_id and op.evidence.attempts]
    if sent:
        raise _refused("too_late", f"operation {sent[0]} was permitted under it", facts, operation=sent[0])
    connection.execute(REVOKE, {"decision": approved.id, "actor": actor.id, "reason": reason})
    if facts.run.is_open:
        want_nudge(connection, run_id)
    return approved.id
