"""How long Stripe wants everybody to pause who met a limit: it counts by the second and sends no Retry-After. Pure.

Source: docs.stripe.com/rate-limits: Stripe-Rate-Limited-Reason says global-rate, endpoint-rate, global-concurrency,
endpoint-concurrency or resource-specific; the code lock_timeout says that another request holds the one object.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from connectors.classify import child, json_object, pause_asked, text
from connectors.transport import Reply

WINDOW = timedelta(seconds=1)
REASON = "stripe-rate-limited-reason"


def pause_of(reply: Reply, now: datetime) -> timedelta | None:
    """Retry-After where it makes sense, else the window of a limit; None where one object alone is meant."""
    said = pause_asked(reply, now)
    if said is not None or reply.status != 429 or _of_one_object(reply):
        return said
    return WINDOW


def _of_one_object(reply: Reply) -> bool:
    error = child(json_object(reply.body) or {}, "error")
    return "resource-specific" in reply.header(REASON) or text(error, "code") == "lock_timeout"
