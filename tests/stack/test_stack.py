"""The stack as a program uses it: real servers, the environment it composes, the files it keeps."""

import dataclasses
import os
import signal
import sys
from pathlib import Path

import psycopg
import pytest
from small_stack import small_parts

from stack.child import Child, ChildNotReady, Command, Files, Stopping
from stack.environment import chosen_by_operator, environment
from stack.files import Paths, read_variables
from stack.ports import Ports, listening
from stack.provision import provision
from stack.secret_values import Secrets, kept_secrets
from stack.supervisor import Stack

STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); signal.pause()"


def test_real_servers_restart_on_the_same_data(tmp_path: Path) -> None:
    with Stack(tmp_path / "data", Ports.free()) as stack:
        stack.start(["postgres", "temporal"])
        secrets = kept_secrets(stack.paths.secrets)
        dsn = f"postgresql://postgres:{secrets.postgres_password}@127.0.0.1:{stack.ports.postgres_port}/postgres"
        provision(dsn, secrets.passwords)
        for name in ("postgres", "temporal"):
            stack.kill(name)
            stack.restart(name)
        with psycopg.connect(stack.env["COUNTERFOIL_DATABASE_URL"].replace("+psycopg", "")) as connection:
            assert connection.execute("SELECT current_user").fetchone() == ("counterfoil_app",)
    assert not listening(stack.ports.postgres_port)
    assert not listening(stack.ports.temporal_port)


def test_a_stack_starts_what_it_is_asked_for(tmp_path: Path) -> None:
    with Stack(tmp_path / "data", Ports.free(), parts=small_parts) as stack:
        stack.start(["second"])
        assert [child.name for child in stack.children if child.alive()] == ["second"]
        stack.start()
        assert all(child.alive() for child in stack.children)


def test_overrides_win_and_are_published_for_other_shells(tmp_path: Path) -> None:
    chosen = {"COUNTERFOIL_HUBSPOT_TOKEN": "pat-real"}
    with Stack(tmp_path / "data", Ports.free(), chosen, small_parts) as stack:
        stack.start()
        assert read_variables(stack.paths.environment) == stack.env
        assert stack.env["COUNTERFOIL_HUBSPOT_TOKEN"] == "pat-real"


def test_a_child_that_ends_at_once_is_reported_with_its_last_words(tmp_path: Path) -> None:
    child = _python("hasty", "print('no such table', flush=True)", tmp_path)
    child.ready = lambda: False
    with pytest.raises(ChildNotReady, match=r"(?s)hasty ended before it was ready.*no such table"):
        child.start()


def test_a_child_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    child = _python("stubborn", STUBBORN, tmp_path)
    child.ready = lambda: "deaf" in child.files.log.read_text()
    child.stopping = Stopping(signal.SIGTERM, grace_seconds=0.1)
    child.start()
    child.stop()
    assert not child.alive()


def test_the_environment_is_composed_without_looking_around(tmp_path: Path) -> None:
    composed = environment(Ports.free(), kept_secrets(tmp_path / "secrets.env"), Paths(tmp_path))
    assert all(isinstance(value, str) and "\n" not in value for value in composed.values())
    assert composed["COUNTERFOIL_HUBSPOT_CLIENT_SECRET"] == composed["SANDBOX_WEBHOOK_SECRET"]
    assert composed["COUNTERFOIL_DATABASE_URL"] != composed["COUNTERFOIL_DATABASE_OWNER_URL"]


def test_the_operator_chooses_services_and_times_but_not_our_own_addresses() -> None:
    shell = {"COUNTERFOIL_STRIPE_BASE_URL": "https://api.stripe.com", "COUNTERFOIL_DATABASE_URL": "else", "HOME": "/"}
    assert chosen_by_operator(shell) == {"COUNTERFOIL_STRIPE_BASE_URL": "https://api.stripe.com"}


def test_secrets_are_made_once_and_completed_later(tmp_path: Path) -> None:
    path = tmp_path / "secrets.env"
    made = kept_secrets(path)
    assert kept_secrets(path) == made
    path.write_text("".join(line for line in path.read_text().splitlines(True) if "STRIPE" not in line))
    completed = kept_secrets(path)
    assert dataclasses.replace(completed, stripe_secret_key=made.stripe_secret_key) == made
    assert completed.stripe_secret_key != made.stripe_secret_key


def test_secrets_do_not_show_in_a_traceback(tmp_path: Path) -> None:
    secrets = kept_secrets(tmp_path / "secrets.env")
    assert not any(getattr(secrets, each.name) in repr(secrets) for each in dataclasses.fields(Secrets))


def _python(name: str, program: str, root: Path) -> Child:
    command = Command((sys.executable, "-c", program), dict(os.environ), cwd=root)
    return Child(name, lambda: command, Files.of(root, name))
