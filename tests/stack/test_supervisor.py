"""The supervisor over two small programs, as its users meet it: processes, signals, files, exit codes."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import small_stack
from eventually import eventually

from stack.ports import LOOPBACK, Ports, listening
from stack.supervisor import LONGEST_PAUSE_SECONDS, pause_after

NAMES = ["first", "second"]
STOP_SECONDS = 90


class Supervisor:
    """`python -m stack up` in a process group of its own, over the small programs."""

    def __init__(self, root: Path, ports: Ports) -> None:
        self.root = root
        self.ports = ports
        self.output = root.parent / "output"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> subprocess.Popen[bytes]:
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, small_stack.__file__, "up"],
                env={**os.environ, **_as_settings(self.ports), "COUNTERFOIL_DATA": str(self.root)},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return self.process

    def up(self) -> subprocess.Popen[bytes]:
        process = self.start()
        eventually(lambda: "is up" in self.said())
        return process

    def said(self) -> str:
        return self.output.read_text()

    def journal(self) -> list[str]:
        return (self.root / "journal").read_text().splitlines()

    def children(self) -> list[psutil.Process]:
        return [psutil.Process(self.pid(name)) for name in NAMES]

    def pid(self, name: str) -> int:
        return int(json.loads((self.root / "run" / f"{name}.json").read_text())["pid"])

    def end(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(STOP_SECONDS)


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    supervisor = Supervisor(tmp_path / "data", Ports.free())
    yield supervisor
    supervisor.end()


def test_it_says_where_everything_is(supervisor: Supervisor) -> None:
    supervisor.up()
    for port in supervisor.ports.model_dump().values():
        assert f"{LOOPBACK}:{port}" in supervisor.said()


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_it_stops_all_it_started_in_the_reverse_order(supervisor: Supervisor, which: signal.Signals) -> None:
    process = supervisor.up()
    children = supervisor.children()
    process.send_signal(which)
    assert process.wait(STOP_SECONDS) == 0
    assert not any(child.is_running() for child in children)
    assert supervisor.journal() == ["first started", "second started", "second stopped", "first stopped"]


def test_ctrl_c_reaches_the_children_only_through_it(supervisor: Supervisor) -> None:
    process = supervisor.up()
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(STOP_SECONDS) == 0
    assert not any(line.endswith("interrupted") for line in supervisor.journal())


def test_a_child_that_dies_is_started_again(supervisor: Supervisor) -> None:
    supervisor.up()
    victim = supervisor.pid("first")
    os.kill(victim, signal.SIGKILL)
    eventually(lambda: supervisor.journal().count("first started") == 2)
    eventually(lambda: supervisor.pid("first") != victim)
    eventually(lambda: listening(supervisor.ports.sandbox_port))


def test_after_sigkill_of_the_supervisor_another_works_on_the_same_data(supervisor: Supervisor) -> None:
    process = supervisor.up()
    before, secrets = supervisor.children(), (supervisor.root / "secrets.env").read_text()
    process.kill()
    process.wait()
    supervisor.output.write_text("")
    supervisor.up()
    assert not any(child.is_running() for child in before)
    assert all(child.is_running() for child in supervisor.children())
    assert (supervisor.root / "secrets.env").read_text() == secrets


def test_children_end_with_a_supervisor_that_is_killed(supervisor: Supervisor) -> None:
    process = supervisor.up()
    children = supervisor.children()
    process.kill()
    process.wait()
    eventually(lambda: not any(child.is_running() for child in children))


def test_two_supervisors_do_not_share_data(supervisor: Supervisor) -> None:
    first = supervisor.up()
    rival = Supervisor(supervisor.root, Ports.free())
    assert rival.start().wait(STOP_SECONDS) == 2
    assert f"another stack (process {first.pid})" in supervisor.said()
    assert all(child.is_running() for child in supervisor.children())


def test_a_taken_port_is_one_clear_line_before_anything_starts(supervisor: Supervisor) -> None:
    with socket.create_server((LOOPBACK, supervisor.ports.gateway_port)):
        assert supervisor.start().wait(STOP_SECONDS) == 2
    port = supervisor.ports.gateway_port
    wanted = f"port {port} is taken by another program; stop it or set COUNTERFOIL_GATEWAY_PORT to a free port\n"
    assert supervisor.said() == wanted
    assert not (supervisor.root / "run").exists()


def test_a_bad_port_is_named(supervisor: Supervisor) -> None:
    supervisor.ports = supervisor.ports.model_copy(update={"temporal_port": 70_000})
    assert supervisor.start().wait(STOP_SECONDS) == 2
    assert "COUNTERFOIL_TEMPORAL_PORT" in supervisor.said()


def test_secrets_are_for_their_owner_alone(supervisor: Supervisor) -> None:
    supervisor.up()
    for private in ("secrets.env", "env", "temporal.toml"):
        assert stat.S_IMODE((supervisor.root / private).stat().st_mode) == 0o600
    assert stat.S_IMODE(supervisor.root.stat().st_mode) == 0o700


def test_a_stopped_stack_leaves_no_address_behind(supervisor: Supervisor) -> None:
    supervisor.up()
    supervisor.end()
    assert not (supervisor.root / "env").exists()


def test_the_pause_before_a_start_grows_and_stays_bearable() -> None:
    pauses = [pause_after(deaths) for deaths in range(1, 200)]
    assert pauses == sorted(pauses)
    assert pauses[0] < pauses[1]
    assert pauses[-1] == LONGEST_PAUSE_SECONDS


def _as_settings(ports: Ports) -> dict[str, str]:
    return {f"COUNTERFOIL_{name.upper()}": str(port) for name, port in ports.model_dump().items()}
