"""Real requests and runs, made through the store's own doors: no engine, no network, the onboarding process itself."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from databases import Database
from sqlalchemy import text

from business_store.actors import Actor, actor, add_actor, grant
from business_store.audit import Violation, audit
from business_store.database import Store
from business_store.decisions import DecisionAsked, RecordedDecision, decide
from business_store.intake import Accepted, accept
from business_store.ledger import Ledger
from business_store.requests import Asked, start_run
from business_store.resolving import ResolutionAsked, Resolved, resolve
from business_store.reviews import ReviewTerms
from business_store.runs import load_run
from business_store.settlements import Patience
from domain.approvals import Outcome
from domain.canonical import canonical_bytes
from domain.contracts import ClientKey, Contract, Keyed, LookupLagged, LookupStrong, Stored
from domain.credentials import Account
from domain.deliveries import Change, Delivery, Quarantined, Receipt, ReceiptVerdict
from domain.effects import context_of, inputs_of, target_of
from domain.execution import Execution, StepCall
from domain.identity import SubjectRef
from domain.operations import (
    Answered,
    Granted,
    Line,
    Looked,
    PermitWanted,
    Sendable,
    content_of,
    key_for,
    next_generation,
)
from domain.partner_onboarding import ONBOARDING
from domain.permits import Timing
from domain.process import Process, snapshot_of
from domain.records import Compared, Facts, Run, Standing, Taken
from domain.resolutions import Action
from domain.signals import Answer, Finding, Found, Signal

ACCOUNT, COMPANY = "90210001", "0-2"
REQUESTER, AMENDER = "hubspot:61000001", "hubspot:61000002"
STEPS = ("create-account", "verification-task")
VALUES: Mapping[str, str | None] = {
    "name": "Südwind Handels GmbH",
    "country": "DE",
    "partner_email": "konto@suedwind.example",
    "legal_form": "Kapitalgesellschaft",
    "bank_holder": "Südwind Handels GmbH & Söhne",
    "iban": "DE89370400440532013000",
    "linked.id": "70100200300",
    "linked.email": 'petra "Petze" <petra@suedwind.example>',
    "phone": "+49 30 5550100",
    "description": "Bestandskunde\nseit 1998",
}
KEY = ClientKey("header Idempotency-Key", 255, "account")
CONTRACTS: Mapping[str, tuple[Contract, ...]] = {
    "create-account": (
        Keyed(timedelta(hours=24), timedelta(hours=1), Stored.ALL_STARTED, KEY, backoff=timedelta(0)),
        LookupStrong(timedelta(0), "by key"),
    ),
    "verification-task": (LookupLagged(timedelta(0), timedelta(0), timedelta(0), "by key"),),
}
LONG = timedelta(days=7)


def company(object_id: str) -> SubjectRef:
    """A CRM company of the test's account."""
    return SubjectRef("hubspot", ACCOUNT, COMPANY, object_id)


def changed(object_id: str = "501", **changes: Any) -> Delivery:  # noqa: ANN401 (fields of Delivery)
    """One element of a CRM batch: by default the one that asks for an onboarding."""
    triggering = Delivery(
        index=0,
        dedupe_key=f"evt-{object_id}",
        change=Change.PROPERTY,
        subject=company(object_id),
        occurred_at=datetime(2026, 1, 5, 9, tzinfo=UTC),
        property_name=ONBOARDING.trigger.property_name,
        property_value=ONBOARDING.trigger.value,
        by=REQUESTER,
    )
    return replace(triggering, **changes)


def receipt(body: bytes = b"[]") -> Receipt:
    """A genuine delivery with these raw bytes."""
    return Receipt("hubspot", body, ReceiptVerdict.GENUINE)


