"""Whatever is asked of the store, in whatever order, no promise is broken: refused is fine, wrong is not."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from store_builder import CONTRACTS, STEPS, Book, changed

from business_store.actors import Actor
from business_store.decisions import revoke_decision
from business_store.requests import open_repair
from business_store.sweeping import raise_epoch
from domain.approvals import Outcome
from domain.contracts import Contract, Keyed, LookupStrong
from domain.errors import CounterfoilError
from domain.operations import Granted
from domain.resolutions import Action
from domain.signals import Answer, Doubt, Found, Signal
from domain.states import RunKind

ANSWERS = (
    Answer(Signal.ACCEPTED, "created", "ext-1"),
    Answer(Signal.ACCEPTED, "created", "ext-2"),
    Answer(Signal.NOT_SENT, "refused"),
    Answer(Signal.REJECTED, "invalid"),
    Answer(Signal.THROTTLED, "slow_down", refused=True),
    Answer(Signal.UNKNOWN, "timed_out", doubt=Doubt.NO_ANSWER),
    Answer(Signal.UNKNOWN, "error_500", doubt=Doubt.SERVER_ERROR),
    Answer(Signal.MISMATCH, "mismatch"),
    Answer(Signal.EXISTS, "exists", "ext-1"),
)
IBANS = ("DE89370400440532013000", "DE02120300000000202051", None)
SWIFT: dict[str, tuple[Contract, ...]] = {
    step: tuple(
        replace(contract, backoff=timedelta(0))
        if isinstance(contract, Keyed)
        else LookupStrong(timedelta(0), "by key", timedelta(0), True)
        for contract in contracts
    )
    for step, contracts in CONTRACTS.items()
}


class Walk:
    """One request, pushed about at random."""

    def __init__(self, book: Book, seed: int) -> None:
        self.book, self.chance = book, random.Random(seed)
        self.people = [book.person(name, "supervisor", "operator") for name in ("sonja", "silke")]
        self.run_id = book.accept_trigger()
        self.granted: list[tuple[str, Granted]] = []
        book.contracts = SWIFT
        book.patience = replace(book.patience, sends=5)

    def actions(self) -> list[Callable[[], object]]:
        """Likelier ones more than once."""
        often = [self.snapshot, self.decide, self.look, self.permit, self.permit, self.answer, self.answer, self.probe]
        return [*often, self.resolve, self.agree, self.revoke, self.deliver, self.supersede, self.repair, self.lost]

    def go(self, steps: int) -> None:
        for _ in range(steps):
            try:
                self.chance.choice(self.actions())()
            except CounterfoilError:
                continue

    def _person(self) -> Actor:
        return self.chance.choice(self.people)

    def _newest(self) -> str:
        return str(self.book.rows("SELECT engine_run FROM run WHERE id = :run", run=self.run_id)[0][0] or "exec-1")

    def snapshot(self) -> object:
        values = {"iban": self.chance.choice(IBANS), "phone": self.chance.choice(("1", "2"))}
        epoch = self.book.run(self.run_id).engine_epoch
        call = self.book.call(self.run_id, "snapshot", self._newest(), epoch)
        return self.book.begin(call, self.book.taken(self.run_id, **values))

    def decide(self) -> object:
        outcome = self.chance.choice((Outcome.APPROVED, Outcome.APPROVED, Outcome.APPROVED, Outcome.CHANGES_REQUESTED))
        return self.book.decide(self.run_id, self._person(), outcome) if self.book.facts(self.run_id).newest else None

    def look(self) -> object:
        epoch = self.book.run(self.run_id).engine_epoch
        call = self.book.call(self.run_id, "review", self._newest(), epoch)
        return self.book.begin(call, None) if self.book.facts(self.run_id).newest else self.snapshot()

    def permit(self) -> object:
        facts = self.book.facts(self.run_id)
        if facts.newest is None or facts.newest.problems:
            return None
        account = facts.line(STEPS[0])
        step = STEPS[1] if account is not None and account.outcome == "accepted" else STEPS[0]
        call = self.book.call(self.run_id, step, self._newest(), facts.run.engine_epoch)
        given = self.book.ask_permit(call)[1]
        if isinstance(given, Granted):
            self.granted.append((self.run_id, given))
        return given

    def answer(self) -> object:
        """Late answers to any permit ever given, by whatever execution sent it."""
        if not self.granted:
            return None
        run_id, granted = self.chance.choice(self.granted)
        engine_run = self.chance.choice(("exec-1", self._newest()))
        return self.book.answer(run_id, granted, self.chance.choice(ANSWERS), engine_run)

    def probe(self) -> object:
        if not self.granted:
            return None
        run_id, granted = self.chance.choice(self.granted)
        found = self.chance.choice((Found.NONE, Found.ONE, Found.FAILED, Found.MANY))
        return self.book.probe(run_id, granted, found, "ext-1" if found is Found.ONE else None)

    def resolve(self) -> object:
        return self.book.resolve(self.run_id, self._person(), self.chance.choice(list(Action)), "ext-9")

    def agree(self) -> object:
        facts = self.book.facts(self.run_id)
        done = all((line := facts.line(step)) is not None and line.outcome == "accepted" for step in STEPS)
        return self.book.agree(self.run_id, self.chance.choice(((), (), ("name",)))) if done else None

    def revoke(self) -> object:
        person, run_id = self._person(), self.run_id
        return self.book.store.write(lambda connection: revoke_decision(connection, person, run_id, "changed my mind"))

    def deliver(self) -> object:
        return self.book.deliver(changed(dedupe_key=str(self.chance.random()), property_name="iban"))

    def supersede(self) -> object:
        return self.book.ledger.look(
            self.book.call(
                self.run_id, "review", f"exec-{self.chance.random()}", self.book.run(self.run_id).engine_epoch
            )
        )

    def lost(self) -> object:
        run = self.book.run(self.run_id)
        if not run.is_open:
            return None
        return self.book.store.write(lambda connection: raise_epoch(connection, run.id, run.engine_epoch))

    def repair(self) -> object:
        run_id, process = self.run_id, self.book.process
        self.run_id = self.book.store.write(lambda c: open_repair(c, run_id, process, RunKind.REPAIR))
        return self.run_id


@pytest.mark.parametrize("seed", range(12))
def test_a_random_history_keeps_every_promise(book: Book, seed: int) -> None:
    walk = Walk(book, seed)
    walk.go(120)
    assert book.count("event") > 1
    assert book.audit() == []
