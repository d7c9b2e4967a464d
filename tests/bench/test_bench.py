"""The bench measures all that it names, at the smallest size; what comes out is never judged."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import GROUPS

ROOT = Path(__file__).parents[2]
LINE = re.compile(r"figure ([a-z0-9_]+) (\d\S*) (info|>=\S+|<=\S+)")


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.timeout(1200)
def test_every_figure_is_measured_and_printed_on_a_line_of_its_own() -> None:
    done = bench("--smallest", *GROUPS)
    found = [LINE.fullmatch(line) for line in done.stdout.splitlines()]
    printed = [(match[1], match[3]) for match in found if match]
    wanted = [(figure.name, figure.aim) for _, figures in GROUPS.values() for figure in figures]
    assert (printed, done.returncode) == (wanted, 0), (done.stdout, done.stderr[-3000:])
    assert len(found) == len(wanted)


def test_an_unknown_group_is_refused_and_the_known_ones_are_named() -> None:
    done = bench("speed")
    assert done.returncode == 2
    assert "triggers" in done.stderr


def test_every_figure_has_a_row_in_the_page_about_them() -> None:
    page = (ROOT / "docs" / "performance.md").read_text()
    missing = [figure.name for _, figures in GROUPS.values() for figure in figures if f"`{figure.name}`" not in page]
    assert missing == []
