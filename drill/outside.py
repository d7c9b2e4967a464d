"""What can happen at the provider and on the way to it, and what it tells of by itself."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from typing import Any

from domain.identity import OperationIdentity, operation_key
from domain.partner_onboarding import CREATE_ACCOUNT
from drill.driving import MOVES_WITHIN, Drive, approve, at_once, came, execution, rested, straight, submit
from drill.ends import MODES
from drill.slot import Slot, Subject
from drill.waiting import until

TASKS = "/crm/objects/2026-09/tasks"


def account_fault(name: str, **params: str) -> Drive:
    def drive(slot: Slot, subject: Subject) -> None:
        match = {"method": "POST", "path_prefix": MODES[slot.mode].accounts, "key": subject.mark}
        slot.ground.sandbox.fault(name, times=1, match=match, **params)
        straight(slot, subject)

    return drive


def task_fault(name: str) -> Drive:
    def drive(slot: Slot, subject: Subject) -> None:
        slot.ground.sandbox.fault(name, match={"method": "POST", "path_prefix": TASKS, "key": subject.run_id})
        straight(slot, subject)

    return drive


def killed_in_flight(fault: str, executed: bool) -> Drive:
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

        if came(slot, subject, there, "a request at the provider"):
            for each in slot.workers:
                each.kill()
        rested(slot, subject)

    return drive


def restarted_in_flight(slot: Slot, subject: Subject) -> None:
    """Worker and execution end while a request is at the provider; the next execution must not send beside it."""
    match = {"method": "POST", "path_prefix": MODES[slot.mode].accounts, "key": subject.mark}
    slot.ground.sandbox.fault("slow_before", match=match, seconds=1.8)
    submit(slot, subject)
    approve(slot, subject)
    only = {"path_prefix": MODES[slot.mode].accounts, "key": subject.mark}
    if came(slot, subject, lambda: bool(slot.ground.sandbox.requests(**only)), "a request at the provider"):
        slot.ground.engine.run(execution(slot, subject).terminate("drill"))
        for each in slot.workers:
            each.kill()
    rested(slot, subject)


def stripe_event(account: Mapping[str, Any]) -> dict[str, Any]:
    """An event about this account."""
    event_id, now = f"evt_{secrets.token_hex(8)}", int(time.time())
    about = {"id": event_id, "object": "event", "type": "account.updated", "created": now, "request": None}
    return {**about, "data": {"object": dict(account)}}


def _callback(slot: Slot, subject: Subject) -> dict[str, Any] | None:
    """What Stripe tells of the run's account, once there is one."""
    made = slot.accounts(subject.run_id)
    return stripe_event(made[0]) if made else None


def told_early(slot: Slot, subject: Subject) -> None:
    """The provider calls back before its answer is there, four times at once, and again when all is over."""
    match = {"method": "POST", "path_prefix": MODES[slot.mode].accounts, "key": subject.mark}
    slot.ground.sandbox.fault("slow_after", times=1, match=match, seconds=0.8)
    submit(slot, subject)
    approve(slot, subject)
    event = until(lambda: _callback(slot, subject), MOVES_WITHIN, "an account")
    at_once(4, lambda: slot.call_back(event))
    rested(slot, subject)
    slot.call_back(event)


def told_of_another(slot: Slot, subject: Subject) -> None:
    """An account under our key that is not ours is told of before anything is sent, and then the answer is lost."""
    key = operation_key(OperationIdentity(subject.request_id, CREATE_ACCOUNT.step))
    other = {"id": f"acct_{secrets.token_hex(8)}", "object": "account", "metadata": {"operation_key": key}}
    slot.call_back(stripe_event(other))
    told_instead(slot, subject)


def told_instead(slot: Slot, subject: Subject) -> None:
    """The answer is lost, and the provider calls back."""
    match = {"method": "POST", "path_prefix": MODES[slot.mode].accounts, "key": subject.mark}
    slot.ground.sandbox.fault("drop_after_commit", match=match)
    submit(slot, subject)
    approve(slot, subject)
    event = until(lambda: _callback(slot, subject), MOVES_WITHIN, "an account")
    slot.call_back(event)
    rested(slot, subject)


def told_late(slot: Slot, subject: Subject) -> None:
    """The provider calls back twice when all is over."""
    straight(slot, subject)
    event = _callback(slot, subject)
    if event is not None:
        slot.call_back(event)
        slot.call_back(event)