class Book:
    """One database's requests and runs. `terms`, `timing`, `contracts` and `mark` may be replaced before a call."""

    def __init__(self, database: Database, url: str | None = None) -> None:
        self.database = database
        self.store = Store(url or database.url)
        self.terms = ReviewTerms(deadline=LONG, valid_for=LONG)
        self.timing = Timing(timedelta(seconds=5), timedelta(seconds=20), timedelta(seconds=30))
        self.contracts = dict(CONTRACTS)
        self.process: Process[Any] = ONBOARDING
        self.mark = "token-1"
        self.ledger = Ledger(self.store, lambda _: self.terms, lambda _: self.patience)
        self.patience = Patience(timedelta(seconds=30), timedelta(seconds=30), 20, ONBOARDING.operator_role)
        self._numbers = itertools.count(1)

    def close(self) -> None:
        """Give the connections back."""
        self.store.close()

    # Who acts.

    def person(self, name: str, *roles: str, kind: str = "person", acts_for: str | None = None) -> Actor:
        """A new actor with these roles."""

        def added(connection: Any) -> Actor:  # noqa: ANN401
            made = add_actor(connection, name, kind, name.title(), acts_for)
            for role in roles:
                made = grant(connection, name, role)
            return made

        return self.store.write(added)

    def actor(self, name: str) -> Actor:
        """The actor as it stands now."""
        with self.store.reading() as connection:
            return actor(connection, name)

    # What comes in.

    def deliver(self, *elements: Delivery | Quarantined, body: bytes = b"[]") -> list[Accepted]:
        """Take these elements in as one genuine delivery."""
        return self.store.write(lambda connection: accept(connection, receipt(body), elements, [self.process]))

    def accept_trigger(self, object_id: str = "501", **changes: Any) -> str:  # noqa: ANN401
        """A run asked for by a change in the CRM; its id."""
        (accepted,) = self.deliver(changed(object_id, **changes))
        assert accepted.run_id is not None
        return accepted.run_id

    def rehearse(self, object_id: str = "501") -> str:
        """A rehearsal of the same request; its id."""
        asked = Asked(self.process, company(object_id), "counterfoil", rehearsal=True)
        return self.store.write(lambda connection: start_run(connection, asked))[0]

    # What the steps of a workflow do.

    def call(self, run_id: str, step: str = "snapshot", engine_run: str = "exec-1", epoch: int = 1) -> StepCall:
        """An activity's call by this engine execution."""
        return StepCall(run_id, Execution(epoch, engine_run), step)

    def run(self, run_id: str) -> Run:
        """The run as it stands now."""
        with self.store.reading() as connection:
            return load_run(connection, run_id)

    def facts(self, run_id: str) -> Facts:
        """All that is known of the run now."""
        return self.ledger.facts(run_id)

    def taken(self, run_id: str, **changes: str | None) -> Taken:
        """What the CRM says: the usual values with these changed (`linked.id` is spelled `linked_id`)."""
        facts = self.facts(run_id)
        named = {name.replace("linked_", "linked."): value for name, value in changes.items()}
        return Taken(
            snapshot=snapshot_of(self.process.inputs, {**VALUES, **named}),
            marker="",
            read_at=facts.now,
            makers=frozenset({REQUESTER}) if facts.newest is None else frozenset({AMENDER}),
            owner="61000001",
            upto=facts.unread,
            live=facts.subject,
        )

    def snapshot(self, run_id: str, **changes: str | None) -> Standing:
        """Read the subject, and stand where the reviews say."""
        return self.begin(self.call(run_id), self.taken(run_id, **changes))

    def begin(self, call: StepCall, taken: Taken | None) -> Standing:
        """The same, by this execution and with this reading."""
        return self.ledger.begin(call, self.process, taken)[1]

    def look(self, run_id: str) -> Standing:
        """Load the review and believe only that."""
        return self.begin(self.call(run_id, "review"), None)

    def asked(self, run_id: str, outcome: Outcome = Outcome.APPROVED) -> DecisionAsked:
        """A decision about the newest version."""
        newest = self.facts(run_id).versions[-1].version
        return DecisionAsked(run_id, outcome, newest.number, newest.fingerprint)

    def decide(self, run_id: str, by: Actor, outcome: Outcome = Outcome.APPROVED) -> RecordedDecision:
        """Record this decision about the newest version."""
        return decide(self.store, by, self.asked(run_id, outcome), self.terms.valid_for)

    def approved(self, run_id: str, by: Actor, **changes: str | None) -> str:
        """Bring the run to where its first effect may be permitted; the decision's id."""
        self.snapshot(run_id, **changes)
        recorded = self.decide(run_id, by)
        self.look(run_id)
        return recorded.id

    # What is sent outside.

    def sendable(self, facts: Facts, step: str) -> Sendable:
        """The stored bytes of the operation, or new ones made of the version that the run is about."""
        effect, generation = self.process.effect(step), next_generation(facts, step)
        key, line = key_for(facts, step, generation), facts.line(step)
        if line is not None and line.generation == generation:
            content = content_of(line)
        else:
            version = target_of(facts)
            fields = effect.fields(inputs_of(version, self.process), context_of(facts, facts.run.id, version))
            content = canonical_bytes({"key": key, **fields})
        return Sendable(step, Account(effect.system), effect.operation, key, generation, content, self.contracts[step])

    def wanted(self, step: str, token: str | None = None) -> PermitWanted:
        """A permit to ask for; `token` names the asker."""
        token = token or f"token-{next(self._numbers)}"
        return PermitWanted(lambda facts: self.sendable(facts, step), self.timing, token)

    def ask_permit(
        self, call: StepCall, taken: Taken | None = None, token: str | None = None
    ) -> tuple[Facts, Granted | Standing]:
        """Ask with a fresh reading of unchanged values, unless another one is given."""
        taken = taken if taken is not None else self._same_again(call.run_id)
        return self.ledger.permit(call, self.process, taken, self.wanted(call.step, token))

    def _same_again(self, run_id: str) -> Taken:
        facts = self.facts(run_id)
        taken, newest = self.taken(run_id), facts.newest
        if newest is None or newest.canonical is None:
            return taken
        same = replace(taken.snapshot, canonical=newest.canonical, fingerprint=newest.version.fingerprint)
        return replace(taken, snapshot=replace(same, problems=newest.problems))

    def permit(self, run_id: str, step: str = STEPS[0], **asked: Any) -> Granted:  # noqa: ANN401
        """A permit that must be given."""
        given = self.ask_permit(self.call(run_id, step), **asked)[1]
        assert isinstance(given, Granted), given
        return given

    def refused(self, run_id: str, step: str = STEPS[0], **asked: Any) -> Standing:  # noqa: ANN401
        """Where the refusal of a permit leaves the run."""
        given = self.ask_permit(self.call(run_id, step), **asked)[1]
        assert isinstance(given, Standing), given
        return given

    def answer(self, run_id: str, granted: Granted, answer: Answer, engine_run: str = "exec-1") -> Standing:
        """Save what came back for this permit."""
        call = self.call(run_id, granted.sendable.step, engine_run)
        of = granted.sendable
        named = (f"answer-{next(self._numbers)}", of.key, granted.permitted.attempt)
        answered = Answered(*named, answer, replace(of.account, mark=self.mark))
        return self.save(call, answered)

    def save(self, call: StepCall, answered: Answered) -> Standing:
        """Save this answer; the same one again adds nothing."""
        line = Line(answered.key, self.contracts[call.step])
        return self.ledger.save_answer(call, self.process, answered, line)[1]

    def accepted(self, run_id: str, granted: Granted) -> Standing:
        """The usual answer: made, under an id that the step names."""
        return self.answer(run_id, granted, Answer(Signal.ACCEPTED, "created", f"ext-{granted.sendable.step}"))

    def probe(self, run_id: str, granted: Granted, found: Found, reference: str | None = None) -> Standing:
        """Look the effect up."""
        facts, sendable = self.facts(run_id), granted.sendable
        finding = Finding(found, "looked", reference)
        looked = Looked(f"probe-{next(self._numbers)}", sendable.key, facts.now, finding, sendable.account)
        line = Line(sendable.key, self.contracts[sendable.step])
        return self.ledger.save_probe(self.call(run_id, sendable.step), self.process, looked, line)[1]

    def resolve(self, run_id: str, by: Actor, action: Action, reference: str | None = None) -> Resolved:
        """An operator's word, with reason and evidence."""
        asked = ResolutionAsked(run_id, action, "asked the provider", "ticket 4711", reference)
        return self.store.write(lambda connection: resolve(connection, by, asked, self.declared))

    @property
    def declared(self) -> dict[str, tuple[Contract, ...]]:
        """The contracts by `system.operation`, as the doors know them."""
        return {f"{e.system}.{e.operation}": self.contracts[e.step] for e in self.process.effects}

    def agree(self, run_id: str, differing: Sequence[str] = ()) -> Standing:
        """Read every record back and compare."""
        facts = self.facts(run_id)
        made = [op for op in facts.operations if op.outcome == "accepted" and op.reference]
        compared = [Compared(o.system, o.reference or "", b"{}", facts.now, tuple(differing)) for o in made]
        call = self.call(run_id, "agree")
        return self.ledger.conclude(call, self.process, self._same_again(run_id), compared)[1]

    def carry_out(self, run_id: str) -> None:
        """Both effects at the first try."""
        for step in STEPS:
            self.accepted(run_id, self.permit(run_id, step))

    def straight(self, by: Actor, object_id: str = "501") -> str:
        """A whole run from trigger to agreement; its id."""
        run_id = self.accept_trigger(object_id)
        self.approved(run_id, by)
        self.carry_out(run_id)
        assert self.agree(run_id).run.state == "succeeded"
        return run_id

    # What is in the store.

    def rows(self, query: str, **named: Any) -> list[Any]:  # noqa: ANN401 (rows of any query)
        """What a query says, as the application."""
        with self.store.reading() as connection:
            return list(connection.execute(text(query), named))

    def count(self, table: str) -> int:
        """Rows of a table."""
        return int(self.rows(f"SELECT count(*) FROM {table}")[0][0])

    def audit(self, older_than: timedelta = LONG) -> list[Violation]:
        """The violations that an audit finds now."""
        with self.store.reading() as connection:
            return audit(connection, older_than)

    @contextmanager
    def forged(self) -> Iterator[psycopg.Connection]:
        """A superuser's connection on which no trigger and no foreign key holds."""
        with psycopg.connect(self.database.superuser_dsn) as connection:
            connection.execute("SET session_replication_role = replica")
            yield connection
