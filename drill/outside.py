"""What can happen at the provider and on the way to it."""

from __future__ import annotations

from drill.driving import Drive, approve, came, execution, rested, straight, submit
from drill.ends import MODES
from drill.slot import Slot, Subject

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
