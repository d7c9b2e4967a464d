"""Connector, its declared contracts and the settle function together: every lost answer ends, with one record.

The clock is the test's own: waits are skipped, not slept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from connector_cases import WITHIN, Made

from domain.contracts import Accept, AskOperator, AwaitCallback, ProbeAt, Reject, Resend, Settlement
from domain.recovery import settle
from domain.signals import Attempt, Evidence, Probe, RecordedAnswer

STEPS = 60
LOST = ("drop_after_commit", "commit_500", "commit_502_html", "commit_504_empty", "commit_cut_body", "commit_redirect")
UNREAD = ("refuse", "drop_before", "html_200", "error_500_empty", "html_403")
REFUSED = ("throttle_429",)


@dataclass
class Recovery:
    """Plays the worker: sends, looks and waits as the settle function says, on a clock that jumps."""

    made: Made
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    evidence: Evidence = field(default_factory=Evidence)

    def send(self) -> None:
        answer = RecordedAnswer(self.made.send(), self.now)
        number = len(self.evidence.attempts) + 1
        attempt = Attempt(number, self.now, self.now + WITHIN, (answer,))
        self.evidence = Evidence((*self.evidence.attempts, attempt), self.evidence.probes)

    def look(self, reference: str | None) -> None:
        probe = Probe(self.now, self.made.probe(reference))
        self.evidence = Evidence(self.evidence.attempts, (*self.evidence.probes, probe))

    def end(self) -> Settlement:
        contracts = self.made.connector.contracts(self.made.case.operation)
        for _ in range(STEPS):
            self.now += timedelta(milliseconds=1)
            verdict = settle(contracts, self.evidence, self.now)
            if isinstance(verdict, Accept | Reject | AskOperator | AwaitCallback):
                return verdict
            self.follow(verdict)
        raise AssertionError(f"no end after {STEPS} steps")

    def follow(self, verdict: Settlement) -> None:
        if isinstance(verdict, Resend):
            self.now = max(self.now, verdict.not_before)
            self.send()
        elif isinstance(verdict, ProbeAt):
            self.now = max(self.now, verdict.at)
            self.look(verdict.reference)


@pytest.mark.parametrize("fault", [*LOST, *REFUSED])
def test_c48_c49_lost_answer_ends_with_the_one_record(made: Made, fault: str) -> None:
    made.fault(fault)
    recovery = Recovery(made)
    recovery.send()
    assert [recovery.end()] == [Accept(reference) for reference in made.ours()]


@pytest.mark.parametrize("fault", UNREAD)
def test_c48_c54_send_that_did_nothing_ends_with_one_record_or_a_person(made: Made, fault: str) -> None:
    made.fault(fault)
    recovery = Recovery(made)
    recovery.send()
    end = recovery.end()
    if made.case.system == "stripe" and fault in ("error_500_empty", "html_403"):
        # a failure may be stored and would only be replayed, and absence alone never permits a second account
        assert (end, made.ours()) == (AskOperator("contracts_exhausted"), [])
    else:
        assert [end] == [Accept(reference) for reference in made.ours()]


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
