"""How a run is taken from its trigger to its end, and everything that messages and answers can do on the way."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from temporalio.service import RPCError, RPCStatusCode

from domain.identity import workflow_id
from domain.partner_onboarding import ONBOARDING
from domain.states import TERMINAL
from drill.ends import MODES, End
from drill.points import Action
from drill.slot import PORTAL, Slot, Subject
from drill.waiting import until
from workflows.business_run import NUDGE

MOVES_WITHIN = 300.0
"""What has not moved by then is lost; a busy machine is slow and not wrong."""
RESTING = frozenset({*TERMINAL, "needs_operator"})
TASKS = "/crm/objects/2026-09/tasks"
Drive = Callable[[Slot, Subject], None]


@dataclass(frozen=True, slots=True)
class Journey:
    """`ends` are allowed instead of those of the contract; `every_mode`: its points depend on the contract."""

    drive: Drive
    ends: tuple[End, ...] = ()
    every_mode: bool = False


def stands(slot: Slot, subject: Subject) -> str:
    """The run's state, empty before there is one."""
    found = slot.rows("SELECT state FROM run WHERE id = %s", subject.run_id)
    return str(found[0]["state"]) if found else ""


def _reached(slot: Slot, subject: Subject, fits: Callable[[], bool], what: str) -> bool:
    """Wait until it fits; false where the run came to rest before. What has died is started again meanwhile."""

    def looked() -> str | None:
        slot.tend()
        if fits():
            return "fits"
        return "rests" if stands(slot, subject) in RESTING else None

    return until(looked, MOVES_WITHIN, what) == "fits"


def asked(slot: Slot, subject: Subject, version: int = 1) -> bool:
    """Wait until somebody is asked about this version or a later one."""
    question = "SELECT FROM review JOIN run ON run.id = review.run_id WHERE run.id = %s AND review.version >= %s"
    waiting = f"{question} AND review.status = 'open' AND run.state = 'awaiting_review'"
    return _reached(
        slot, subject, lambda: bool(slot.rows(waiting, subject.run_id, version)), f"a review of version {version}"
    )


def rested(slot: Slot, subject: Subject) -> str:
    """Wait until the run is over or before an operator; its state."""
    _reached(slot, subject, lambda: False, "an end")
    return stands(slot, subject)


def submit(slot: Slot, subject: Subject) -> None:
    """The trigger, taken."""
    slot.deliver(slot.submitted(subject))


def approve(slot: Slot, subject: Subject, version: int = 1) -> None:
    """The question is waited for and answered."""
    if asked(slot, subject, version):
        slot.decide(subject.run_id)


def straight(slot: Slot, subject: Subject) -> None:
    """Nothing goes wrong but what the schedule does."""
    submit(slot, subject)
    approve(slot, subject)
    rested(slot, subject)


def _account_fault(name: str, **params: str) -> Drive:
    def drive(slot: Slot, subject: Subject) -> None:
        match = {"method": "POST", "path_prefix": MODES[slot.mode].accounts, "key": subject.mark}
        slot.ground.sandbox.fault(name, times=1, match=match, **params)
        straight(slot, subject)

    return drive


def _task_fault(name: str) -> Drive:
    def drive(slot: Slot, subject: Subject) -> None:
        slot.ground.sandbox.fault(name, match={"method": "POST", "path_prefix": TASKS, "key": subject.run_id})
        straight(slot, subject)

    return drive


def _killed_in_flight(fault: str, executed: bool) -> Drive:
    """The worker dies while its request is at the provider."""

    def drive(slot: Slot, subject: Subject) -> None:
        match = {"method": "POST", "path_prefix": MODES[slot.mode].accounts, "key": subject.mark}
        slot.ground.sandbox.fault(fault, match=match, seconds=0.8)
        submit(slot, subject)
        approve(slot, subject)
        only = {"path_prefix": MODES[slot.mode].accounts, "key": subject.mark}

        def there() -> bool:
            if executed:
                return bool(slot.accounts(subject.run_id))
            return any(each["fault"] == fault for each in slot.ground.sandbox.requests(**only))

        if _reached(slot, subject, there, "a request at the provider"):
            for each in slot.workers:
                each.kill()
        rested(slot, subject)

    return drive


