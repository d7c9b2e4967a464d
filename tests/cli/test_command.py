"""The command as a process: help, settings, streams and exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from commands import Counterfoil
from people import Who
from sandboxes import ROOT
from typer.main import get_command

from cli.main import application

COMMANDS = [
    *("runs", "show", "events", "approve", "reject", "request-changes", "revoke-decision", "start", "resolve"),
    *("resolve-all", "resolve-file", "resume", "sweep", "trigger", "callback", "doctor", "audit", "erase"),
    *("credential", "actor", "token", "db"),
]


def test_help_names_every_command(counterfoil: Counterfoil, tmp_path: Path) -> None:
    said = counterfoil.process("--help", cwd=tmp_path)
    assert said.code == 0
    listed = [line.split()[0] for line in said.out.partition("Commands:\n")[2].splitlines() if line.strip()]
    assert sorted(listed) == sorted(COMMANDS)
    cut_short = [line for line in said.out.splitlines() if line.startswith("  ") and line.endswith("...")]
    assert cut_short == []


def test_every_command_takes_json(counterfoil: Counterfoil) -> None:
    groups = {"actor": ("add", "list", "grant", "revoke", "deactivate", "link"), "token": ("issue", "revoke")}
    groups["credential"] = ("list", "renew")
    leaves: list[tuple[str, ...]] = [(name,) for name in COMMANDS if name not in (*groups, "db")]
    leaves += [(group, name) for group, names in groups.items() for name in names] + [("db", "upgrade")]
    assert [leaf for leaf in leaves if "--json" not in counterfoil(*leaf, "--help").out] == []


def test_the_commands_are_made_without_settings() -> None:
    assert get_command(application()).name is not None


def test_settings_that_are_missing_are_each_named(counterfoil: Counterfoil, tmp_path: Path) -> None:
    bare = counterfoil.but(COUNTERFOIL_DATABASE_URL=None, COUNTERFOIL_STRIPE_SECRET_KEY=None)
    said = bare.process("runs", cwd=tmp_path)
    assert (said.code, said.out) == (2, "")
    named = [line.strip().partition(":")[0] for line in said.err.splitlines()[1:]]
    assert named == ["COUNTERFOIL_DATABASE_URL", "COUNTERFOIL_STRIPE_SECRET_KEY"]
    assert "Traceback" not in said.err


@pytest.mark.parametrize("url", ["nonsense", "postgresql+nothing://h/d", "mysql://user:pw-secret@h/d"])
def test_a_database_address_that_is_none(url: str, counterfoil: Counterfoil) -> None:
    said = counterfoil.but(COUNTERFOIL_DATABASE_URL=url)("runs", "--json")
    assert (said.code, said.refusal["error"]) == (2, "settings")
    assert "COUNTERFOIL_DATABASE_URL" in said.refusal["settings"][0]
    assert "pw-secret" not in said.err


def test_a_store_that_is_away(counterfoil: Counterfoil, tmp_path: Path) -> None:
    away = counterfoil.but(COUNTERFOIL_DATABASE_URL="postgresql+psycopg://nobody:pw-secret@127.0.0.1:1/none")
    said = away.process("runs", cwd=tmp_path)
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("counterfoil: the store cannot be reached: ")
    assert "pw-secret" not in said.err
    assert "Traceback" not in said.err


def test_standard_output_is_the_document_alone_while_the_engine_is_away(
    counterfoil: Counterfoil, supervisor: Who, waiting: str, tmp_path: Path
) -> None:
    shown = counterfoil("show", waiting, "--json").document
    about = ("--version", "1", "--fingerprint", shown["fingerprint"])
    said = counterfoil.process("approve", waiting, *about, "--json", cwd=tmp_path, token=supervisor.token)
    assert (said.code, json.loads(said.out)["outcome"]) == (0, "approved")
    assert "engine not reached" in said.err
    assert supervisor.token not in said.out + said.err


def test_bytes_that_are_no_text_are_refused(counterfoil: Counterfoil, waiting: str, tmp_path: Path) -> None:
    utf8 = counterfoil.but(PYTHONUTF8="1")
    said = utf8.process("revoke-decision", waiting, "--reason", b"na\xefve", cwd=tmp_path)
    assert (said.code, said.err) == (2, "counterfoil: argument 4 is not text in this locale's encoding\n")


def test_a_terminal_without_the_letters_gets_them_written_out(counterfoil: Counterfoil, tmp_path: Path) -> None:
    counterfoil("actor", "add", "yuri", "--name", "Юрий")
    said = counterfoil.but(PYTHONIOENCODING="latin-1").process("actor", "list", cwd=tmp_path)
    assert said.code == 0
    assert r"\u042e\u0440\u0438\u0439" in said.out


def test_a_command_waits_for_no_package_that_it_does_not_need() -> None:
    """The engine's SDK alone takes longer to load than most commands take to run."""
    loaded = "import sys, cli.main; print(*{'temporalio', 'fastapi', 'alembic'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", loaded], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
