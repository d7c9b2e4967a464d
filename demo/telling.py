"""Telling the story, and stopping it where a promise does not hold."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

POLL_SECONDS = 0.05

Value = TypeVar("Value")


class Broken(Exception):
    """Something that the demo promises did not hold; the message says what."""


class Narrator:
    """Prints what happens, with the seconds since the beginning."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._chapters = 0

    def chapter(self, title: str) -> None:
        self._chapters += 1
        self._print(f"\n{time.monotonic() - self._began:5.1f} s  {self._chapters}. {title}")

    def say(self, text: str) -> None:
        self._print(f"           {text}")

    def block(self, lines: list[str]) -> None:
        self._print("\n".join(["", *lines]))

    def _print(self, text: str) -> None:
        print(text, flush=True)


def moment(iso: str) -> str:
    """A time as people read it."""
    return f"{datetime.fromisoformat(iso).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def hold(condition: object, claim: str) -> None:
    """Raises Broken."""
    if not condition:
        raise Broken(claim)


def eventually(look: Callable[[], Value | None], claim: str, within: float = 45.0) -> Value:
    """The first true value of `look`. Raises Broken when there is none within so many seconds."""
    deadline = time.monotonic() + within
    while True:
        value = look()
        if value:
            return value
        if time.monotonic() > deadline:
            raise Broken(f"{claim} (not within {within:g} s)")
        time.sleep(POLL_SECONDS)
