"""Every write of the store, each ready to be made for one company: what has to be there first, and the write itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

from store_builder import AMENDER, STEPS, Book, changed, company, receipt

from business_store.actors import actor, add_actor, grant, issue_token
from business_store.decisions import decide, revoke_decision
from business_store.intake import accept
from business_store.requests import Asked, open_repair, start_run
from business_store.resolving import ResolutionAsked, resolve
from business_store.sweeping import EngineRow, execution_gone
from domain.approvals import Outcome
from domain.credentials import Account
from domain.deliveries import ReceiptVerdict
from domain.errors import CounterfoilError
from domain.operations import Answered, Granted, Line, Looked
from domain.resolutions import Action
from domain.signals import Answer, Doubt, Finding, Found, Signal
from domain.states import RunKind

ANSWERS = {
    "accepted": Answer(Signal.ACCEPTED, "created", "ext-1"),
    "rejected": Answer(Signal.REJECTED, "invalid_iban"),
    "not_sent": Answer(Signal.NOT_SENT, "connect_failed"),
    "throttled": Answer(Signal.THROTTLED, "rate_limited", retry_after=timedelta(minutes=5), refused=True),
    "unknown": Answer(Signal.UNKNOWN, "timeout", doubt=Doubt.NO_ANSWER),
    "mismatch": Answer(Signal.MISMATCH, "idempotency_error"),
}
NAMED = re.compile(r"\b(run|req|op|dec|rev|cor|res)-[a-z0-9]{26}\b")
UNTOLD = {"id", "run_id", "key", "business_key", "request_id", "correlation_id", "repeated", "index", "token"}
"""What differs between two companies, or says only that this is a repetition."""


@dataclass(frozen=True)
class Written:
    """One write about one company."""

    book: Book
    object_id: str

    @property
    def run_id(self) -> str:
        query = "SELECT run.id FROM run JOIN subject_link USING (request_id) WHERE object_id = :o ORDER BY number DESC"
        return str(self.book.rows(query, o=self.object_id)[0].id)

    def by(self, book: Book) -> Written:
        """The same company through another way into the store."""
        return replace(self, book=book)

    def granted(self) -> Granted:
        """The permit that the run holds, asked for again by its token."""
        return self.book.permit(self.run_id, token=f"token-{self.object_id}")

    def element(self, number: int = 1, **more: Any) -> Any:  # noqa: ANN401
        key = f"evt-{self.object_id}-{number}"
        return changed(self.object_id, dedupe_key=key, **more)


def nothing(at: Written) -> None:
    """A company that nobody has asked anything about."""


def triggered(at: Written) -> None:
    at.book.deliver(at.element())


def asked(at: Written) -> None:
    triggered(at)
    at.book.snapshot(at.run_id)


def approved(at: Written) -> None:
    triggered(at)
    at.book.approved(at.run_id, at.book.actor("sonja"))


def decided(at: Written) -> None:
    asked(at)
    at.book.decide(at.run_id, at.book.actor("sonja"))


def permitted(at: Written) -> None:
    approved(at)
    at.granted()


def doubtful(at: Written) -> None:
    permitted(at)
    answer(at, "unknown")


def mismatched(at: Written) -> None:
    permitted(at)
    answer(at, "mismatch")


def refused_outside(at: Written) -> None:
    permitted(at)
    answer(at, "rejected")


def carried_out(at: Written) -> None:
    approved(at)
    at.book.carry_out(at.run_id)


def held_newer(at: Written) -> None:
    carried_out(at)
    at.book.snapshot(at.run_id, name="Südwind Neu GmbH")


def ended(at: Written) -> None:
    refused_outside(at)
    resolution(Action.FAIL)(at)


def accepting(number: int = 1, **more: Any) -> Work:  # noqa: ANN401
    def work(at: Written) -> object:
        return at.book.deliver(at.element(number, **more), body=f"{at.object_id}-{number}".encode())

    return work


def forged_receipt(at: Written) -> object:
    received = replace(receipt(at.object_id.encode()), verdict=ReceiptVerdict.BAD_SIGNATURE)
    return at.book.store.write(lambda connection: accept(connection, received, [], [at.book.process]))


def deciding(outcome: Outcome, by: str = "sonja") -> Work:
    def work(at: Written) -> object:
        return at.book.decide(at.run_id, at.book.actor(by), outcome)

    return work


def deciding_wrongly(at: Written) -> object:
    wanted = replace(at.book.asked(at.run_id), fingerprint="0" * 64)
    return refusal(lambda: decide(at.book.store, at.book.actor("sonja"), wanted, timedelta(days=1)))


def refusal(work: Callable[[], object]) -> object:
    try:
        return work()
    except CounterfoilError as refused:
        return refused.code, refused.fields.get("why")


def revoking(at: Written) -> object:
    sonja = at.book.actor("sonja")
    return at.book.store.once(lambda c: revoke_decision(c, sonja, at.run_id, "a mistake")) is not None


def snapshot(**changes: str | None) -> Work:
    def work(at: Written) -> object:
        return at.book.snapshot(at.run_id, **changes)

    return work


def stale_snapshot(at: Written) -> object:
    taken = at.book.taken(at.run_id, name="Former GmbH")
    return at.book.begin(at.book.call(at.run_id), replace(taken, read_at=datetime(2026, 1, 1, tzinfo=UTC)))


def looking(at: Written) -> object:
    return at.book.look(at.run_id)


def looking_woken(at: Written) -> object:
    return at.book.begin(replace(at.book.call(at.run_id, "review"), woken=True), None)


def permit(at: Written) -> object:
    return at.granted()


def permit_refused(at: Written) -> object:
    return at.book.refused(at.run_id, token="another")


def answer(at: Written, name: str) -> object:
    granted = at.granted()
    of, attempt = granted.sendable, granted.permitted.attempt
    saved = Answered(f"answer-{at.object_id}", of.key, attempt, ANSWERS[name], of.account)
    return at.book.save(at.book.call(at.run_id, STEPS[0]), saved)


def answering(name: str) -> Work:
    return lambda at: answer(at, name)


def probing(found: Found, reference: str | None = None) -> Work:
    def work(at: Written) -> object:
        facts = at.book.facts(at.run_id)
        (key,) = (each.key for each in facts.operations)
        finding = Finding(found, "looked", reference)
        looked = Looked(f"probe-{at.object_id}", key, facts.now, finding, Account("stripe"))
        line = Line(key, at.book.contracts[STEPS[0]])
        return at.book.ledger.save_probe(at.book.call(at.run_id, STEPS[0]), at.book.process, looked, line)[1]

    return work


def settling(at: Written) -> object:
    key = at.book.facts(at.run_id).operations[0].key
    line = Line(key, at.book.contracts[STEPS[0]])
    return at.book.ledger.settle(at.book.call(at.run_id, STEPS[0]), at.book.process, line)[1]


def agreeing(*differing: str) -> Work:
    return lambda at: at.book.agree(at.run_id, differing)


def retrying(at: Written) -> object:
    return at.book.ledger.retry_later(at.book.call(at.run_id), at.book.process, "read_failed")[1]


def asking_operator(at: Written) -> object:
    return at.book.ledger.ask_operator(at.book.call(at.run_id), at.book.process, "own_defect")[1]


def rehearsed(at: Written) -> None:
    at.book.snapshot(at.book.rehearse(at.object_id))


def rehearsing(at: Written) -> object:
    return at.book.ledger.rehearse(at.book.call(at.run_id, STEPS[0]), {"would_send": "x"})[1]


def resolution(action: Action, reference: str | None = None, by: str = "olaf") -> Work:
    def work(at: Written) -> object:
        wanted = ResolutionAsked(at.run_id, action, "asked the provider", "ticket 4711", reference)
        who = at.book.actor(by)
        return at.book.store.once(lambda connection: resolve(connection, who, wanted, at.book.declared))

    return work


def starting(*, rehearsal: bool) -> Work:
    def work(at: Written) -> object:
        wanted = Asked(at.book.process, company(at.object_id), "counterfoil", rehearsal)
        return at.book.store.once(lambda connection: start_run(connection, wanted))[1]

    return work


def repairing(at: Written) -> object:
    run_id = at.run_id
    made = at.book.store.once(lambda c: open_repair(c, run_id, at.book.process, RunKind.REPAIR))
    return made != run_id


def losing(at: Written) -> object:
    row = EngineRow(at.run_id, 1, "partner-onboarding", "key", 1, at.book.run(at.run_id).state, "ok")
    return at.book.store.write(lambda connection: execution_gone(connection, row, ended_by_somebody=True))


def adding_actor(at: Written) -> object:
    name = f"p{at.object_id}"
    at.book.store.once(lambda connection: add_actor(connection, name, "person", name))
    at.book.store.once(lambda connection: grant(connection, name, "reviewer"))
    at.book.store.once(lambda connection: issue_token(connection, name))
    return at.book.store.read(lambda connection: actor(connection, name)).roles


Work = Callable[[Written], object]
WRITES: dict[str, tuple[Work, Work]] = {
    "trigger": (nothing, accepting()),
    "amending trigger": (asked, accepting(2, property_name="iban", by=AMENDER)),
    "irrelevant trigger": (asked, accepting(2, property_name="unheard_of")),
    "forged trigger": (nothing, forged_receipt),
    "start": (nothing, starting(rehearsal=False)),
    "rehearsal": (nothing, starting(rehearsal=True)),
    "repair": (ended, repairing),
    "approve": (asked, deciding(Outcome.APPROVED)),
    "reject": (asked, deciding(Outcome.REJECTED)),
    "refused decision": (asked, deciding_wrongly),
    "revoke": (decided, revoking),
    "first version": (triggered, snapshot()),
    "amended version": (asked, snapshot(name="Südwind Neu GmbH")),
    "immaterial version": (decided, snapshot(phone="+49 30 1")),
    "echo": (asked, snapshot()),
    "stale version": (asked, stale_snapshot),
    "incomplete version": (triggered, snapshot(iban=None)),
    "approved": (decided, looking),
    "unmatched signal": (asked, looking_woken),
    "permit": (approved, permit),
    "refused permit": (permitted, permit_refused),
    **{f"answer {name}": (permitted, answering(name)) for name in ANSWERS},
    "probe found": (doubtful, probing(Found.ONE, "ext-1")),
    "probe absent": (doubtful, probing(Found.NONE)),
    "probe failed": (doubtful, probing(Found.FAILED)),
    "settle": (doubtful, settling),
    "agreement": (carried_out, agreeing()),
    "agreement with a newer version held": (held_newer, agreeing()),
    "disagreement": (carried_out, agreeing("name")),
    "failed read": (triggered, retrying),
    "own defect": (asked, asking_operator),
    "rehearsed effect": (rehearsed, rehearsing),
    "confirm": (mismatched, resolution(Action.CONFIRM, "ext-1")),
    "not executed": (mismatched, resolution(Action.NOT_EXECUTED)),
    "write off": (mismatched, resolution(Action.WRITE_OFF)),
    "retry": (refused_outside, resolution(Action.RETRY)),
    "fail": (refused_outside, resolution(Action.FAIL)),
    "lost execution": (asked, losing),
    "actor, role and token": (nothing, adding_actor),
}
"""Before, and the write."""

TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename"
EVENTS = """
    SELECT run.number, event.step, event.attempt, event.previous, event.next, event.reason, event.next_owner, run.tries
    FROM event JOIN run ON run.id = event.run_id JOIN subject_link ON subject_link.request_id = run.request_id
    WHERE subject_link.object_id = :object_id ORDER BY run.number, event.seq
"""


def counts(book: Book) -> dict[str, int]:
    """Rows of every table."""
    names = [row.tablename for row in book.rows(TABLES)]
    (row,) = book.rows("SELECT " + ", ".join(f"(SELECT count(*) FROM {name})" for name in names))
    return dict(zip(names, row, strict=True))


def history(at: Written) -> list[tuple[object, ...]]:
    """What happened to the runs of this company."""
    return [tuple(row) for row in at.book.rows(EVENTS, object_id=at.object_id)]


def told(result: object) -> object:
    """An answer without what names the company or the moment."""
    match result:
        case Enum() | int() | None:
            return result
        case str():
            return NAMED.sub("…", result)
        case datetime() | timedelta():
            return type(result).__name__
        case bytes():
            return None
        case list() | tuple() | frozenset():
            return [told(each) for each in result]
        case _ if is_dataclass(result):
            named = {each.name for each in fields(result)} - UNTOLD
            return {name: told(getattr(result, name)) for name in sorted(named)}
        case _:
            return type(result).__name__
