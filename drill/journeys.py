"""The journeys that are drilled: how a run is taken from its trigger to its end, and what goes wrong on the way."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from business_store.limits import CREDENTIAL_REFUSED, hold
from domain.credentials import Account
from domain.partner_onboarding import ONBOARDING
from domain.states import TERMINAL
from drill import callbacks, commands, messages, outside
from drill.driving import (
    MOVES_WITHIN,
    Drive,
    NobodyWorks,
    approve,
    asked,
    execution,
    nudge,
    rested,
    stands,
    straight,
    submit,
    worked,
)
from drill.ends import STRIPE, SUCCEEDED, End, Mode
from drill.persons import Settle, look_again, look_and_say, say_twice, write_off
from drill.points import Action
from drill.slot import PORTAL, Slot, Subject
from drill.waiting import until


def once(mode: Mode) -> bool:
    """Its points depend on no contract."""
    return mode.name == STRIPE


def anywhere(mode: Mode) -> bool:
    """Its points depend on the contract."""
    return True


def calling(mode: Mode) -> bool:
    """The provider calls back under it."""
    return mode.calls_back


def nothing_but_called(mode: Mode) -> bool:
    """Only a callback or a person can settle a doubt."""
    return mode.calls_back and bool(mode.asks)


def unanswered(mode: Mode) -> bool:
    """A person must say what became of a request that left no trace."""
    return mode.name in ("callback_only", "lookup_lagged", "none")


@dataclass(frozen=True, slots=True)
class Journey:
    """How a run is driven, where it may end, and what a person does as often as one is asked.

    `under`: the contracts under which it is drilled. `asks`: allowed instead of the contract's.
    """

    drive: Drive
    ends: tuple[End, ...] = (SUCCEEDED,)
    under: Callable[[Mode], bool] = once
    asks: tuple[End, ...] = ()
    settle: Settle = look_and_say


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
        with NobodyWorks(slot):
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
    worked(slot, lambda: bool(slot.rows(recorded, subject.run_id)), "the change is recorded")


def unreadable(slot: Slot, subject: Subject) -> None:
    """The CRM cannot be read for a while."""
    record = {"method": "GET", "path_prefix": f"/crm/objects/2026-09/0-2/{subject.company_id}"}
    slot.ground.sandbox.fault("error_500_before", times=5, match=record)
    straight(slot, subject)


def reads_throttled(slot: Slot, subject: Subject) -> None:
    """The CRM asks all runs to come back later."""
    record = {"method": "GET", "path_prefix": f"/crm/objects/2026-09/0-2/{subject.company_id}"}
    slot.ground.sandbox.fault("throttle_429", times=2, match=record, retry_after="1")
    straight(slot, subject)


def credential_replaced(slot: Slot, subject: Subject) -> None:
    """The token of former workers was refused; those of now have another one."""
    former = Account("hubspot", PORTAL, f"former-{subject.mark}")
    slot.store.write(lambda connection: hold(connection, former, CREDENTIAL_REFUSED))
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
    worked(slot, lambda: slot.resolve(subject.run_id, "fail").status_code != 429, "the operator's word")
    worked(slot, lambda: stands(slot, subject) in TERMINAL, "an end")


def rehearsed(slot: Slot, subject: Subject) -> None:
    """A dry run first."""
    body = {"process": ONBOARDING.name, "subject": f"hubspot:{PORTAL}:0-2:{subject.company_id}", "rehearsal": True}
    begun = slot.said("/runs", body, "otto", "operator").json()["run"]
    over = "SELECT FROM run WHERE id = %s AND state = 'succeeded'"
    worked(slot, lambda: bool(slot.rows(over, begun)), "the rehearsal's end")


def terminated(slot: Slot, subject: Subject) -> None:
    """Somebody ends the execution while the run waits; an operator has it started again by a command."""
    submit(slot, subject)
    if asked(slot, subject):
        slot.ground.engine.run(execution(slot, subject).terminate("drill"))
        rested(slot, subject)
        commands.command(slot, "otto", "operator", "resume", subject.run_id)
    approve(slot, subject)
    rested(slot, subject)


def superseded(slot: Slot, subject: Subject) -> None:
    """A worker stands still before its permit, another execution takes the run over, and the first one comes back.

    The CRM cannot be read right after the approval, so that nobody is waited for when the execution is ended.
    """
    record = {"method": "GET", "path_prefix": f"/crm/objects/2026-09/0-2/{subject.company_id}"}
    submit(slot, subject)
    if asked(slot, subject):
        slot.ground.sandbox.fault("error_500_before", times=1, match=record)
        slot.decide(subject.run_id)
    if slot.order is not None and slot.order.action is Action.FREEZE:
        until(slot.reached, MOVES_WITHIN, "a worker that stands still")
        slot.ground.sandbox.fault("slow_before", times=6, match=record, seconds=0.8)
        slot.ground.engine.run(execution(slot, subject).terminate("drill"))
        taken = "SELECT FROM engine_execution WHERE run_id = %s AND epoch = 2"
        worked(slot, lambda: bool(slot.rows(taken, subject.run_id)), "another execution")
        slot.workers[0].signal(signal.SIGCONT)
    rested(slot, subject)


def revoked(slot: Slot, subject: Subject) -> None:
    """The approval is taken back before anybody acts on it, and given again."""
    submit(slot, subject)
    if asked(slot, subject):
        with NobodyWorks(slot):
            slot.decide(subject.run_id)
            slot.said(f"/runs/{subject.run_id}/revocations", {"reason": "too soon"}, "sabine", "supervisor")
    approve(slot, subject)
    rested(slot, subject)


NOTHING_MADE = frozenset({0})
ANOTHER = tuple(
    End("needs_operator", reason, frozenset({0, 1}), NOTHING_MADE) for reason in ("foreign_record", "several_records")
)
"""A stranger's record bears our key: a person is asked, whether the one send of ours was executed or not."""
JOURNEYS: Mapping[str, Journey] = {
    "straight": Journey(straight, under=anywhere),
    "answer-lost": Journey(outside.account_fault("drop_after_commit"), under=anywhere),
    "request-lost": Journey(outside.account_fault("drop_before"), under=anywhere),
    "request-late": Journey(outside.account_fault("drop_then_commit"), under=anywhere),
    "failure-answered": Journey(outside.account_fault("commit_502_html"), under=anywhere),
    "throttled": Journey(outside.account_fault("throttle_429", retry_after="1"), under=anywhere),
    "never-left": Journey(outside.account_fault("refuse"), under=anywhere),
    "killed-in-flight": Journey(outside.killed_in_flight("slow_before", executed=False), under=anywhere),
    "killed-executed": Journey(outside.killed_in_flight("slow_after", executed=True), under=anywhere),
    "task-answer-lost": Journey(outside.task_fault("drop_after_commit")),
    "task-request-lost": Journey(outside.task_fault("drop_before")),
    "amended": Journey(amended),
    "changed-unseen": Journey(changed_unseen),
    "changed-after": Journey(changed_after),
    "unreadable": Journey(unreadable),
    "reads-throttled": Journey(reads_throttled),
    "credential-replaced": Journey(credential_replaced),
    "unmirrored": Journey(unmirrored),
    "record-gone": Journey(record_gone, (End("failed", "operator_fail", NOTHING_MADE, NOTHING_MADE),)),
    "rehearsed": Journey(rehearsed, (End("succeeded", "rehearsed", NOTHING_MADE, NOTHING_MADE),)),
    "terminated": Journey(terminated),
    "revoked": Journey(revoked),
    "revoked-by-command": Journey(commands.revoked),
    "started-by-command": Journey(commands.started),
    "restarted-in-flight": Journey(outside.restarted_in_flight, under=anywhere),
    "superseded": Journey(superseded),
    "trigger-twice": Journey(messages.trigger_twice),
    "trigger-redelivered": Journey(messages.trigger_redelivered),
    "triggers-reordered": Journey(messages.triggers_reordered),
    "decision-twice": Journey(messages.decision_twice),
    "decision-early": Journey(messages.decision_early),
    "decision-late": Journey(messages.decision_late),
    "decisions-reordered": Journey(messages.decisions_reordered),
    "nudged": Journey(messages.nudged),
    "callback-instead": Journey(callbacks.told_instead, under=calling),
    "callback-early": Journey(callbacks.told_early, under=calling),
    "callback-of-another": Journey(callbacks.told_of_another, under=calling, asks=ANOTHER),
    "callback-late": Journey(callbacks.told_late, under=calling),
    "callbacks-reordered": Journey(callbacks.told_reordered, under=calling),
    "callback-delayed": Journey(callbacks.told_delayed, under=nothing_but_called, settle=look_again),
    "resolution-twice": Journey(outside.account_fault("drop_before"), under=unanswered, settle=say_twice),
    "written-off": Journey(
        outside.account_fault("drop_before"),
        (End("failed", "operator_write_off", NOTHING_MADE, NOTHING_MADE),),
        under=unanswered,
        settle=write_off,
    ),
}
