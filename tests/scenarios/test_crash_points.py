"""A worker that dies, or is told to stop, at every point of a run; and one that comes back after it was replaced.

The runs of one signal are brought to their points one after the other and recover side by side.
"""

from __future__ import annotations

import secrets
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import psycopg
import pytest
from eventually import eventually
from sandboxes import SandboxProcess
from world import World

pytestmark = pytest.mark.timeout(900)
ACCOUNTS = {"method": "POST", "path_prefix": "/v1/accounts"}
TASKS = {"method": "POST", "path_prefix": "/crm/objects/2026-09/tasks"}
SLOW = 1.8
"""Longer than a test needs to see the request arrive, shorter than the worker's patience with it."""
LONG = 10
"""Longer than any patience: under way until everything is frozen, however slow that is."""


@dataclass(frozen=True)
class Subject:
    """One company whose run waits for approval; `mark` is in every send of its account."""

    company_id: str
    mark: str
    run_id: str

    @property
    def path(self) -> str:
        return f"/crm/objects/2026-09/0-2/{self.company_id}"


def _arrived(world: World, path: str, fault: str, key: str | None = None) -> bool:
    """Whether the request that a fault was set for has reached the other side."""
    only = {"path_prefix": path} | ({"key": key} if key else {})
    return any(request["fault"] == fault for request in world.sandbox.requests(**only))


@contextmanager
def _before_send(world: World, subject: Subject) -> Iterator[None]:
    """The record is being read for the permit; no permit exists."""
    world.fault("slow_before", match={"method": "GET", "path_prefix": subject.path}, seconds=SLOW)
    world.approve(subject.run_id)
    eventually(lambda: _arrived(world, subject.path, "slow_before"))
    yield


@contextmanager
def _in_flight(world: World, subject: Subject) -> Iterator[None]:
    """The account request has arrived and is not executed yet."""
    world.fault("slow_before", match={**ACCOUNTS, "key": subject.mark}, seconds=SLOW)
    world.approve(subject.run_id)
    eventually(lambda: _arrived(world, "/v1/accounts", "slow_before", subject.mark))
    yield


@contextmanager
def _executed(world: World, subject: Subject) -> Iterator[None]:
    """The account exists; the answer is on its way."""
    world.fault("slow_after", match={**ACCOUNTS, "key": subject.mark}, seconds=SLOW)
    world.approve(subject.run_id)
    eventually(lambda: world.accounts(subject.run_id))
    yield


@contextmanager
def _answered(world: World, subject: Subject) -> Iterator[None]:
    """The answer is in and cannot be committed: the test holds the request's lock."""
    world.fault("slow_after", match={**ACCOUNTS, "key": subject.mark}, seconds=1)
    world.approve(subject.run_id)
    eventually(lambda: world.accounts(subject.run_id))
    with psycopg.connect(world.database.superuser_dsn) as holding:
        holding.execute(
            "SELECT FROM request JOIN run ON run.request_id = request.id WHERE run.id = %s FOR UPDATE OF request",
            (subject.run_id,),
        )
        eventually(lambda: world.rows(WAITING_FOR_LOCK))
        yield


WAITING_FOR_LOCK = """
    SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
    AND strpos(query, 'run_facts_locked') > 0
"""


@contextmanager
def _committed(world: World, subject: Subject) -> Iterator[None]:
    """The answer has just been committed."""
    world.approve(subject.run_id)
    eventually(lambda: world.rows(ANSWERED, subject.run_id))
    yield


ANSWERED = "SELECT n.id FROM answer n JOIN operation o ON o.key = n.operation_key WHERE o.run_id = %s"


@contextmanager
def _reviewing(world: World, subject: Subject) -> Iterator[None]:
    """The run waits for its decision, which is recorded while no worker is there."""
    world.wait_state(subject.run_id, "awaiting_review")
    yield
    world.approve(subject.run_id)


