"""Taking a run on its way, with everything that dies on it started again."""

from __future__ import annotations

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from temporalio.service import RPCError, RPCStatusCode

from domain.identity import workflow_id
from domain.partner_onboarding import ONBOARDING
from domain.states import TERMINAL
from drill.slot import Slot, Subject
from drill.waiting import until
from workflows.business_run import NUDGE

MOVES_WITHIN = 300.0
"""What has not moved by then is lost; a busy machine is slow and not wrong."""
RESTING = frozenset({*TERMINAL, "needs_operator"})
Drive = Callable[[Slot, Subject], None]


def stands(slot: Slot, subject: Subject) -> str:
    """The run's state, empty before there is one."""
    found = slot.rows("SELECT state FROM run WHERE id = %s", subject.run_id)
    return str(found[0]["state"]) if found else ""


def came(slot: Slot, subject: Subject, fits: Callable[[], bool], what: str) -> bool:
    """Wait until it fits; false where the run came to rest before. What has died is started again meanwhile."""

    def looked() -> str | None:
        slot.tend()
        slot.beside()
        if fits():
            return "fits"
        return "rests" if stands(slot, subject) in RESTING else None

    return until(looked, MOVES_WITHIN, what) == "fits"


def asked(slot: Slot, subject: Subject, version: int = 1) -> bool:
    """Wait until somebody is asked about this version or a later one."""
    question = "SELECT FROM review JOIN run ON run.id = review.run_id WHERE run.id = %s AND review.version >= %s"
    waiting = f"{question} AND review.status = 'open' AND run.state = 'awaiting_review'"
    return came(
        slot, subject, lambda: bool(slot.rows(waiting, subject.run_id, version)), f"a review of version {version}"
    )


def rested(slot: Slot, subject: Subject) -> str:
    """Wait until the run is over or before an operator; its state."""
    came(slot, subject, lambda: False, "an end")
    return stands(slot, subject)


def worked(slot: Slot, condition: Callable[[], bool], what: str) -> None:
    """Wait until the condition holds, whatever the run does; what has died is started again meanwhile."""

    def looked() -> bool:
        slot.tend()
        slot.beside()
        return condition()

    until(looked, MOVES_WITHIN, what)


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


def execution(slot: Slot, subject: Subject) -> Any:  # noqa: ANN401 (a handle without types)
    """The first execution of the run."""
    return slot.ground.engine.client.get_workflow_handle(workflow_id(ONBOARDING.name, subject.key, 1, 1))


def nudge(slot: Slot, subject: Subject, times: int) -> None:
    """Signals to the execution, whether it is there or not."""
    for _ in range(times):
        try:
            slot.ground.engine.run(execution(slot, subject).signal(NUDGE))
        except RPCError as gone:
            if gone.status is not RPCStatusCode.NOT_FOUND:
                raise


class NobodyWorks:
    """Every worker of the slot stands still for the block."""

    def __init__(self, slot: Slot) -> None:
        self._workers = list(slot.workers)

    def __enter__(self) -> None:
        for each in self._workers:
            each.signal(signal.SIGSTOP)

    def __exit__(self, *problem: object) -> None:
        for each in self._workers:
            each.signal(signal.SIGCONT)


def at_once(times: int, work: Callable[[], Any]) -> list[Any]:
    """The results of so many threads that do the same."""
    with ThreadPoolExecutor(times) as threads:
        return [each.result() for each in [threads.submit(work) for _ in range(times)]]