def amended(slot: Slot, subject: Subject) -> None:
    """The company is changed while somebody decides."""
    submit(slot, subject)
    if asked(slot, subject):
        slot.change(subject, name="Nordwind Handels AG")
        slot.deliver(slot.element(subject, "name", "Nordwind Handels AG"))
    approve(slot, subject, 2)
    rested(slot, subject)


def changed_unseen(slot: Slot, subject: Subject) -> None:
    """The company is changed after the approval, nobody is told before the run has ended, and the send must see it."""
    submit(slot, subject)
    if asked(slot, subject):
        with _nobody_works(slot):
            slot.decide(subject.run_id)
            slot.change(subject, name="Nordwind Handels AG")
    approve(slot, subject, 2)
    rested(slot, subject)
    slot.deliver(slot.element(subject, "name", "Nordwind Handels AG"))


def changed_after(slot: Slot, subject: Subject) -> None:
    """The company is changed after success: recorded, and a revision waits."""
    straight(slot, subject)
    slot.change(subject, name="Nordwind Handels AG")
    slot.deliver(slot.element(subject, "name", "Nordwind Handels AG"))
    recorded = (
        "SELECT FROM input_version v JOIN run ON run.request_id = v.request_id WHERE run.id = %s AND v.number = 2"
    )
    _worked(slot, lambda: bool(slot.rows(recorded, subject.run_id)), "the change is recorded")


def unreadable(slot: Slot, subject: Subject) -> None:
    """The CRM cannot be read for a while."""
    record = {"method": "GET", "path_prefix": f"/crm/objects/2026-09/0-2/{subject.company_id}"}
    slot.ground.sandbox.fault("error_500_before", times=5, match=record)
    straight(slot, subject)


def unmirrored(slot: Slot, subject: Subject) -> None:
    """The CRM cannot be written for a while."""
    record = {"method": "PATCH", "path_prefix": f"/crm/objects/2026-09/0-2/{subject.company_id}"}
    slot.ground.sandbox.fault("error_500_before", match=record)
    straight(slot, subject)


def record_gone(slot: Slot, subject: Subject) -> None:
    """The record is gone: an operator is asked, looks twice, and ends the run."""
    slot.remove(subject)
    submit(slot, subject)
    rested(slot, subject)
    nudge(slot, subject, 3)
    _worked(slot, lambda: slot.resolve(subject.run_id, "fail").status_code != 429, "the operator's word")
    _worked(slot, lambda: stands(slot, subject) in TERMINAL, "an end")


def rehearsed(slot: Slot, subject: Subject) -> None:
    """A dry run first."""
    body = {"process": ONBOARDING.name, "subject": f"hubspot:{PORTAL}:0-2:{subject.company_id}", "rehearsal": True}
    begun = slot.said("/runs", body, "otto", "operator").json()["run"]
    over = "SELECT FROM run WHERE id = %s AND state = 'succeeded'"
    _worked(slot, lambda: bool(slot.rows(over, begun)), "the rehearsal's end")


def terminated(slot: Slot, subject: Subject) -> None:
    """Somebody ends the execution while the run waits; an operator has it started again."""
    submit(slot, subject)
    if asked(slot, subject):
        slot.ground.engine.run(_handle(slot, subject).terminate("drill"))
        rested(slot, subject)
        slot.resolve(subject.run_id, "retry")
    approve(slot, subject)
    rested(slot, subject)


def restarted_in_flight(slot: Slot, subject: Subject) -> None:
    """Worker and execution end while a request is at the provider; the next execution must not send beside it."""
    match = {"method": "POST", "path_prefix": MODES[slot.mode].accounts, "key": subject.mark}
    slot.ground.sandbox.fault("slow_before", match=match, seconds=1.8)
    submit(slot, subject)
    approve(slot, subject)
    only = {"path_prefix": MODES[slot.mode].accounts, "key": subject.mark}
    if _reached(slot, subject, lambda: bool(slot.ground.sandbox.requests(**only)), "a request at the provider"):
        slot.ground.engine.run(_handle(slot, subject).terminate("drill"))
        for each in slot.workers:
            each.kill()
    rested(slot, subject)


