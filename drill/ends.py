"""The contracts that are drilled, and as data the ends that each allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from domain.ports import Connector
    from settings import Settings

MODE = "DRILL_MODE"
"""Names the contract of a drilled process's provider."""


@dataclass(frozen=True, slots=True)
class End:
    """Where a run may stand for good: the numbers are how many records and tasks of it may exist then."""

    state: str
    reason: str
    accounts: frozenset[int] = frozenset({1})
    tasks: frozenset[int] = frozenset({1})


SUCCEEDED = End("succeeded", "records_agree")


@dataclass(frozen=True, slots=True)
class Mode:
    """One contract. `accounts`: where they are made; `doubted`: further ends where a send was in doubt."""

    name: str
    accounts: str
    doubted: tuple[End, ...] = ()

    def allowed(self, *, doubted: bool) -> tuple[End, ...]:
        return (SUCCEEDED, *(self.doubted if doubted else ()))


MODES: Mapping[str, Mode] = {mode.name: mode for mode in (Mode("stripe", "/v1/accounts"),)}


def connector_of(mode: str, settings: Settings) -> Connector | None:
    """The provider's connector under this contract; None where it is the real one's."""
    return None
