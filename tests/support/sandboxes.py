"""A sandbox as a real process on a free port."""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tied import tied

from sandbox.control import SandboxControl

ROOT = Path(__file__).parents[2]
_STOP_SECONDS = 60


def first_object_id() -> int:
    """Where the ids of a world's records begin: sandboxes count from the same start, and the engine of a session is
    shared, in which a business key must not come twice."""
    return 40_000_000_000 + secrets.randbelow(10**9) * 1000


@dataclass
class SandboxProcess:
    """One running sandbox."""

    process: subprocess.Popen[str]
    url: str

    def kill(self) -> None:
        """SIGKILL: nothing is flushed."""
        self.process.kill()
        self.process.wait(_STOP_SECONDS)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(_STOP_SECONDS)


@contextlib.contextmanager
def sandbox_process(data: Path, **settings: str) -> Iterator[SandboxProcess]:
    """Runs until the block ends; `settings` become SANDBOX_* in the environment."""
    environment = {**os.environ, **{f"SANDBOX_{name.upper()}": value for name, value in settings.items()}}
    command = [sys.executable, "-m", "sandbox", "--port", "0", "--data", str(data)]
    with subprocess.Popen(tied(command), stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().removeprefix("sandbox: ").strip()
            with SandboxControl(url) as control:
                control.wait_until_healthy()
            yield SandboxProcess(process, url)
        finally:
            process.kill()
