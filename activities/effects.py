"""One outside effect: permit, one request, answer, settlement; and look-ups while its outcome is unknown."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar

from activities.questions import Questions
from activities.snapshots import Snapshots
from activities.tools import Tools
from activities.turns import Turns
from domain.boundaries import boundary
from domain.contracts import Contract, Keyed, ProbeAt, Resend
from domain.credentials import UNAUTHENTICATED, Account
from domain.effects import context_of, inputs_of, target_of
from domain.execution import StepCall, Then
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
    over_for_good,
)
from domain.ports import Connector, Send, Sought, Until, account_of
from domain.process import Effect, Process
from domain.records import Facts, Operation, Standing
from domain.recovery import settle
from domain.signals import Answer, Finding, Signal
from domain.states import ASKING, RunState
from operating.metrics import PERMITS_REFUSED, SAVES_RETRIED

T = TypeVar("T")
Kept = tuple[Facts, Standing]


@dataclass(frozen=True)
class Effects:
    """Carries effects out for one worker."""

    tools: Tools
    snapshots: Snapshots
    questions: Questions

    def carry_out(self, call: StepCall, facts: Facts, process: Process[Any]) -> Kept:
        """Take the effect of this step as far as it can go now. A first send looks for the decision in its permit."""
        making = _Making(self.tools, self.snapshots, call, process, process.effect(call.step))
        if facts.line(call.step) is None:
            return making.send(facts)
        facts, standing = self.questions.answered(call, facts, process)
        return self._go_on(making, facts) if standing.then is Then.GO_ON else (facts, standing)

    def _go_on(self, making: _Making, facts: Facts) -> Kept:
        line = facts.line(making.call.step)
        if line is not None and line.outcome == "accepted":
            return facts, Standing(facts.run, Then.GO_ON)
        if line is not None and line.evidence.attempts and not over_for_good(line):
            return self._recover(replace(making, may_send=facts.covered()), facts, line)
        return making.send(facts)

    def _recover(self, making: _Making, facts: Facts, line: Operation) -> Kept:
        """An earlier send is not settled: do what the settle function permits at this instant.

        A send whose worker died left no answer and no event: the doubt is recorded before anything is done about it.
        """
        if line.outcome == "unknown" and facts.run.state is not RunState.OUTCOME_UNKNOWN:
            return making.settle(line)
        match settle(making.contracts, line.evidence, facts.now):
            case ProbeAt(at, reference) if at <= facts.now and line.content is not None:
                return making.probe(facts, line, reference)
            case Resend(not_before) if not_before <= facts.now:
                return making.send(facts)
            case _:
                return making.settle(line)


@dataclass(frozen=True)
class _Making:
    """One effect of one run being made."""

    tools: Tools
    snapshots: Snapshots
    call: StepCall
    process: Process[Any]
    effect: Effect[Any]
    may_send: bool = True

    @property
    def connector(self) -> Connector:
        return self.tools.connectors[self.effect.system]

    @property
    def declared(self) -> tuple[Contract, ...]:
        """All contracts: a permit always knows of the window that a key has."""
        return self.connector.contracts(self.effect.operation)

    @property
    def contracts(self) -> tuple[Contract, ...]:
        """Without an approval that holds, a doubt is looked into where a repeat would settle it otherwise."""
        return self.declared if self.may_send else tuple(c for c in self.declared if not isinstance(c, Keyed))

    def sendable(self, facts: Facts) -> Sendable:
        """The stored bytes of the generation, or new ones made of the version that the run is about."""
        generation = next_generation(facts, self.effect.step)
        line = facts.line(self.effect.step)
        key = key_for(facts, self.effect.step, generation)
        same = line is not None and line.generation == generation
        content = content_of(line) if line is not None and same else self._rendered(facts, key)
        return Sendable(
            self.effect.step,
            account_of(self.effect.system, self.connector),
            self.effect.operation,
            key,
            generation,
            content,
            self.declared,
        )

    def _rendered(self, facts: Facts, key: str) -> bytes:
        version = target_of(facts)
        fields = self.effect.fields(inputs_of(version, self.process), context_of(facts, facts.run.id, version))
        return self.connector.render(self.effect.operation, key, fields)

    def send(self, facts: Facts) -> Kept:
        """Permit, then at most one request. The send that seals takes a fresh reading with it into the permit."""
        waiting = Turns(self.tools).not_yet(self.call, facts, (facts.subject.system,)) if _seals(facts) else None
        if waiting is not None:
            return waiting
        taken = self.snapshots.take(facts, self.process) if _seals(facts) else None
        started = time.monotonic()
        wanted = PermitWanted(self.sendable, self.tools.timing, uuid.uuid4().hex)
        facts, given = self.tools.ledger.permit(self.call, self.process, taken, wanted)
        if isinstance(given, Standing):
            if given.then is not Then.REVIEW or given.refused:
                PERMITS_REFUSED.labels(given.refused or "held").inc()
            return facts, given
        answer = self._answer(given, facts, started)
        named = (uuid.uuid4().hex, given.sendable.key, given.permitted.attempt)
        answered = Answered(*named, answer, self._account(answer))
        line = Line(given.sendable.key, self.contracts)
        return self._saved(lambda: self.tools.ledger.save_answer(self.call, self.process, answered, line))

    def _answer(self, given: Granted, facts: Facts, started: float) -> Answer:
        """The clock that decides started before the permit, so it can only be too strict.

        The timeout counts from the look at it: whatever holds the process up in between, the lease covers what is sent.
        """
        looked = time.monotonic()
        if looked - started >= (given.permitted.send_before - facts.now).total_seconds():
            return Answer(Signal.NOT_SENT, "permit_too_old")
        sendable, until = given.sendable, Until(looked + self.tools.timing.send_timeout.total_seconds())
        request = Send(self.effect.operation, sendable.key, sendable.content, until)
        with boundary("send", self.call.run_id):
            return self.connector.send(request)

    def probe(self, facts: Facts, line: Operation, reference: str | None) -> Kept:
        """One look-up, in its turn; its absence counts from the database clock before it."""
        waiting = Turns(self.tools).not_yet(self.call, facts, (self.effect.system,))
        if waiting is not None:
            return waiting
        since = line.evidence.attempts[0].permitted_at
        sought = Sought(self.effect.operation, line.key, content_of(line), since, reference)
        with boundary("probe", self.call.run_id):
            finding = self.connector.probe(sought)
        looked = Looked(uuid.uuid4().hex, line.key, facts.now, finding, self._account(finding))
        kept = Line(line.key, self.contracts)
        return self._saved(lambda: self.tools.ledger.save_probe(self.call, self.process, looked, kept))

    def _account(self, met: Answer | Finding) -> Account:
        """Where it was met, and by which credential if that is at fault."""
        return account_of(self.effect.system, self.connector, marked=met.code == UNAUTHENTICATED)

    def settle(self, line: Operation) -> Kept:
        """Settle on what is recorded already."""
        return self.tools.ledger.settle(self.call, self.process, Line(line.key, self.contracts))

    def _saved(self, save: Callable[[], T]) -> T:
        """Keep trying to save what was learnt: the call is never repeated because the store was away."""
        until = time.monotonic() + self.tools.waits.save_within.total_seconds()
        pause = timedelta(milliseconds=200)
        while True:
            try:
                return save()
            except self.tools.store_away:
                SAVES_RETRIED.inc()
                if time.monotonic() >= until:
                    raise
                time.sleep(pause.total_seconds())
                pause = min(pause * 2, timedelta(seconds=5))


def _seals(facts: Facts) -> bool:
    """Nothing was sent yet, and the subject has news or an approval that may send."""
    news = facts.run.state not in ASKING or facts.unread > 0
    return facts.run.sealed_version is None and (news or facts.covered())
