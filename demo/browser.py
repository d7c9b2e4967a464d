"""Debian's chromium without a screen, told what to do over the DevTools protocol on a pipe."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from demo.telling import Broken, eventually, hold

NAMES = ("chromium", "chromium-browser", "google-chrome")
MISSING = "no chromium here: apt-get install chromium (Debian's package; only `make shots` needs it)"
ANSWER_SECONDS = 60.0
SAME_LOOKS = 8
# Nothing of this leaves the machine, and a container has neither a sandbox nor a GPU.
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
# Temporal UI shows Markdown in frames of its own.
ALL_DOCUMENTS = "[document, ...[...document.querySelectorAll('iframe')].map(frame => frame.contentDocument)]"
LINKS = f"{ALL_DOCUMENTS}.flatMap(each => [...(each?.links ?? [])]).map(each => each.href)"
LAYOUT = f"JSON.stringify({ALL_DOCUMENTS}.map(each => [each?.readyState, each?.body?.scrollHeight]))"
ENDS = "Math.max(...[...document.querySelectorAll({})].map(each => each.getBoundingClientRect().bottom))"
MARGIN = 32


class NoBrowser(Exception):
    """There is no chromium; the message names the package."""


def program() -> str:
    """Raises NoBrowser."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise NoBrowser(MISSING)
    return found


@dataclass
class Tab:
    """One page. Sizes are CSS pixels."""

    to_browser: BinaryIO
    from_browser: BinaryIO
    session: str = ""
    count: int = 0
    unread: bytearray = field(default_factory=bytearray)

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """The answer to one command; events on the way are passed over. Raises Broken."""
        self.count += 1
        sent: dict[str, object] = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            sent["sessionId"] = self.session
        self.to_browser.write(json.dumps(sent).encode() + b"\0")
        self.to_browser.flush()
        return self._answer(self.count, method)

    def _answer(self, number: int, method: str) -> dict[str, Any]:
        until = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < until:
            said = json.loads(self._message())
            if said.get("id") == number and "error" in said:
                raise Broken(f"chromium refused {method}: {said['error']['message']}")
            if said.get("id") == number:
                return dict(said["result"])
        raise Broken(f"chromium did not answer {method}")

    def _message(self) -> bytes:
        while b"\0" not in self.unread:
            if not select.select([self.from_browser], [], [], ANSWER_SECONDS)[0]:
                raise Broken("chromium is silent")
            piece = os.read(self.from_browser.fileno(), 65536)
            if not piece:
                raise Broken("chromium ended")
            self.unread += piece
        message, _, rest = bytes(self.unread).partition(b"\0")
        self.unread = bytearray(rest)
        return message

    def open(self, url: str, size: tuple[int, int], wanted: str) -> None:
        """Load a page and wait until its text has `wanted`. Raises Broken."""
        width, height = size
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Page.navigate", url=url)
        eventually(lambda: wanted in self.text(), f"{url} shows {wanted!r}", within=30.0)

    def text(self) -> str:
        """What a person could read on the page and in its frames."""
        return str(self.run(f"{ALL_DOCUMENTS}.map(each => each?.body?.innerText ?? '').join('\\n')"))

    def link(self, part: str) -> str:
        """The first address with this part that the page or a frame of it leads to. Raises Broken."""
        found = [each for each in self.run(LINKS) if part in each]
        hold(found, f"the page has a link to {part}")
        return str(found[0])

    def run(self, script: str) -> Any:  # noqa: ANN401 (any JSON)
        """The value of an expression on the page; promises are awaited."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        return done["result"].get("value")

    def settled(self) -> None:
        """Until the layout is the same twice. Raises Broken."""
        seen: list[object] = []

        def same_twice() -> bool:
            seen.append(self.run(LAYOUT))
            return len(seen) > SAME_LOOKS and len(set(seen[-SAME_LOOKS:])) == 1

        eventually(same_twice, "the page comes to rest")

    def picture(self, file: Path, left: int = 0, scale: float = 1.0, content: str = "") -> None:
        """What the window shows right of `left`, down to the end of what the selector `content` finds, as PNG."""
        self.settled()
        width, height = self.run("[innerWidth, innerHeight]")
        if content:
            height = min(height, self.run(ENDS.format(json.dumps(content))) + MARGIN)
        clip = {"x": left, "y": 0, "width": width - left, "height": height, "scale": scale}
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png", clip=clip)["data"]))

    def click(self, selector: str) -> None:
        """Raises Broken when there is nothing to click on."""
        found = f"document.querySelector({json.dumps(selector)})"
        eventually(lambda: self.run(f"{found} !== null"), f"{selector} is on the page")
        self.run(f"{found}.click()")
        self.settled()


@contextmanager
def tab() -> Iterator[Tab]:
    """A browser of its own with one empty page; gone at the end with all it wrote. Raises NoBrowser, Broken."""
    with tempfile.TemporaryDirectory(prefix="counterfoil-chromium-", ignore_cleanup_errors=True) as profile:
        process, opened = _started(program(), profile)
        try:
            target = opened.call("Target.createTarget", url="about:blank")["targetId"]
            opened.session = opened.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            yield opened
        finally:
            process.terminate()
            process.wait(ANSWER_SECONDS)


def _started(chromium: str, profile: str) -> tuple[subprocess.Popen[bytes], Tab]:
    """Chromium reads commands from its descriptor 3 and answers on 4; a shell puts our pipes there."""
    read, to_browser = os.pipe()
    from_browser, write = os.pipe()
    place = f'exec "$0" "$@" 3<&{read} 4>&{write}'
    process = subprocess.Popen(
        ["bash", "-c", place, chromium, *QUIET, f"--user-data-dir={profile}", "about:blank"],
        pass_fds=(read, write),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(read)
    os.close(write)
    return process, Tab(os.fdopen(to_browser, "wb"), os.fdopen(from_browser, "rb", buffering=0))
