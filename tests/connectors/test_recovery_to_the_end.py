"""Connector, its declared contracts and the settle function together: every lost answer ends, with one record.

The clock is the test's own: waits are skipped, not slept.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from connector_cases import CASES, KEY, KEYED, LOOKED_UP, WITHIN, Made, modes
from eventually import eventually
from raw_server import closed_port

from domain.canonical import canonical_bytes
from domain.contracts import Accept, AskOperator, AwaitCallback, ProbeAt, Reject, Resend, Settlement
from domain.ports import Send
from domain.recovery import settle
from domain.signals import Answer, Attempt, Callback, Evidence, Probe, RecordedAnswer
from drill.practice_callbacks import PracticeCallbacks
from drill.practice_contracts import system_of
from sandbox.faults import FAULTS

STEPS = 60
# Faults by what they leave behind: nothing or the effect; and by what they let us hear.
NOTHING = ("refuse", "drop_before", "html_200", "json_content_type_with_html", "body_status_error")
FAILED = ("error_500_before", "error_500_empty")
ODD = ("html_403", "lock_423", "migration_477")
WORKED = (
    "drop_after_commit",
    "commit_cut_body",
    "commit_redirect",
    "empty_object",
    "id_null",
    "id_empty",
    "wrong_record",
)
WORKED_AND_FAILED = ("commit_500", "commit_502_html", "commit_503_retry_after", "commit_504_empty")
HEARD = ("slow_before", "slow_after")
LATE = {"drop_after_hidden_commit": 60.0, "drop_then_commit": 90.0}
"""Seconds, within the time that the contracts say a request may run on."""

Asked = Mapping[str, int]
"""The faults after which a person is asked, and the records that there are in the end."""


def _left(records: int, *faults: str) -> dict[str, int]:
    return dict.fromkeys(faults, records)


UNGUARDED = _left(0, *NOTHING, *FAILED, *ODD, "busy_409")
ASKED: Mapping[str, Asked] = {
    # a stored failure would only be replayed, and absence alone permits no second account
    "stripe.create_account": _left(0, *FAILED, *ODD),
    # its 409 does not say whether the record is busy or taken
    "hubspot.create_task": _left(0, "busy_409"),
    "hubspot.upsert_company": _left(0, "busy_409"),
    "practice.keyed_store_all": _left(0, *FAILED, *ODD),
    "practice.keyed_store_2xx": _left(0, *ODD),
    "practice.keyed_rerun_failed": _left(0, *ODD),
    "practice.keyed_ignore_body": _left(0, *FAILED, *ODD) | _left(1, *WORKED_AND_FAILED),
    # the named record cannot be read yet, and nothing else can be asked
    "practice.keyed_conflict_names_id": _left(0, *ODD) | _left(1, "drop_after_hidden_commit"),
    "practice.keyed_conflict_400": _left(0, *ODD),
    "practice.upsert_unique": {},
    "practice.create_once_409_text_id": {},
    "practice.create_once_400": {},
    "practice.lookup_strong_after_H": {},
    "practice.lookup_lagged": UNGUARDED,
    "practice.callback_only": UNGUARDED | _left(0, "throttle_429"),
    "practice.none": UNGUARDED | _left(0, "throttle_429") | _left(1, *WORKED, *WORKED_AND_FAILED, *LATE, "commit_429"),
}


@dataclass
class Recovery:
    """Plays the worker: sends, looks and waits as the settle function says, on a clock that jumps."""

    made: Made
    ahead: timedelta = timedelta(0)
    evidence: Evidence = field(default_factory=Evidence)

    def send(self) -> None:
        self.record(self.made.send())

    def record(self, answer: Answer) -> None:
        number = len(self.evidence.attempts) + 1
        attempt = Attempt(number, self.now, self.now + WITHIN, (RecordedAnswer(answer, self.now),))
        self.evidence = replace(self.evidence, attempts=(*self.evidence.attempts, attempt))

    def look(self, reference: str | None) -> None:
        probe = Probe(self.now, self.made.probe(reference))
        self.evidence = replace(self.evidence, probes=(*self.evidence.probes, probe))

    def hear(self) -> None:
        """The callbacks that the provider has queued and that echo our key."""
        reader, content = PracticeCallbacks(system_of(self.made.case.kind)), self.made.content
        told = [reader.announced(queued["event"]) for queued in self.made.sandbox.webhooks()]
        called = [
            Callback(self.now, said.reference, not reader.compared(said.kind, content, canonical_bytes(said.record)))
            for said in told
            if said is not None and said.key == KEY
        ]
        self.evidence = replace(self.evidence, callbacks=tuple(called))

    def end(self) -> Settlement:
        contracts = self.made.connector.contracts(self.made.case.operation)
        for _ in range(STEPS):
            self.wait_until(self.now + timedelta(milliseconds=1))
            verdict = settle(contracts, self.evidence, self.now)
            if isinstance(verdict, Accept | Reject | AskOperator):
                return verdict
            self.follow(verdict)
        raise AssertionError(f"no end after {STEPS} steps")

    def end_for_good(self) -> Settlement:
        """The end, after a time in which everything that may still be executed has been."""
        end = self.end()
        self.wait_until(self.now + timedelta(hours=1))
        return end

    def follow(self, verdict: Settlement) -> None:
        match verdict:
            case Resend(not_before):
                self.wait_until(not_before)
                self.send()
            case ProbeAt(at, reference):
                self.wait_until(at)
                self.look(reference)
            case AwaitCallback(until):
                self.hear()
                if not self.evidence.callbacks:
                    self.wait_until(until)
                    self.hear()

    @property
    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def wait_until(self, moment: datetime) -> None:
        """The practice provider's clock jumps with ours."""
        self.ahead = max(self.ahead, moment - datetime.now(UTC))
        self.made.sandbox.settings(practice_ahead=self.ahead.total_seconds())


