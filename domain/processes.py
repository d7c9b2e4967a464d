"""The processes that this installation runs, by name."""

from __future__ import annotations

from typing import Any

from domain.errors import NotFound
from domain.partner_onboarding import ONBOARDING
from domain.process import Process

PROCESSES: dict[str, Process[Any]] = {process.name: process for process in (ONBOARDING,)}


def process_named(name: str) -> Process[Any]:
    """The declared process. Raises NotFound."""
    try:
        return PROCESSES[name]
    except KeyError:
        raise NotFound("process", name) from None