@contextmanager
def _projecting(world: World, subject: Subject) -> Iterator[None]:
    """The CRM record is being written."""
    world.fault("slow_before", match={"method": "PATCH", "path_prefix": subject.path}, seconds=SLOW)
    world.approve(subject.run_id)
    eventually(lambda: _arrived(world, subject.path, "slow_before"))
    yield


@contextmanager
def _making_task(world: World, subject: Subject) -> Iterator[None]:
    """The task exists; the answer is on its way."""
    world.fault("slow_after", match={**TASKS, "key": subject.run_id}, seconds=SLOW)
    world.approve(subject.run_id)
    eventually(lambda: world.tasks(subject.run_id))
    yield


Point = Callable[[World, Subject], AbstractContextManager[None]]
POINTS: dict[str, Point] = {
    "before the send": _before_send,
    "in flight, not executed": _in_flight,
    "in flight, executed": _executed,
    "answered, not committed": _answered,
    "committed, not reported": _committed,
    "waiting for review": _reviewing,
    "writing the CRM record": _projecting,
    "making the task": _making_task,
}
LOST = {"in flight, not executed", "in flight, executed", "answered, not committed"}
"""Points at which a killed worker takes the answer of the account's first attempt with it."""


@pytest.fixture(scope="module", params=[signal.SIGKILL, signal.SIGTERM], ids=lambda number: number.name)
def stopped(shared: World, request: pytest.FixtureRequest) -> tuple[signal.Signals, dict[str, str]]:
    """The run of every point, after its worker was stopped there by this signal and started again."""
    runs = {}
    for name in POINTS:
        runs[name] = eventually(partial(_stopped_at, shared, name, request.param), within=60).run_id
    return request.param, runs


def _stopped_at(world: World, name: str, number: signal.Signals) -> Subject | None:
    """A run that was at this point when its worker ended; None where a busy machine let the point pass by."""
    subject = _submitted(world)
    with POINTS[name](world, subject):
        _stop(world, number)
    _ended(world, number)
    passed = number is signal.SIGKILL and name in LOST and _silent_attempts(world, subject.run_id) != [1]
    world.worker.start()
    return None if passed else subject


def _submitted(world: World) -> Subject:
    mark = secrets.token_hex(6)
    company_id = world.seed(partner_email=f"{mark}@partner.example").company_id
    return Subject(company_id, mark, world.submit(company_id))


def _stop(world: World, number: signal.Signals) -> None:
    assert world.worker.process is not None
    world.worker.process.send_signal(number)
    if number is signal.SIGKILL:
        world.worker.process.wait(60)


def _ended(world: World, number: signal.Signals) -> None:
    assert world.worker.process is not None
    assert world.worker.process.wait(90) == (-9 if number is signal.SIGKILL else 0)


@pytest.mark.parametrize("point", POINTS)
def test_c65_one_account_one_task_one_end_wherever_the_worker_stopped(
    shared: World, stopped: tuple[signal.Signals, dict[str, str]], point: str
) -> None:
    number, runs = stopped
    shared.wait_state(runs[point], "succeeded", within=60)
    shown = shared.agrees(runs[point])
    assert [(o["generation"], o["outcome"]) for o in shown["operations"]] == [(1, "accepted")] * 2
    _trail_shows_every_attempt(shared, runs[point], shown)
    if number is signal.SIGKILL and point in LOST:
        assert 1 in _silent_attempts(shared, runs[point])  # the kill of a later point may take a resend too
        assert "outcome_unknown" in [event["next"] for event in shared.events(runs[point])]
    if number is signal.SIGTERM:
        assert _silent_attempts(shared, runs[point]) == []


def _trail_shows_every_attempt(world: World, run_id: str, shown: dict[str, Any]) -> None:
    permitted = [event for event in world.events(run_id) if event["reason"] == "permitted"]
    named = sorted((event["evidence"]["operation"], event["attempt"]) for event in permitted)
    sent = sorted((o["operation"], n) for o in shown["operations"] for n in range(1, o["attempts"] + 1))
    assert named == sent


