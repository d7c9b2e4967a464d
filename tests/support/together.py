"""Threads that all set off at one barrier."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


def together(works: Sequence[Callable[[], Result]]) -> list[Result | Exception]:
    """What each of `works` returned or raised, all begun at once."""
    barrier = threading.Barrier(len(works))

    def begun(work: Callable[[], Result]) -> Result | Exception:
        barrier.wait(timeout=60)
        try:
            return work()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(begun, works))
