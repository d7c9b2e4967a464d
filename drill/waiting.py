"""Waiting for what another process does, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, TypeVar

POLL_SECONDS = 0.05
T = TypeVar("T")


class Late(Exception):
    """A condition was not met within its time."""


def until(condition: Callable[[], T | Literal[False] | None], within: float, what: str) -> T:
    """The first true value of `condition`. Raises Late."""
    deadline = time.monotonic() + within
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise Late(f"{what}: not within {within:g} s")
        time.sleep(POLL_SECONDS)
