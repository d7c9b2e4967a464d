"""What Stripe promises for connected accounts, as data.

Source: docs.stripe.com/api/idempotent_requests (keys kept for at least 24 h, failures of started work included;
sources disagree on the status of a mismatch) and docs.stripe.com/search (lists are no index and do not lag).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from domain.contracts import ClientKey, Contract, Keyed, LookupStrong, Sign, Stored

KEY_HEADER = "Idempotency-Key"
IN_PROGRESS = Sign("idempotency_key_in_use", (409,))
MISMATCH = Sign("idempotency_error", (400, 409))


@dataclass(frozen=True, slots=True)
class StripeTimes:
    """`window`: how long Stripe keeps a key at least; `settle`: how long a request may run on after we gave up."""

    window: timedelta = timedelta(hours=24)
    margin: timedelta = timedelta(hours=1)
    settle: timedelta = timedelta(seconds=120)
    read_within: timedelta = timedelta(seconds=10)


def of_accounts(times: StripeTimes) -> tuple[Contract, ...]:
    """C1, then C3."""
    keyed = Keyed(
        times.window,
        times.margin,
        Stored.ALL_STARTED,
        ClientKey(f"header {KEY_HEADER}", 255, "platform account and endpoint"),
        in_progress=IN_PROGRESS,
        mismatch=MISMATCH,
    )
    listed = "GET /v1/accounts by created, every page, compared by metadata[operation_key]"
    return keyed, LookupStrong(times.settle, listed)
