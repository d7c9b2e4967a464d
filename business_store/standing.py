"""Where a run stands after a transaction, and what its execution does next."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from business_store.runs import Run
from domain.execution import Then


@dataclass(frozen=True, slots=True)
class Standing:
    """`until` with WAIT: look again at this time at the latest; None means only when nudged (or at the recheck)."""

    run: Run
    then: Then
    until: datetime | None = None
