"""`python planted.py NAME`: the nursery of a drill whose product has one guard switched off."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import activities.effects
import business_store.ledger
from business_store.facts import owned_facts
from domain import approvals, permits
from domain.history import History
from drill import nursery


def in_flight() -> None:
    """Nobody knows of a send that may still be under way."""
    refuses = permits._line_refuses
    permits._line_refuses = lambda line, now: refuses(permits.Line(line.contracts, line.evidence, None), now)
    vars_of(
        History,
        in_flight_until=property(lambda history: None),
        lease_ended=property(lambda history: max(each.permitted_at for each in history.unresolved)),
        repeat_not_before=lambda history, first_backoff: history.attempts[-1].permitted_at,
    )


def probe() -> None:
    """A repeat needs no look."""
    vars_of(History, absences_since=lambda history, moment: (moment,) * 9)


def fingerprint() -> None:
    """An approval covers whatever came after it."""

    def about(decision: approvals.Decision, version: approvals.Version) -> bool:
        return True

    approvals._about = about


def fence() -> None:
    """Every execution owns the run."""

    def owned(*asked: Any) -> tuple[Any, bool]:  # noqa: ANN401 (passed on)
        return owned_facts(*asked)[0], True

    vars(business_store.ledger).update(owned_facts=owned)


def clock() -> None:
    """A request's time counts from its first byte, whenever that is."""
    vars(activities.effects).update(Until=lambda at: timedelta(seconds=1))


def vars_of(of: type, **replaced: object) -> None:
    for name, value in replaced.items():
        setattr(of, name, value)


PLANTS: Mapping[str, Callable[[], None]] = {
    each.__name__: each for each in (in_flight, probe, fingerprint, fence, clock)
}

if __name__ == "__main__":
    PLANTS[sys.argv[1]]()
    nursery.main()