def recovered(made: Made, fault: str) -> Settlement:
    """How a first send that met this fault ends."""
    made.fault(fault, seconds=LATE.get(fault, 0.01) if made.case.system == "practice" else 0.01)
    recovery = Recovery(made)
    recovery.send()
    if fault == "drop_then_commit" and made.case.system != "practice":
        # these two execute by the clock on the wall
        assert eventually(made.ours)
    return recovery.end_for_good()


def test_every_fault_and_every_operation_is_expected_here() -> None:
    groups = (*NOTHING, *FAILED, *ODD, *WORKED, *WORKED_AND_FAILED, *HEARD, *LATE)
    assert {*groups, "throttle_429", "commit_429", "busy_409"} == FAULTS.keys()
    assert ASKED.keys() == {case.name for case in CASES}


@pytest.mark.parametrize("fault", FAULTS)
def test_c48_c49_c53_c54_c62_every_fault_ends_with_the_one_record_or_a_person(made: Made, fault: str) -> None:
    end, records = recovered(made, fault), made.ours()
    if fault in ASKED[made.case.name]:
        reason = "no_recovery" if made.case.kind == "none" else "contracts_exhausted"
        assert (end, len(records)) == (AskOperator(reason), ASKED[made.case.name][fault])
    else:
        assert [end] == [Accept(reference) for reference in records]


def test_send_of_which_nothing_left_is_sent_again_under_every_contract(made: Made) -> None:
    recovery = Recovery(made)
    with closed_port() as address, closing(made.case.connect(f"http://{address}")) as nowhere:
        recovery.record(nowhere.send(Send(made.case.operation, KEY, made.content, WITHIN)))
    assert [recovery.end_for_good()] == [Accept(reference) for reference in made.ours()]
    assert len(made.writes()) == 1


@pytest.mark.parametrize("seed", range(4))
def test_c48_c64_any_chain_of_faults_makes_one_record_or_asks_a_person(practised: Made, seed: int) -> None:
    """Faults of the sends and, independently, of the look-ups; more of them than there may be repeats."""
    chance = Random(f"{practised.case.kind} {seed}")
    faults = [fault for fault in FAULTS if fault not in HEARD]
    for fault in chance.choices(faults, k=4):
        practised.fault(fault, seconds=LATE.get(fault, 0.0))
    for fault in chance.choices((*NOTHING, *FAILED, *ODD, "throttle_429"), k=3):
        practised.lookups_meet(fault, times=1)
    recovery = Recovery(practised)
    recovery.send()
    end, records = recovery.end_for_good(), practised.ours()
    assert [end] == [Accept(reference) for reference in records] or (isinstance(end, AskOperator) and len(records) <= 1)


@modes(*KEYED)
def test_c48_nothing_is_sent_under_a_key_that_the_api_has_forgotten(practised: Made) -> None:
    """Our own process was away for longer than the window."""
    practised.fault("drop_after_commit")
    recovery = Recovery(practised)
    recovery.send()
    recovery.wait_until(recovery.now + timedelta(days=31))
    end = recovery.end()
    assert len(practised.writes()) == 1
    if practised.case.looks_up:
        assert [end] == [Accept(reference) for reference in practised.ours()]
    else:
        assert (end, len(practised.ours())) == (AskOperator("contracts_exhausted"), 1)


@modes(*LOOKED_UP)
def test_c54_look_ups_that_see_nothing_at_all_end_with_a_person_unless_a_repeat_says_it(practised: Made) -> None:
    practised.fault("commit_504_empty")
    practised.lookups_meet("html_200")
    recovery = Recovery(practised)
    recovery.send()
    end, records = recovery.end(), practised.ours()
    if practised.case.kind in ("keyed_store_2xx", "keyed_rerun_failed"):
        assert [end] == [Accept(reference) for reference in records]
    else:
        assert (end, len(records)) == (AskOperator("lookups_failing"), 1)


FOREIGN = {
    **dict.fromkeys(
        ("keyed_store_all", "keyed_store_2xx", "keyed_rerun_failed", "keyed_ignore_body"), "content_mismatch"
    ),
    **dict.fromkeys(("keyed_conflict_names_id", "keyed_conflict_400"), "foreign_record"),
    **dict.fromkeys(("create_once_409_text_id", "create_once_400"), "foreign_record"),
    **dict.fromkeys(("lookup_strong_after_H", "lookup_lagged", "callback_only"), "foreign_record"),
}


@modes(*FOREIGN)
def test_c51_c59_record_of_other_content_under_our_key_is_never_adopted(practised: Made) -> None:
    """Somebody else's request came first under our key: it stays as it is, and ours is not sent around it."""
    practised.send(content=practised.connector.render("create_account", KEY, {**practised.fields, "name": "Southwind"}))
    theirs = practised.ours()
    if not practised.case.guarded:
        practised.fault("drop_before")
    recovery = Recovery(practised)
    recovery.send()
    assert recovery.end() == AskOperator(FOREIGN[practised.case.kind])
    assert practised.ours() == theirs


def test_refused_content_ends_as_rejected(made: Made) -> None:
    if made.case.operation == "upsert_company":
        made.sandbox.add_property("companies", "partner_key", unique=False)
    made.fields |= {"create_account": {"email": "nonsense"}, "create_task": {"subject_id": "999"}}.get(
        made.case.operation, {}
    )
    recovery = Recovery(made)
    recovery.send()
    assert isinstance(recovery.end(), Reject)
    assert made.ours() == []
