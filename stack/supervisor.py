"""The whole stack on one data folder: start, stop, restart, and look after what dies."""

import fcntl
import os
import signal
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from stack.child import Child
from stack.environment import environment, temporal_profile
from stack.errors import StackError
from stack.files import Paths, write_private, write_variables
from stack.ports import Ports
from stack.programs import Part, Parts, Plan, counterfoil
from stack.secret_values import kept_secrets

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
# A child that lived this long was well; its next death starts with the shortest pause again.
WELL_AFTER_SECONDS = 60.0
# What programs need from the shell that started the stack, whatever else it holds.
INHERITED = ("PATH", "HOME", "LANG", "TMPDIR", "USER")
TRACING = "OTEL_"
"""OpenTelemetry's own variables, by which somebody asks for traces."""


class AlreadyRunning(StackError):
    """Another supervisor works on this data. Permitted next action: stop it, or use another folder."""

    exit_code = 2

    def __init__(self, root: Path, pid: str) -> None:
        super().__init__(f"another stack (process {pid or 'unknown'}) works on {root}; stop it or set COUNTERFOIL_DATA")
        self.root = root
        self.pid = pid


class Stack:
    """`with Stack(root, ports) as stack: stack.start()`; everything it started is stopped at the end.

    `overrides` are environment variables that win over the composed ones. Start it from the main thread. Raises
    AlreadyRunning, PortTaken (both before anything starts), ChildNotReady, and what the embedded servers raise.
    """

    def __init__(
        self,
        root: Path,
        ports: Ports,
        overrides: Mapping[str, str] | None = None,
        parts: Parts = counterfoil,
    ) -> None:
        self.paths = Paths(root.absolute())
        self.ports = ports
        self.overrides = dict(overrides or {})
        self._build = parts
        self._parts: Sequence[Part] = ()
        self._watched: dict[str, Watched] = {}
        self._lock: int | None = None
        self.env: dict[str, str] = {}

    def start(self, names: Collection[str] | None = None) -> None:
        """The named parts in their order; all of them by default."""
        self._open()
        for part in self._parts:
            if names is None or part.name in names:
                self._start_part(part)

    def stop(self) -> None:
        """Everything that runs, in the reverse order; harmless when nothing does."""
        with ExitStack() as ending:
            ending.callback(self._close)
            for child in self.children:
                ending.callback(child.stop)
        self._watched.clear()

    def kill(self, name: str, which: signal.Signals = signal.SIGKILL) -> None:
        """Sends a signal as the world outside might; after SIGKILL the process is gone."""
        if which == signal.SIGKILL:
            self.child(name).kill()
        else:
            self.child(name).send(which)

    def restart(self, name: str) -> None:
        child = self.child(name)
        child.stop()
        child.start()

    def child(self, name: str) -> Child:
        return {child.name: child for child in self.children}[name]

    @property
    def children(self) -> list[Child]:
        return [part for part in self._parts if isinstance(part, Child)]

    def look_after(self) -> Iterable[str]:
        """One pass over the children that were started: restarts the dead; says what happened."""
        now = time.monotonic()
        return [said for watched in list(self._watched.values()) if (said := watched.look(now))]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start_part(self, part: Part) -> None:
        if not isinstance(part, Child):
            part.run()
        elif not part.alive():
            part.start()
            self._watched[part.name] = Watched(part, time.monotonic())

    def _open(self) -> None:
        """Once per stack: nothing is written or started before the folder and the ports are known to be ours."""
        if self._lock is not None:
            return
        self._lock = _locked(self.paths)
        try:
            self._compose()
            for child in reversed(self.children):
                child.end_orphan()
            self.ports.require_free()
            self._publish()
        except BaseException:
            self._close()
            raise

    def _compose(self) -> None:
        secrets = kept_secrets(self.paths.secrets)
        self.env = {**environment(self.ports, secrets, self.paths), **self.overrides}
        shell = {name: text for name, text in os.environ.items() if name in INHERITED or name.startswith(TRACING)}
        self._parts = self._build(Plan(self.ports, secrets, self.paths, {**shell, **self.env}))

    def _publish(self) -> None:
        """For the command line in another shell."""
        write_private(self.paths.temporal_profile, temporal_profile(self.ports))
        write_variables(self.paths.environment, self.env)

    def _close(self) -> None:
        if self._lock is not None:
            self.paths.environment.unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None


@dataclass
class Watched:
    """How often a child died, and when it is due again."""

    child: Child
    started: float
    deaths: int = 0
    due: float | None = None

    def look(self, now: float) -> str | None:
        if self.child.alive():
            return None
        return self._mourn(now) if self.due is None else self._revive(now)

    def _mourn(self, now: float) -> str:
        self.deaths = 1 if now - self.started > WELL_AFTER_SECONDS else self.deaths + 1
        pause = pause_after(self.deaths)
        self.due = now + pause
        return f"{self.child.name} ended; starting it again in {pause:g} s (log: {self.child.files.log})"

    def _revive(self, now: float) -> str | None:
        if self.due is None or now < self.due:
            return None
        self.started, self.due = now, None
        try:
            self.child.spawn()
        except (OSError, StackError) as error:
            return f"{self.child.name} cannot start: {error}"
        return f"{self.child.name} started again"


def pause_after(deaths: int) -> float:
    """Seconds before the next start: doubling, so that a child that cannot live does not keep the machine busy."""
    return float(min(FIRST_PAUSE_SECONDS * 2 ** min(deaths - 1, 20), LONGEST_PAUSE_SECONDS))


def _locked(paths: Paths) -> int:
    paths.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(paths.lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(lock, 20).decode()
        os.close(lock)
        raise AlreadyRunning(paths.root, holder) from None
    os.truncate(lock, 0)
    os.write(lock, str(os.getpid()).encode())
    return lock
