"""One child process: started on a tether, recorded by pid, stopped by pid."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import psutil

from stack.account import Account
from stack.errors import StackError
from stack.interrupts import held_back

TETHER = Path(__file__).with_name("tether.py")
POLL_SECONDS = 0.02
KILL_WAIT_SECONDS = 10.0
# A child that ends is told of at once: this is for one that lives and never serves, not for a slow machine.
START_SECONDS = 180.0
LOG_LIMIT_BYTES = 20_000_000
LAST_LOG_BYTES = 2_000


class ChildNotReady(StackError):
    """A child ended, or was not ready in time. Permitted next action: read its log, mend, start again."""

    def __init__(self, name: str, log: Path, why: str) -> None:
        super().__init__(f"{name} {why}; its log is {log} and ends with:\n{last_lines(log)}")
        self.name = name
        self.log = log


@dataclass(frozen=True)
class Files:
    """Where a child's output and its process id are kept."""

    log: Path
    record: Path

    @classmethod
    def of(cls, root: Path, name: str) -> "Files":
        return cls(log=root / "logs" / f"{name}.log", record=root / "run" / f"{name}.json")


@dataclass(frozen=True)
class Command:
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    cwd: Path
    account: Account | None = None
    death_signal: signal.Signals = signal.SIGTERM


@dataclass(frozen=True)
class Stopping:
    """How a child is asked to end, and how long it may take before it is killed."""

    by: signal.Signals = signal.SIGTERM
    grace_seconds: float = 10.0


def always() -> bool:
    return True


def nothing() -> None:
    return


class Child:
    """A process of the stack.

    `prepare` runs before every start, mends what an earlier end left behind and says what to run; `ready` tells
    whether it serves; `reclaim` ends what an earlier supervisor left running beyond the recorded process. Start
    children from the main thread: the kernel ends them with the thread that made them.
    """

    def __init__(self, name: str, prepare: Callable[[], Command], files: Files) -> None:
        self.name = name
        self.files = files
        self.stopping = Stopping()
        self.ready: Callable[[], bool] = always
        self.reclaim: Callable[[], None] = nothing
        self._prepare = prepare
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, within: float = START_SECONDS) -> None:
        """Returns once the child serves; raises ChildNotReady."""
        self.spawn()
        self.await_ready(within)

    def spawn(self) -> None:
        self.end_orphan()
        command = self._prepare()
        self.files.record.parent.mkdir(parents=True, exist_ok=True)
        with held_back():
            self._process = launch(command, self.files.log)
            _write_record(self.files.record, self._process.pid)

    def await_ready(self, within: float) -> None:
        deadline = time.monotonic() + within
        while not self.ready():
            if not self.alive():
                raise ChildNotReady(self.name, self.files.log, "ended before it was ready")
            if time.monotonic() > deadline:
                raise ChildNotReady(self.name, self.files.log, f"was not ready within {within:g} s")
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """Asks, waits, then kills; returns when the process is gone."""
        if self._process is None:
            return
        self.send(self.stopping.by)
        try:
            self._process.wait(self.stopping.grace_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
        self.files.record.unlink(missing_ok=True)

    def kill(self) -> None:
        """SIGKILL; returns when the process is gone."""
        self.send(signal.SIGKILL)
        if self._process:
            self._process.wait(KILL_WAIT_SECONDS)

    def send(self, which: signal.Signals) -> None:
        if self._process and self._process.poll() is None:
            self._process.send_signal(which)

    def end_orphan(self) -> None:
        """Ends the process that an earlier, killed supervisor left behind under this name."""
        orphan = recorded_process(self.files.record)
        if orphan is not None and orphan.pid != self.pid:
            end(orphan, self.stopping)
        self.reclaim()
        self.files.record.unlink(missing_ok=True)


def launch(command: Command, log: Path) -> subprocess.Popen[bytes]:
    """In a session of its own, so that Ctrl-C reaches the supervisor alone and it decides the order."""
    with open_log(log) as output:
        return subprocess.Popen(
            tethered(command),
            cwd=command.cwd,
            env=dict(command.environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def tethered(command: Command) -> list[str]:
    account = str(command.account) if command.account else "-"
    tie = [sys.executable, "-I", "-S", str(TETHER), str(int(command.death_signal)), str(os.getpid()), account]
    return [*tie, *command.argv]


def open_log(log: Path) -> BinaryIO:
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > LOG_LIMIT_BYTES:
        log.replace(log.with_suffix(".log.1"))
    return log.open("ab")


def last_lines(log: Path) -> str:
    if not log.exists():
        return ""
    return log.read_bytes()[-LAST_LOG_BYTES:].decode(errors="replace").strip()


def recorded_process(record: Path) -> psutil.Process | None:
    """The very process that was recorded; a recycled pid has another creation time and is nobody's business."""
    try:
        entry = json.loads(record.read_text())
        process = psutil.Process(entry["pid"])
        return process if process.create_time() == entry["created"] else None
    except (OSError, ValueError, KeyError, psutil.Error):
        return None


def end(process: psutil.Process, stopping: Stopping) -> None:
    """Ends a process that need not be our child; returns when it is gone."""
    try:
        process.send_signal(stopping.by)
        process.wait(stopping.grace_seconds)
    except psutil.TimeoutExpired:
        process.kill()
        process.wait(KILL_WAIT_SECONDS)
    except psutil.NoSuchProcess:
        return


def _write_record(record: Path, pid: int) -> None:
    record.write_text(json.dumps({"pid": pid, "created": psutil.Process(pid).create_time()}))
