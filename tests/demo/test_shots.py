"""The pictures of docs/: small, of every state that a person meets, and none without its place in a page."""

import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from sandboxes import ROOT

from demo.scenes import NO_WORKER, SHORT_DEADLINE, WITH_WORKER

FOLDER = ROOT / "docs" / "shots"
PICTURES = sorted(FOLDER.glob("*.png"))
SCENES = {**SHORT_DEADLINE, **WITH_WORKER, **NO_WORKER}
LARGEST_BYTES, WIDEST = 200_000, 1_300
PNG = b"\x89PNG\r\n\x1a\n"


def test_without_a_browser_its_package_is_named() -> None:
    environment = {**os.environ, "PATH": str(Path(sys.executable).parent)}
    done = subprocess.run(
        [sys.executable, "-m", "demo.shots"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "apt-get install chromium" in done.stderr


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.stem)
def test_a_picture_is_small(picture: Path) -> None:
    content = picture.read_bytes()
    (width,) = struct.unpack(">I", content[16:20])
    assert content.startswith(PNG)
    assert width <= WIDEST
    assert len(content) <= LARGEST_BYTES


@pytest.mark.parametrize("name", SCENES)
def test_every_scene_has_its_pictures(name: str) -> None:
    wanted = (name, f"run-{name}", f"list-{SCENES[name][1]}")
    assert [each for each in wanted if not (FOLDER / f"{each}.png").exists()] == []


def test_every_wait_and_end_is_shown_in_the_page() -> None:
    page = (ROOT / "docs" / "temporal-ui.md").read_text()
    shown = set(re.findall(r"\]\(shots/([\w-]+)\.png\)", page))
    assert set(SCENES) <= shown