def _silent_attempts(world: World, run_id: str) -> list[int]:
    """Numbers of the account's attempts that never got an answer."""
    silent = world.rows(
        "SELECT a.number FROM attempt a JOIN operation o ON o.key = a.operation_key WHERE o.run_id = %s "
        "AND o.step = 'create-account' AND NOT EXISTS (SELECT FROM answer n "
        "WHERE n.operation_key = a.operation_key AND n.attempt = a.number)",
        run_id,
    )
    return [row["number"] for row in silent]


def test_the_outside_world_freezes_and_thaws(shared: World, sandbox_service: SandboxProcess) -> None:
    """Whatever was sent meanwhile is executed on thawing, long after everybody gave it up."""
    subjects = [_submitted(shared) for _ in range(4)]
    for subject in subjects:
        shared.wait_state(subject.run_id, "awaiting_review")
    for subject in subjects[:2]:
        shared.fault("slow_before", match={**ACCOUNTS, "key": subject.mark}, seconds=LONG)
        shared.approve(subject.run_id)
    for subject in subjects[:2]:
        eventually(partial(_arrived, shared, "/v1/accounts", "slow_before", subject.mark))
    sandbox_service.process.send_signal(signal.SIGSTOP)
    try:
        for subject in subjects[2:]:
            shared.approve(subject.run_id)
        for subject in subjects[:2]:
            shared.wait_state(subject.run_id, "outcome_unknown")
        for subject in subjects[2:]:
            shared.wait_state(subject.run_id, "retrying", "needs_operator")
            assert shared.show(subject.run_id)["operations"] == []
    finally:
        sandbox_service.process.send_signal(signal.SIGCONT)
    for subject in subjects:
        _carried_to_the_end(shared, subject.run_id)
        shared.agrees(subject.run_id)


def _carried_to_the_end(world: World, run_id: str) -> None:
    """The limit of failed reads is a handful in a test, so that a person may have to say that the cause is mended."""
    if world.wait_state(run_id, "succeeded", "needs_operator", within=60)["state"] == "needs_operator":
        assert world.resolve(run_id, "retry").status_code == 200
        world.wait_state(run_id, "succeeded", within=60)


def test_connections_to_the_store_are_cut_again_and_again(shared: World) -> None:
    subjects = [_submitted(shared) for _ in range(6)]
    for subject in subjects:
        shared.approve(subject.run_id)
        for _ in range(5):
            shared.rows(CUT)
    shared.store.engine.dispose()
    for subject in subjects:
        shared.wait_state(subject.run_id, "succeeded", within=90)
        shared.agrees(subject.run_id)


CUT = """
    SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity WHERE datname = current_database()
    AND usename = 'counterfoil_app'
"""


def _frozen_in_its_send(world: World) -> Subject | None:
    """A run whose worker stands still before it has heard the answer; None where a busy machine let it hear."""
    subject = _submitted(world)
    assert world.worker.process is not None
    with _executed(world, subject):
        world.worker.process.send_signal(signal.SIGSTOP)
    if _silent_attempts(world, subject.run_id) == [1]:
        return subject
    world.worker.process.send_signal(signal.SIGCONT)
    return None


def test_c64_an_attempt_that_outlives_its_step_is_found_and_its_late_answer_kept(shared: World) -> None:
    """The first worker freezes in the middle of its send and wakes up after a second one has finished the run."""
    assert shared.worker.process is not None
    run_id = eventually(partial(_frozen_in_its_send, shared), within=60).run_id
    second = replace(shared.worker, name="second worker", process=None)
    second.start()
    try:
        done = shared.wait_state(run_id, "succeeded", within=60)
        assert _silent_attempts(shared, run_id) == [1]
        shared.worker.process.send_signal(signal.SIGCONT)
        eventually(lambda: _silent_attempts(shared, run_id) == [], 20)
    finally:
        shared.worker.process.send_signal(signal.SIGCONT)
        second.kill()
    after = shared.agrees(run_id)
    assert (after["seq"], after["state"]) == (done["seq"], "succeeded")
    assert [(o["generation"], o["outcome"]) for o in after["operations"]] == [(1, "accepted")] * 2
