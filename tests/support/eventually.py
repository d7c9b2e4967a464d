"""Waiting for something that another process or thread does, with a deadline instead of a hopeful sleep."""

import time
from collections.abc import Callable
from typing import Literal, TypeVar

POLL_SECONDS = 0.02
PATIENCE = 4
"""Deadlines are those of a quiet machine; a busy one is slow and not wrong, and who passes waits no longer for it."""
ANSWER_SECONDS = 60.0
"""How long an HTTP call that is to be answered may take, for the same reason."""

Value = TypeVar("Value")


def eventually(condition: Callable[[], Value | Literal[False] | None], within: float = 10.0) -> Value:
    """The first true value of `condition`; fails with its last value or error after `PATIENCE` times as long."""
    deadline = time.monotonic() + PATIENCE * within
    while True:
        value, error = _tried(condition)
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(
                f"not within {PATIENCE * within:g} s: {_described(condition)}; last: {error or value!r}"
            ) from error
        time.sleep(POLL_SECONDS)


def _tried(
    condition: Callable[[], Value | Literal[False] | None],
) -> tuple[Value | Literal[False] | None, Exception | None]:
    try:
        return condition(), None
    except Exception as error:
        return None, error


def _described(condition: Callable[[], object]) -> str:
    code = getattr(condition, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
    return getattr(condition, "__qualname__", repr(condition)) + where
