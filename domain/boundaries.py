"""The points at which a process may die or lose a connection. Production enters them for one attribute test each."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar, Literal

Side = Literal["before", "after"]


@dataclass(frozen=True, slots=True)
class Boundary:
    """Two points: before what stands in the block, and after it was done; not after it failed.

    `run_id` is empty where the work is not about one run. `hook` is installed by the drill alone (drill/).
    """

    name: str
    run_id: str
    hook: ClassVar[Callable[[Boundary, Side], None] | None] = None

    def __enter__(self) -> None:
        if Boundary.hook is not None:
            Boundary.hook(self, "before")

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if Boundary.hook is not None and kind is None:
            Boundary.hook(self, "after")


_OPEN: AbstractContextManager[None] = nullcontext()


def boundary(name: str, run_id: str = "") -> AbstractContextManager[None]:
    """Enter as `with boundary("permit", run_id):`. The name is a literal: the drill reads it in the code."""
    return _OPEN if Boundary.hook is None else Boundary(name, run_id)