def superseded(slot: Slot, subject: Subject) -> None:
    """A worker stands still before its permit, another execution takes the run over, and the first one comes back."""
    submit(slot, subject)
    approve(slot, subject)
    if slot.order is not None and slot.order.action is Action.FREEZE:
        until(slot.reached, MOVES_WITHIN, "a worker that stands still")
        record = {"method": "GET", "path_prefix": f"/crm/objects/2026-09/0-2/{subject.company_id}"}
        slot.ground.sandbox.fault("slow_before", times=2, match=record, seconds=0.8)
        slot.ground.engine.run(_handle(slot, subject).terminate("drill"))
        taken = "SELECT FROM engine_execution WHERE run_id = %s AND epoch = 2"
        _worked(slot, lambda: bool(slot.rows(taken, subject.run_id)), "another execution")
        slot.workers[0].signal(signal.SIGCONT)
    rested(slot, subject)


def revoked(slot: Slot, subject: Subject) -> None:
    """The approval is taken back before anybody acts on it, and given again."""
    submit(slot, subject)
    if asked(slot, subject):
        with _nobody_works(slot):
            slot.decide(subject.run_id)
            slot.said(f"/runs/{subject.run_id}/revocations", {"reason": "too soon"}, "sabine", "supervisor")
    approve(slot, subject)
    rested(slot, subject)


class _nobody_works:
    """Every worker of the slot stands still for the block."""

    def __init__(self, slot: Slot) -> None:
        self._workers = list(slot.workers)

    def __enter__(self) -> None:
        for each in self._workers:
            each.signal(signal.SIGSTOP)

    def __exit__(self, *problem: object) -> None:
        for each in self._workers:
            each.signal(signal.SIGCONT)


def _worked(slot: Slot, condition: Callable[[], bool], what: str) -> None:
    def looked() -> bool:
        slot.tend()
        return condition()

    until(looked, MOVES_WITHIN, what)


# ── messages ────────────────────────────────────────────────────────────────────────────────────────────────────


def _at_once(times: int, work: Callable[[], Any]) -> list[Any]:
    with ThreadPoolExecutor(times) as threads:
        return [each.result() for each in [threads.submit(work) for _ in range(times)]]


def trigger_twice(slot: Slot, subject: Subject) -> None:
    """Four times at once, and once more when all is over."""
    element = slot.submitted(subject)
    _at_once(4, lambda: slot.deliver(element))
    approve(slot, subject)
    rested(slot, subject)
    slot.deliver(element)


def trigger_redelivered(slot: Slot, subject: Subject) -> None:
    """Delivered again after each step, with another attempt number."""
    element = slot.submitted(subject)
    slot.deliver(element)
    asked(slot, subject)
    slot.deliver({**element, "attemptNumber": 1})
    approve(slot, subject)
    slot.deliver({**element, "attemptNumber": 2})
    rested(slot, subject)


def triggers_reordered(slot: Slot, subject: Subject) -> None:
    """A change that was made after the submission arrives before it, and a second submission in one batch with it."""
    first, change = slot.submitted(subject), slot.element(subject, "name", PARTNER_NAME)
    again = slot.submitted(subject)
    slot.deliver(change)
    slot.deliver(again, first)
    approve(slot, subject)
    rested(slot, subject)


PARTNER_NAME = "Nordwind Handels GmbH"


def decision_twice(slot: Slot, subject: Subject) -> None:
    """The same decision four times at once, and when all is over."""
    submit(slot, subject)
    if asked(slot, subject):
        shown = slot.show(subject.run_id)
        seen = {"version": shown["input_version"], "fingerprint": shown["fingerprint"]}
        _at_once(4, lambda: slot.decide(subject.run_id, **seen))
        rested(slot, subject)
        slot.decide(subject.run_id, **seen)


