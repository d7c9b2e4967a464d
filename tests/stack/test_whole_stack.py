"""The whole stack as `make up` runs it: an onboarding by command line, and what comes back after SIGKILL."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from commands import Counterfoil
from eventually import eventually

from demo.__main__ import FAST
from demo.doors import Doors, opened
from demo.partner import AMENDED_IBAN, AMENDER, MANAGER, seed
from stack.ports import Ports
from stack.supervisor import Stack

INHERITED = ("PATH", "HOME", "LANG")


@dataclass
class Shell:
    """A second shell in the folder in which the stack was started: it knows nothing but that folder."""

    folder: Path
    command: Counterfoil
    token: str = ""

    def __call__(self, *words: str) -> Any:  # noqa: ANN401 (any JSON document)
        said = self.command.process(*words, "--json", cwd=self.folder, token=self.token)
        assert said.code == 0, said
        return said.document


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(tmp_path_factory.mktemp("whole") / ".counterfoil", Ports.free(), FAST) as running:
        running.start()
        yield running


@pytest.fixture(scope="module")
def doors(stack: Stack) -> Iterator[Doors]:
    with opened(stack.env) as found:
        yield found


@pytest.fixture(scope="module")
def shell(stack: Stack) -> Shell:
    environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
    made = Shell(stack.paths.root.parent, Counterfoil(environment))
    made("actor", "add", "sabine", "--name", "Sabine")
    made("actor", "grant", "sabine", "supervisor")
    made.token = made("token", "issue", "sabine")["secret"]
    return made


def submitted(doors: Doors) -> tuple[str, str]:
    """A company as its manager submitted it, and the run about it."""
    company = seed(doors.sandbox).company_id
    doors.change_company(company, MANAGER, {"onboarding_stage": "submitted"})
    key = f"{doors.environment['COUNTERFOIL_HUBSPOT_PORTAL_ID']}-0-2-{company}"
    return company, eventually(lambda: doors.run_about(key), within=30)


def awaited(doors: Doors, run: str, state: str, version: int) -> dict[str, Any]:
    """The run in this state, about this version."""

    def reached() -> dict[str, Any] | None:
        shown = doors.run(run)
        return shown if (shown["state"], shown["input_version"]) == (state, version) else None

    return eventually(reached, within=60)


def approve(shell: Shell, shown: dict[str, Any]) -> None:
    seen = ("--version", str(shown["input_version"]), "--fingerprint", shown["fingerprint"])
    shell("approve", shown["run"], *seen)


@pytest.mark.timeout(900)
def test_an_onboarding_by_command_line(stack: Stack, doors: Doors, shell: Shell) -> None:
    _, run = submitted(doors)
    awaited(doors, run, "awaiting_review", 1)
    assert [found["run"] for found in shell("runs", "--state", "awaiting_review")] == [run]
    approve(shell, shell("show", run))
    awaited(doors, run, "succeeded", 1)
    done = shell("show", run)
    assert [made["outcome"] for made in done["operations"]] == ["accepted", "accepted"]
    assert shell("events", run)[-1]["next"] == "succeeded"
    assert shell("audit")["violations"] == []
    assert shell("doctor")["ok"] is True


def test_a_shell_elsewhere_finds_it_by_its_data_folder(stack: Stack, shell: Shell, tmp_path: Path) -> None:
    command = shell.command.but(COUNTERFOIL_DATA=str(stack.paths.root))
    assert command.process("runs", cwd=tmp_path).code == 0
    assert shell.command.process("runs", cwd=tmp_path).code == 2


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["gateway", "worker", "postgres", "temporal", "sandbox"])
def test_a_killed_part_comes_back_on_the_same_data(name: str, stack: Stack, doors: Doors, shell: Shell) -> None:
    company, run = submitted(doors)
    awaited(doors, run, "awaiting_review", 1)
    killed = stack.child(name).pid
    stack.kill(name)
    _looked_after(stack, name)
    assert stack.child(name).pid != killed
    doors.change_company(company, AMENDER, {"iban": AMENDED_IBAN})
    approve(shell, awaited(doors, run, "awaiting_review", 2))
    assert awaited(doors, run, "succeeded", 2)["sealed_version"] == 2
    assert len(doors.accounts(run)) == 1


def _looked_after(stack: Stack, name: str) -> None:
    """As `make up` does it, until the part is there again."""

    def back() -> bool:
        list(stack.look_after())
        return stack.child(name).alive() and stack.child(name).ready()

    eventually(back, within=60)
