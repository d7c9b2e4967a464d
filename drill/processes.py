"""The supervisor's side of the nursery: start, watch and end drilled processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread

from drill.ground import ROOT

READY_SECONDS = 120.0
START_SECONDS = 60.0


@dataclass
class Process:
    """One drilled process. `status` is negative for a signal, None while it lives."""

    number: int
    pid: int = 0
    status: int | None = None
    started: Event = field(default_factory=Event)
    ended: Event = field(default_factory=Event)

    def signal(self, number: signal.Signals) -> None:
        """Send it, unless the process is gone."""
        if not self.ended.is_set():
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        self.signal(signal.SIGKILL)
        self.ended.wait(START_SECONDS)


class Nursery:
    """Forks drilled processes. Thread-safe."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._lock = Lock()
        self._count = 0
        self._starting: dict[int, Process] = {}
        self._living: dict[int, Process] = {}
        self._ready = Event()
        self._reader = Thread(target=self._listen, daemon=True)
        self._reader.start()

    def wait_ready(self) -> None:
        """Raises TimeoutError."""
        if not self._ready.wait(READY_SECONDS):
            raise TimeoutError("the nursery did not load in time")

    def start(self, program: str, environment: Mapping[str, str], log: Path) -> Process:
        """A new process of this program. Raises TimeoutError."""
        with self._lock:
            self._count += 1
            made = self._starting[self._count] = Process(self._count)
            order = {"number": made.number, "program": program, "environment": dict(environment), "log": str(log)}
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
        if not made.started.wait(START_SECONDS):
            raise TimeoutError(f"no {program} was started")
        return made

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if "ready" in said:
                self._ready.set()
            elif "started" in said:
                self._started(said["started"], said["pid"])
            else:
                self._ended(said["ended"], said["status"])

    def _started(self, number: int, pid: int) -> None:
        made = self._starting.pop(number)
        made.pid = pid
        self._living[pid] = made
        made.started.set()

    def _ended(self, pid: int, status: int) -> None:
        gone = self._living.pop(pid)
        gone.status = status
        gone.ended.set()


@contextmanager
def nursery(log: Path, command: Sequence[str] = ("-m", "drill.nursery")) -> Iterator[Nursery]:
    """A nursery until the block ends, with everything that was started in it."""
    with (
        log.open("ab") as errors,
        subprocess.Popen(
            [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=ROOT
        ) as process,
    ):
        try:
            made = Nursery(process)
            made.wait_ready()
            yield made
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(30)
