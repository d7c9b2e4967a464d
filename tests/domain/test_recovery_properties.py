"""Whatever happens to the sends of one operation, following `settle` neither doubles the effect nor guesses about it.

The first half simulates worlds in which the API keeps the promises of its declared contracts, and the network, the
clock and our own process do what they like. The second half asks about any evidence at all, also impossible evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import Enum, auto

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from domain.contracts import (
    Accept,
    AskOperator,
    AwaitCallback,
    ClientKey,
    Contract,
    Keyed,
    LookupLagged,
    LookupStrong,
    NoRecovery,
    ProbeAt,
    Reject,
    Resend,
    SavedId,
    Settlement,
    Stored,
    Upsert,
)
from domain.recovery import may_open_generation, proved_unexecuted, settle, window_end
from domain.signals import (
    Answer,
    Attempt,
    Callback,
    Doubt,
    Evidence,
    Finding,
    Found,
    Probe,
    RecordedAnswer,
    Signal,
)

START = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
SECOND, MINUTE, HOUR, DAY = (timedelta(**{unit: 1}) for unit in ("seconds", "minutes", "hours", "days"))
LEASE, H, V = 30 * SECOND, 100 * SECOND, 60 * SECOND
MAX_STEPS = 300

KEY = ClientKey("header Idempotency-Key", 255, "account")
UNIQUE = Upsert(settle=H, key=KEY, query="by key")
STRONG = LookupStrong(settle=H, query="by key")
LAGGED = LookupLagged(settle=H, lag=V, outage_lag=V, query="by key")
CALLBACK = SavedId(callback_within=24 * HOUR, saved="id", echoed="reference")
STRIPE_KEY = Keyed(window=24 * HOUR, margin=HOUR, stored=Stored.ALL_STARTED, key=KEY)
RERUN = replace(STRIPE_KEY, window=30 * DAY, stored=Stored.FAILURES_RERUN)
SHORT = Keyed(30 * MINUTE, MINUTE, Stored.ONLY_SUCCESS, KEY, body_compared=False, resends=40)

LISTS: dict[str, tuple[Contract, ...]] = {
    "stripe": (STRIPE_KEY, STRONG),
    "stripe_repeats": (STRIPE_KEY, replace(STRONG, resend_when_absent=True)),
    "stripe_v2": (RERUN, STRONG),
    "stripe_v2_repeats": (RERUN, replace(STRONG, resend_when_absent=True)),
    "short_window": (SHORT,),
    "short_window_lagged": (SHORT, LAGGED),
    "hubspot_task": (UNIQUE, LAGGED),
    "upsert": (UNIQUE,),
    "upsert_overwrites": (replace(UNIQUE, overwrites=True),),
    "not_really_unique": (replace(UNIQUE, enforced=False), LAGGED),
    "strong": (STRONG,),
    "strong_repeats": (replace(STRONG, resend_when_absent=True),),
    "lagged": (LAGGED,),
    "lagged_outage": (replace(LAGGED, outage_lag=HOUR),),
    "one_miss": (replace(LAGGED, misses=1),),
    "saved_id": (CALLBACK,),
    "account_holder": (STRIPE_KEY, CALLBACK, STRONG),
    "none": (NoRecovery(),),
}
HARMLESS: tuple[Contract, ...] = (replace(LAGGED, duplicates_harmless=True, resends=2),)


class Fault(Enum):
    """What becomes of one send. AFTER means that the API did its work before it said so."""

    FINE = auto()
    NOT_SENT = auto()
    REQUEST_LOST = auto()
    ANSWER_LOST = auto()
    ERROR_BEFORE = auto()
    ERROR_AFTER = auto()
    REFUSED = auto()
    THROTTLED_BEFORE = auto()
    THROTTLED_AFTER = auto()
    INVALID = auto()
    ODD_BEFORE = auto()
    ODD_AFTER = auto()


WORKED = {Fault.FINE, Fault.ANSWER_LOST, Fault.ERROR_AFTER, Fault.THROTTLED_AFTER, Fault.ODD_AFTER}
LOST = Answer(Signal.UNKNOWN, "timeout", doubt=Doubt.NO_ANSWER)
BROKEN = Answer(Signal.UNKNOWN, "500", doubt=Doubt.SERVER_ERROR)
ODD = Answer(Signal.UNKNOWN, "418", doubt=Doubt.CLIENT_ERROR)
THROTTLED = Answer(Signal.THROTTLED, "429", retry_after=20 * SECOND)
SAID: dict[Fault, Answer] = {
    Fault.NOT_SENT: Answer(Signal.NOT_SENT, "connect_error"),
    Fault.REQUEST_LOST: LOST,
    Fault.ANSWER_LOST: LOST,
    Fault.ERROR_BEFORE: BROKEN,
    Fault.ERROR_AFTER: BROKEN,
    Fault.REFUSED: Answer(Signal.THROTTLED, "429", retry_after=20 * SECOND, refused=True),
    Fault.THROTTLED_BEFORE: THROTTLED,
    Fault.THROTTLED_AFTER: THROTTLED,
    Fault.INVALID: Answer(Signal.REJECTED, "invalid_iban"),
    Fault.ODD_BEFORE: ODD,
    Fault.ODD_AFTER: ODD,
}


@dataclass(frozen=True)
class Turn:
    """What happens around one action of ours. Fractions are of the longest time that the contract allows."""

    fault: Fault
    transit: float
    slowness: float
    crash: bool
    late_after: timedelta | None
    dawdle: timedelta
    blind: bool
    peek: bool
    calls_back_after: timedelta | None


@dataclass
class Effect:
    reference: str
    executed_at: datetime


@dataclass
class Api:
    """A provider that keeps its promises. `once` answers a repeat with a conflict instead of the same success."""

    contracts: tuple[Contract, ...]
    once: bool
    lag: float
    effects: list[Effect] = field(default_factory=list)
    first_started: datetime | None = None
    failure_stored: bool = False

    @property
    def keyed(self) -> Keyed | None:
        return next((each for each in self.contracts if isinstance(each, Keyed)), None)

    def receive(self, at: datetime, fault: Fault, slowness: float, lease_until: datetime) -> Answer:
        if fault in (Fault.NOT_SENT, Fault.REQUEST_LOST, Fault.REFUSED, Fault.THROTTLED_BEFORE, Fault.INVALID):
            return SAID[fault]
        replayed = self._replay(at)
        if replayed is not None:
            return replayed if fault is Fault.FINE else SAID[fault]
        self._start(at, fault)
        if fault not in WORKED:
            return SAID[fault]
        done_by = at if fault is Fault.FINE else at + slowness * (lease_until + self._settle() - at)
        self.effects.append(Effect(f"rec_{len(self.effects) + 1}", done_by))
        return SAID.get(fault) or Answer(Signal.ACCEPTED, "created", reference=self.effects[-1].reference)

    def _start(self, at: datetime, fault: Fault) -> None:
        """A key that ran out is forgotten, and a repeat then runs as new."""
        if self.keyed is None:
            return
        if self.first_started is None or at >= self.first_started + self.keyed.window:
            self.first_started = at
        failed = fault in (Fault.ERROR_BEFORE, Fault.ERROR_AFTER)
        self.failure_stored = failed and self.keyed.stored is Stored.ALL_STARTED

    def _replay(self, at: datetime) -> Answer | None:
        if self._remembers_key(at) and self.failure_stored:
            return BROKEN
        if not self.effects or not (self._remembers_key(at) or self._unique()):
            return None
        if self.effects[-1].executed_at > at and not self._unique():
            return Answer(Signal.BUSY, "key_in_use")
        self.effects[-1].executed_at = min(self.effects[-1].executed_at, at)
        reference = self.effects[-1].reference
        return Answer(Signal.EXISTS if self.once else Signal.ACCEPTED, "repeat", reference=reference)

    def _remembers_key(self, at: datetime) -> bool:
        keyed, first = self.keyed, self.first_started
        return keyed is not None and first is not None and at < first + keyed.window

    def _unique(self) -> bool:
        return any(isinstance(each, Upsert) and each.enforced for each in self.contracts)

    def _settle(self) -> timedelta:
        asked = [c.settle for c in self.contracts if isinstance(c, Upsert | LookupStrong | LookupLagged)]
        return min(asked, default=timedelta(0))

    def look(self, at: datetime, reference: str | None) -> Finding:
        if reference is None and not any(
            isinstance(each, Upsert | LookupStrong | LookupLagged) for each in self.contracts
        ):
            return Finding(Found.FAILED, "no_lookup")
        lagged = reference is None and any(isinstance(each, LookupLagged) for each in self.contracts)
        visible = [each for each in self.effects if each.executed_at + (self.lag * V if lagged else 0 * V) <= at]
        if len(visible) > 1:
            return Finding(Found.MANY, "several")
        return Finding(Found.ONE, "ours", visible[0].reference) if visible else Finding(Found.NONE, "none")


@dataclass
class Simulation:
    """Our side: does what `settle` says, records what it hears, and checks each step."""

    api: Api
    turns: Sequence[Turn]
    now: datetime = START
    evidence: Evidence = field(default_factory=Evidence)
    coming: list[tuple[datetime, int, Answer]] = field(default_factory=list)
    calling: list[tuple[datetime, Effect]] = field(default_factory=list)
    taken: int = 0

    def follow(self) -> Settlement:
        """To the end: Accept, Reject or AskOperator."""
        self._send()
        for _ in range(MAX_STEPS):
            settlement = self._settled()
            if isinstance(settlement, Accept | Reject | AskOperator):
                return settlement
            self._act(settlement)
        raise AssertionError(f"no end after {MAX_STEPS} steps")

    def _settled(self) -> Settlement:
        settlement = settle(self.api.contracts, self.evidence, self.now)
        if not isinstance(settlement, Accept | Reject):
            self._check_that_time_alone_decides_nothing()
        return settlement

    def _check_that_time_alone_decides_nothing(self) -> None:
        for later in (H + V, 40 * DAY):
            assert not isinstance(settle(self.api.contracts, self.evidence, self.now + later), Accept | Reject)

    def _act(self, settlement: Settlement) -> None:
        turn = self._next_turn()
        match settlement:
            case Resend(not_before):
                self._advance(not_before, turn.dawdle)
                if self._permitted():
                    self._send()
            case ProbeAt(at, reference):
                self._advance(self.now if turn.peek and self.taken < len(self.turns) else at, turn.dawdle)
                self._look(turn, reference)
            case AwaitCallback(until):
                assert until > self.now
                events = [each[0] for each in self.coming] + [each[0] for each in self.calling]
                self._advance(min([at for at in events if at > self.now] + [until]), timedelta(0))

    def _permitted(self) -> bool:
        """As a permit does it: asked again at the moment of sending."""
        settlement = settle(self.api.contracts, self.evidence, self.now)
        if not isinstance(settlement, Resend) or settlement.not_before > self.now:
            return False
        end = window_end(self.api.contracts, self.evidence.attempts)
        assert end is None or self.now < end
        assert all(each.answers or self.now >= each.lease_until for each in self.evidence.attempts)
        if any(isinstance(each, NoRecovery | SavedId) for each in self.api.contracts[:1]):
            assert all(proved_unexecuted(each, self.evidence.attempts) for each in self.evidence.attempts)
        return True

    def _next_turn(self) -> Turn:
        turn = self.turns[min(self.taken, len(self.turns) - 1)]
        self.taken += 1
        return turn

    def _advance(self, to: datetime, dawdle: timedelta) -> None:
        self.now = max(self.now, to) + dawdle
        for at, number, answer in [each for each in self.coming if each[0] <= self.now]:
            self.coming.remove((at, number, answer))
            self._hear(number, answer, at)
        for call in [each for each in self.calling if each[0] <= self.now]:
            self.calling.remove(call)
            told = Callback(call[0], call[1].reference)
            self.evidence = replace(self.evidence, callbacks=(*self.evidence.callbacks, told))

    def _send(self) -> None:
        turn = self._next_turn()
        number, lease_until = len(self.evidence.attempts) + 1, self.now + LEASE
        attempt = Attempt(number, self.now, lease_until)
        self.evidence = replace(self.evidence, attempts=(*self.evidence.attempts, attempt))
        received = self.now + turn.transit * (LEASE - SECOND)
        before = len(self.api.effects)
        answer = self.api.receive(received, turn.fault, turn.slowness, lease_until)
        self._expect_callback(turn, before)
        if turn.late_after is not None:
            self.coming.append((lease_until + turn.late_after, number, answer))
        if not turn.crash:
            self._advance(received, timedelta(0))
            self._hear(number, answer if turn.late_after is None else LOST, self.now)

    def _expect_callback(self, turn: Turn, before: int) -> None:
        tells = any(isinstance(each, SavedId) for each in self.api.contracts)
        if tells and len(self.api.effects) > before and turn.calls_back_after is not None:
            effect = self.api.effects[-1]
            self.calling.append((effect.executed_at + turn.calls_back_after, effect))

    def _hear(self, number: int, answer: Answer, at: datetime) -> None:
        attempts = [
            replace(each, answers=(*each.answers, RecordedAnswer(answer, at))) if each.number == number else each
            for each in self.evidence.attempts
        ]
        self.evidence = replace(self.evidence, attempts=tuple(attempts))

    def _look(self, turn: Turn, reference: str | None) -> None:
        finding = Finding(Found.FAILED, "503") if turn.blind else self.api.look(self.now, reference)
        self.evidence = replace(self.evidence, probes=(*self.evidence.probes, Probe(self.now, finding)))


def check_end(simulation: Simulation, settlement: Settlement) -> None:
    references = [effect.reference for effect in simulation.api.effects]
    match settlement:
        case Accept(reference):
            assert references == [reference]
        case Reject(_):
            assert references == []
        case _:
            assert len(references) <= 1


def delays(longest: timedelta) -> st.SearchStrategy[timedelta]:
    return st.integers(0, int(longest.total_seconds())).map(lambda seconds: timedelta(seconds=seconds))


FRACTIONS = st.sampled_from([0.0, 0.25, 0.5, 0.999, 1.0])
RARELY = st.sampled_from([False, False, False, True])
TURNS = st.lists(
    st.builds(
        Turn,
        fault=st.sampled_from(Fault),
        transit=FRACTIONS,
        slowness=FRACTIONS,
        crash=RARELY,
        late_after=st.none() | delays(10 * MINUTE),
        dawdle=st.just(timedelta(0)) | delays(MINUTE) | delays(2 * DAY),
        blind=RARELY,
        peek=RARELY,
        calls_back_after=st.none() | delays(2 * DAY),
    ),
    min_size=1,
    max_size=8,
)
PHASES = [phase for phase in Phase if phase is not Phase.explain]
WORLDS = settings(deadline=None, derandomize=True, max_examples=40, phases=PHASES)
ANYTHING = settings(deadline=None, derandomize=True, max_examples=200, phases=PHASES)


@pytest.mark.parametrize("contracts", LISTS.values(), ids=LISTS.keys())
@WORLDS
@given(turns=TURNS, once=st.booleans(), lag=FRACTIONS)
def test_where_the_api_keeps_its_promises_there_is_one_effect_and_no_guess(
    contracts: tuple[Contract, ...], turns: list[Turn], once: bool, lag: float
) -> None:
    simulation = Simulation(Api(contracts, once, lag), turns)
    check_end(simulation, simulation.follow())


ENDLESS = [*((fault, False) for fault in Fault), (Fault.ANSWER_LOST, True)]


@pytest.mark.parametrize("contracts", [*LISTS.values(), HARMLESS], ids=[*LISTS.keys(), "harmless"])
@pytest.mark.parametrize(("fault", "blind"), ENDLESS, ids=[f"{f.name}{'_BLIND' * b}" for f, b in ENDLESS])
def test_the_same_fault_for_ever_comes_to_an_end(contracts: tuple[Contract, ...], fault: Fault, blind: bool) -> None:
    turn = Turn(fault, 0.5, 0.5, False, None, timedelta(0), blind=blind, peek=False, calls_back_after=None)
    Simulation(Api(contracts, once=True, lag=1.0), [turn]).follow()


@WORLDS
@given(turns=TURNS, lag=FRACTIONS)
def test_declared_harmless_duplicates_stay_within_the_declared_repeats(turns: list[Turn], lag: float) -> None:
    simulation = Simulation(Api(HARMLESS, once=False, lag=lag), turns)
    simulation.follow()
    assert len(simulation.api.effects) <= 3


@WORLDS
@given(turns=TURNS)
def test_an_api_that_breaks_its_promise_is_never_sent_to_twice_without_proof_under_no_recovery(
    turns: list[Turn],
) -> None:
    """NOT_SENT and documented refusals are the only way to a second send."""
    simulation = Simulation(Api((NoRecovery(),), once=False, lag=0.0), turns)
    simulation.follow()
    earlier = simulation.evidence.attempts[:-1]
    refusals = [each.answers[0].answer for each in earlier]
    assert all(answer.signal is Signal.NOT_SENT or answer.refused for answer in refusals)


# Any evidence at all.

MOMENTS = delays(3 * DAY).map(lambda delay: START + delay)
REFERENCES = st.sampled_from([None, "", "rec_1", "rec_2"])
ANSWERS = st.builds(
    Answer,
    signal=st.sampled_from(Signal),
    code=st.just("code"),
    reference=REFERENCES,
    doubt=st.none() | st.sampled_from(Doubt),
    retry_after=st.sampled_from([None, timedelta(0), 20 * SECOND, DAY, timedelta.max, timedelta.min]),
    refused=st.booleans(),
)
RECORDED = st.lists(st.builds(RecordedAnswer, ANSWERS, MOMENTS), max_size=3).map(tuple)
ATTEMPTS = st.lists(st.builds(Attempt, st.integers(1, 6), MOMENTS, MOMENTS, RECORDED), max_size=5).map(tuple)
FINDINGS = st.builds(Finding, st.sampled_from(Found), st.just("code"), REFERENCES)
PROBES = st.lists(st.builds(Probe, MOMENTS, FINDINGS), max_size=6).map(tuple)
CALLBACKS = st.lists(
    st.builds(Callback, MOMENTS, st.sampled_from(["", "rec_1", "rec_2"]), st.booleans()), max_size=2
).map(tuple)
ANY_EVIDENCE = st.builds(Evidence, ATTEMPTS, PROBES, CALLBACKS)
ANY_CONTRACTS = st.sampled_from([(), HARMLESS, *LISTS.values()])
DECIDED = (Accept, Reject)


@ANYTHING
@given(contracts=ANY_CONTRACTS, evidence=ANY_EVIDENCE, now=MOMENTS)
def test_any_evidence_has_one_answer(contracts: tuple[Contract, ...], evidence: Evidence, now: datetime) -> None:
    settlement = settle(contracts, evidence, now)
    assert isinstance(settlement, Accept | Reject | Resend | ProbeAt | AwaitCallback | AskOperator)
    assert settle(list(contracts), evidence, now) == settlement


@ANYTHING
@given(contracts=ANY_CONTRACTS, evidence=ANY_EVIDENCE, now=MOMENTS, later=delays(60 * DAY))
def test_i11_time_alone_decides_nothing(
    contracts: tuple[Contract, ...], evidence: Evidence, now: datetime, later: timedelta
) -> None:
    before, after = settle(contracts, evidence, now), settle(contracts, evidence, now + later)
    assert isinstance(after, DECIDED) == isinstance(before, DECIDED)


@ANYTHING
@given(contracts=ANY_CONTRACTS, evidence=ANY_EVIDENCE, now=MOMENTS)
def test_a_resend_is_inside_the_window_and_after_every_lease(
    contracts: tuple[Contract, ...], evidence: Evidence, now: datetime
) -> None:
    settlement = settle(contracts, evidence, now)
    if not isinstance(settlement, Resend):
        return
    end = window_end(contracts, evidence.attempts)
    assert end is None or max(settlement.not_before, now) < end
    in_flight = [each.lease_until for each in evidence.attempts if not each.answers and each.lease_until > now]
    assert all(settlement.not_before >= lease_until for lease_until in in_flight)


@ANYTHING
@given(evidence=ANY_EVIDENCE, now=MOMENTS)
def test_no_recovery_is_resent_only_when_every_send_is_proved_unexecuted(evidence: Evidence, now: datetime) -> None:
    if isinstance(settle((NoRecovery(),), evidence, now), Resend):
        assert all(proved_unexecuted(each, evidence.attempts) for each in evidence.attempts)


@ANYTHING
@given(contracts=ANY_CONTRACTS, evidence=ANY_EVIDENCE, now=MOMENTS)
def test_a_rejection_of_a_later_send_closes_nothing_earlier(
    contracts: tuple[Contract, ...], evidence: Evidence, now: datetime
) -> None:
    unresolved = [each for each in evidence.attempts if not proved_unexecuted(each, evidence.attempts)]
    rejected = Attempt(99, now, now + LEASE, (RecordedAnswer(Answer(Signal.REJECTED, "invalid"), now),))
    settlement = settle(contracts, replace(evidence, attempts=(*evidence.attempts, rejected)), now)
    if unresolved:
        assert not isinstance(settlement, Reject | Resend)


@ANYTHING
@given(contracts=ANY_CONTRACTS, evidence=ANY_EVIDENCE, now=MOMENTS, answer=ANSWERS, probe=PROBES, data=st.data())
def test_an_accepted_effect_is_kept_or_questioned_by_late_evidence_but_never_sent_again(
    contracts: tuple[Contract, ...],
    evidence: Evidence,
    now: datetime,
    answer: Answer,
    probe: tuple[Probe, ...],
    data: st.DataObject,
) -> None:
    accepted = settle(contracts, evidence, now)
    if not isinstance(accepted, Accept):
        return
    place = data.draw(st.integers(0, len(evidence.attempts) - 1))
    told = replace(evidence.attempts[place], answers=(*evidence.attempts[place].answers, RecordedAnswer(answer, now)))
    attempts = (*evidence.attempts[:place], told, *evidence.attempts[place + 1 :])
    after = settle(contracts, replace(evidence, attempts=attempts, probes=(*evidence.probes, *probe)), now)
    assert after == accepted or isinstance(after, AskOperator)


@ANYTHING
@given(contracts=ANY_CONTRACTS, evidence=ANY_EVIDENCE, now=MOMENTS, data=st.data())
def test_silence_recorded_late_changes_no_decision(
    contracts: tuple[Contract, ...], evidence: Evidence, now: datetime, data: st.DataObject
) -> None:
    before = settle(contracts, evidence, now)
    if not isinstance(before, DECIDED):
        return
    place = data.draw(st.integers(0, len(evidence.attempts) - 1))
    silent = replace(evidence.attempts[place], answers=(*evidence.attempts[place].answers, RecordedAnswer(LOST, now)))
    attempts = (*evidence.attempts[:place], silent, *evidence.attempts[place + 1 :])
    assert settle(contracts, replace(evidence, attempts=attempts), now) == before


@ANYTHING
@given(contracts=ANY_CONTRACTS, evidence=ANY_EVIDENCE, now=MOMENTS, reversed_=st.booleans())
def test_i9_a_generation_needs_proof_or_a_reversal(
    contracts: tuple[Contract, ...], evidence: Evidence, now: datetime, reversed_: bool
) -> None:
    if not may_open_generation(contracts, evidence, now, reversed_):
        return
    assert reversed_ or evidence.attempts
    assert reversed_ or all(proved_unexecuted(each, evidence.attempts) for each in evidence.attempts)
    assert reversed_ or not isinstance(settle(contracts, evidence, now), Accept)
    assert all(each.answers or each.lease_until <= now for each in evidence.attempts)
