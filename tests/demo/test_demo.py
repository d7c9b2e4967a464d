"""The demo as a person runs it: it holds, it fails on a planted difference, it leaves nothing behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from eventually import eventually
from sandboxes import ROOT

from demo.places import Columns, differences, side_by_side

PLACES = ("store (psycopg)", "engine (temporalio)", "CRM (HubSpot API)", "provider (Stripe API)")
DEMO_SECONDS = 600

pytestmark = pytest.mark.timeout(DEMO_SECONDS + 30)


def demo(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "demo", *arguments]
    environment = {**os.environ, "TMPDIR": str(folder), "KEEP": ""}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=DEMO_SECONDS, check=False
    )


def processes_in(folder: Path) -> list[psutil.Process]:
    """Those that the demo started and that still work in its folder."""
    return [each for each in psutil.process_iter(["cmdline"]) if str(folder) in " ".join(each.info["cmdline"] or ())]


def test_the_demo_holds_and_leaves_nothing_behind(tmp_path: Path) -> None:
    done = demo(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    table = [line for line in done.stdout.splitlines() if line.startswith(("=", "≠"))]
    assert all(place in done.stdout for place in PLACES)
    assert len(table) > 15
    assert all(line.startswith("=") for line in table)
    assert next(line for line in table if " accounts made " in line).split()[3:] == ["1", "1"]
    assert list(tmp_path.iterdir()) == []
    eventually(lambda: processes_in(tmp_path) == [])


def test_a_planted_difference_makes_it_fail_and_is_named(tmp_path: Path) -> None:
    done = demo(tmp_path, "--plant")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "DOES NOT HOLD: e-mail: store (psycopg) has konto@nordwind.example" in done.stderr
    assert "provider (Stripe API) has planted@example.test" in done.stderr
    eventually(lambda: processes_in(tmp_path) == [])


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_stops_all_that_it_started(how: signal.Signals, tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "KEEP": ""}
    with subprocess.Popen([sys.executable, "-m", "demo"], cwd=ROOT, env=environment, stdout=subprocess.PIPE) as running:
        eventually(lambda: [p for p in processes_in(tmp_path) if "start-dev" in p.info["cmdline"]], within=60)
        running.send_signal(how)
        assert running.wait(180) == 130
    eventually(lambda: processes_in(tmp_path) == [])
    assert list(tmp_path.iterdir()) == []


AGREEING: Columns = {
    "store": {"account": "acct_1", "name": "Nordwind", "state": "succeeded"},
    "CRM": {"account": "acct_1", "name": "Nordwind"},
    "provider": {"account": "acct_1"},
}


def test_fields_are_compared_where_they_are_kept() -> None:
    assert differences(AGREEING) == []


@pytest.mark.parametrize("value", [None, "", "acct_2"])
def test_another_or_a_missing_value_is_a_difference(value: str | None) -> None:
    columns = {**AGREEING, "provider": {"account": value}}
    assert differences(columns) == [f"account: store has acct_1, CRM has acct_1, provider has {value or '(missing)'}"]
    assert [line[0] for line in side_by_side(columns)[1:]] == ["≠", "=", "="]


def test_long_values_are_compared_whole() -> None:
    columns: Columns = {"store": {"text": "x" * 80 + "a"}, "CRM": {"text": "x" * 80 + "b"}}
    assert len(differences(columns)) == 1