def decision_early(slot: Slot, subject: Subject) -> None:
    """About content that nobody asked about."""
    submit(slot, subject)
    if asked(slot, subject):
        slot.decide(subject.run_id, fingerprint="0" * 64)
    approve(slot, subject)
    rested(slot, subject)


def decision_late(slot: Slot, subject: Subject) -> None:
    """A second person says the opposite at the same time, and again when all is over."""
    submit(slot, subject)
    approve(slot, subject)
    slot.decide(subject.run_id, "rejected", "stefan")
    rested(slot, subject)
    slot.decide(subject.run_id, "rejected", "stefan")


def decisions_reordered(slot: Slot, subject: Subject) -> None:
    """The decision about the first version arrives after the second one is asked about."""
    submit(slot, subject)
    if asked(slot, subject):
        first = slot.show(subject.run_id)
        slot.change(subject, name="Nordwind Handels AG")
        slot.deliver(slot.element(subject, "name", "Nordwind Handels AG"))
        if asked(slot, subject, 2):
            slot.decide(subject.run_id, version=first["input_version"], fingerprint=first["fingerprint"])
    approve(slot, subject, 2)
    rested(slot, subject)


def nudged(slot: Slot, subject: Subject) -> None:
    """Ten nudges at every stage, and after the end."""
    submit(slot, subject)
    nudge(slot, subject, 10)
    if asked(slot, subject):
        nudge(slot, subject, 10)
        slot.decide(subject.run_id)
    nudge(slot, subject, 10)
    rested(slot, subject)
    nudge(slot, subject, 10)


def _handle(slot: Slot, subject: Subject) -> Any:  # noqa: ANN401 (a handle without types)
    return slot.ground.engine.client.get_workflow_handle(workflow_id(ONBOARDING.name, subject.key, 1, 1))


def nudge(slot: Slot, subject: Subject, times: int) -> None:
    """Signals to the execution, whether it is there or not."""
    for _ in range(times):
        try:
            slot.ground.engine.run(_handle(slot, subject).signal(NUDGE))
        except RPCError as gone:
            if gone.status is not RPCStatusCode.NOT_FOUND:
                raise


NOTHING_MADE = frozenset({0})
JOURNEYS: Mapping[str, Journey] = {
    "straight": Journey(straight, every_mode=True),
    "answer-lost": Journey(_account_fault("drop_after_commit"), every_mode=True),
    "request-lost": Journey(_account_fault("drop_before"), every_mode=True),
    "request-late": Journey(_account_fault("drop_then_commit"), every_mode=True),
    "failure-answered": Journey(_account_fault("commit_502_html"), every_mode=True),
    "throttled": Journey(_account_fault("throttle_429", retry_after="1"), every_mode=True),
    "never-left": Journey(_account_fault("refuse"), every_mode=True),
    "killed-in-flight": Journey(_killed_in_flight("slow_before", executed=False), every_mode=True),
    "killed-executed": Journey(_killed_in_flight("slow_after", executed=True), every_mode=True),
    "task-answer-lost": Journey(_task_fault("drop_after_commit")),
    "task-request-lost": Journey(_task_fault("drop_before")),
    "amended": Journey(amended),
    "changed-unseen": Journey(changed_unseen),
    "changed-after": Journey(changed_after),
    "unreadable": Journey(unreadable),
    "unmirrored": Journey(unmirrored),
    "record-gone": Journey(record_gone, (End("failed", "operator_fail", NOTHING_MADE, NOTHING_MADE),)),
    "rehearsed": Journey(rehearsed, (End("succeeded", "rehearsed", NOTHING_MADE, NOTHING_MADE),)),
    "terminated": Journey(terminated),
    "revoked": Journey(revoked),
    "restarted-in-flight": Journey(restarted_in_flight, every_mode=True),
    "superseded": Journey(superseded),
    "trigger-twice": Journey(trigger_twice),
    "trigger-redelivered": Journey(trigger_redelivered),
    "triggers-reordered": Journey(triggers_reordered),
    "decision-twice": Journey(decision_twice),
    "decision-early": Journey(decision_early),
    "decision-late": Journey(decision_late),
    "decisions-reordered": Journey(decisions_reordered),
    "nudged": Journey(nudged),
}
