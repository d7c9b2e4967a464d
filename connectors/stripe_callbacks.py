"""What Stripe's account events say about accounts of ours. Pure.

Sources: docs.stripe.com/api/events/object and /types: `data.object` is the account as it was when the event was made,
`request.idempotency_key` the key of the request that caused it.
"""

from __future__ import annotations

from collections.abc import Mapping

from connectors.classify import child, json_object, text
from connectors.stripe import CREATE_ACCOUNT
from connectors.stripe_account import differences, is_account, key_of
from domain.callbacks import Announced
from domain.canonical import Json
from domain.errors import InvalidInput

TOLD_OF = frozenset({"account.updated"})
"""Stripe sends it after a create too, once it has worked out what the account still needs."""


class StripeCallbacks:
    """Account events, matched by our key in the account's metadata, else by the key of the request that caused them."""

    system = "stripe"

    def announced(self, event: Mapping[str, Json]) -> Announced | None:
        """Raises InvalidInput for an account event without an account."""
        if text(event, "type") not in TOLD_OF:
            return None
        account = child(child(event, "data"), "object")
        if not is_account(account):
            raise InvalidInput("data.object", "an account with its id")
        key = key_of(account) or text(child(event, "request"), "idempotency_key")
        return Announced(CREATE_ACCOUNT, key, str(account["id"]), account)

    def compared(self, kind: str, content: bytes, record: bytes) -> str:
        """`other_FIELD` for the first field that the account shows otherwise than the stored body asked."""
        account = json_object(record)
        differing = ("unreadable",) if account is None else differences(content, account)
        return f"other_{differing[0]}" if differing else ""
