"""`make shots`: what a person sees in Temporal UI and on the gateway's page for each state, as docs/shots/*.png.

The stack, its data and the browser's profile are its own and gone at the end.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import quote

from demo import engine
from demo.__main__ import FAST, INTERRUPTED
from demo.browser import NoBrowser, Tab, program, tab
from demo.doors import Doors, opened
from demo.scenes import NO_WORKER, SHORT_DEADLINE, WITH_WORKER, Scene, made, staged
from demo.telling import Broken, Narrator, eventually
from stack.__main__ import stop_on
from stack.environment import temporal_ui_url
from stack.errors import StackError
from stack.files import CHECKOUT
from stack.ports import Ports
from stack.supervisor import Stack

FOLDER = CHECKOUT / "docs" / "shots"
# Waits are long enough to stand still for a picture; only the deadline of the run that expires is short.
STILL = {**FAST, "COUNTERFOIL_RETRY_PAUSE": "600"}
HURRIED = {**STILL, "COUNTERFOIL_REVIEW_DEADLINE": "2"}

PAGE, DETAILS, TIMELINE, EVENTS, LIST = (1200, 1100), (1280, 1300), (1280, 1060), (1560, 1020), (1700, 480)
ALL_RUNS, DRAWER = (1780, 760), (1536, 900)
SIDEBAR = 256
SCALE = 0.85
REMOVED = ("Run ID", "Type", "Start", "End")
ADDED = ("BusinessState", "ReasonCode", "NextOwner", "BusinessDeadline")
TIMELINES, HISTORY = ("awaiting_review", "succeeded"), "succeeded"
SUMMARY = "Create provider account"
"""By which the event history names a step."""


def main() -> int:
    stop_on(signal.SIGTERM, signal.SIGHUP)
    try:
        program()
        with _scratch() as root:
            _shoot(root)
    except NoBrowser as missing:
        return _said(str(missing), 2)
    except (Broken, StackError) as broken:
        return _said(f"no picture of that: {broken}", 1)
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _shoot(root: Path) -> None:
    ports, tell = Ports.free(), Narrator()
    tell.chapter("A run whose time runs out")
    with Stack(root, ports, HURRIED) as stack:
        scenes = _scenes(stack, lambda doors: made(staged(doors), SHORT_DEADLINE))
    tell.chapter("The same stack with patience: a run in each state")
    with Stack(root, ports, STILL) as stack:
        scenes += _scenes(stack, lambda doors: made(staged(doors), WITH_WORKER))
        with opened(stack.env) as doors, tab() as browser:
            _pictures(Studio(stack, doors, browser, tell), scenes)


def _pictures(studio: Studio, scenes: list[Scene]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    studio.tell.chapter(f"Pictures into {FOLDER.relative_to(CHECKOUT)}")
    studio.columns()
    for scene in scenes:
        studio.run(scene)
    studio.stack.kill("worker")
    (queued,) = made(staged(studio.doors), NO_WORKER)
    studio.run(queued)
    studio.everything(queued)


def _scenes(stack: Stack, make: Callable[[Doors], list[Scene]]) -> list[Scene]:
    stack.start()
    with opened(stack.env) as doors:
        return make(doors)


@dataclass(frozen=True)
class Studio:
    """A running stack with runs in it, and a browser in front of it."""

    stack: Stack
    doors: Doors
    browser: Tab
    tell: Narrator

    def columns(self) -> None:
        """As a person chooses them, once for a browser."""
        self.browser.open(self._workflows(), DRAWER, "Workflow ID")
        self.browser.click('[data-testid="workflows-summary-table-configuration-button"]')
        for name in REMOVED:
            self.browser.click(f'[aria-label="Remove {name} column"]')
        for name in ADDED:
            self.browser.click(f'[aria-label="Add {name} column"]')
        self._keep("columns")

    def run(self, scene: Scene) -> None:
        """One run in Temporal UI, in its list, and on the gateway's page."""
        shown = self.doors.run(scene.run)
        workflow = self._workflows() + f"/{self._address(shown['business_key'])}"
        # without a worker nobody answers for the current details
        wanted = shown["explained"] if scene.state != "queued" else scene.run
        self._open(f"{workflow}/user-metadata", DETAILS, wanted)
        self._keep(scene.name, content='[id^="user-metadata-"]')
        there = self.browser.link(f"/runs/{scene.run}")
        if scene.name in TIMELINES:
            self._open(f"{workflow}/timeline", TIMELINE, "Timeline")
            self._keep(f"timeline-{scene.name}")
        if scene.name == HISTORY:
            self._open(f"{workflow}/history", EVENTS, SUMMARY)
            self._keep(f"history-{scene.name}")
        self._open(there, PAGE, shown["explained"])
        self._keep(f"run-{scene.name}", left=0, content="main > *")
        self._listed(scene.state, shown["reason"])

    def _listed(self, state: str, reason: str) -> None:
        query = quote(f'BusinessState="{state}"')
        wanted = state if state == "queued" else reason
        self._open(f"{self._workflows()}?query={query}", LIST, wanted)
        self._keep(f"list-{state}")

    def everything(self, newest: Scene) -> None:
        self._open(self._workflows(), ALL_RUNS, self.doors.run(newest.run)["business_key"])
        self._keep("list")

    def _open(self, url: str, size: tuple[int, int], wanted: str) -> None:
        self.browser.open(url, size, wanted)

    def _keep(self, name: str, left: int = SIDEBAR, content: str = "") -> None:
        file = FOLDER / f"{name}.png"
        self.browser.picture(file, left, SCALE, content)
        self.tell.say(f"{file.name}  {file.stat().st_size // 1000} kB")

    def _workflows(self) -> str:
        return f"{temporal_ui_url(self.stack.ports)}/namespaces/default/workflows"

    def _address(self, business_key: str) -> str:
        look = partial(engine.address, self.stack.env["TEMPORAL_ADDRESS"], business_key)
        return eventually(lambda: asyncio.run(look()), "the engine lists the run")


@contextmanager
def _scratch() -> Iterator[Path]:
    """Kept when something went wrong, for its logs."""
    root = Path(tempfile.mkdtemp(prefix="counterfoil-shots-"))
    try:
        yield root
    except (Broken, StackError):
        print(f"data and logs stay in {root}", file=sys.stderr)
        raise
    except BaseException:
        shutil.rmtree(root, ignore_errors=True)
        raise
    shutil.rmtree(root, ignore_errors=True)


def _said(problem: str, code: int) -> int:
    print(problem, file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
