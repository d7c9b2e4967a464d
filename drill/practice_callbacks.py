"""What the practice provider's callbacks say about accounts of ours. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from connectors.classify import child, json_object, text
from domain.callbacks import Announced
from domain.canonical import Json
from domain.errors import InvalidInput
from drill.practice_answers import differences, is_account
from drill.practice_contracts import CREATE_ACCOUNT


class PracticeCallbacks:
    """Account events, matched by our key, which the account echoes. Obeys domain.callbacks.CallsBack."""

    def __init__(self, system: str) -> None:
        self.system = system

    def announced(self, event: Mapping[str, Json]) -> Announced | None:
        """Raises InvalidInput for an account event without an account."""
        if text(event, "type") != "account.created":
            return None
        account = child(event, "data")
        if not is_account(account):
            raise InvalidInput("data", "an account with its id")
        return Announced(CREATE_ACCOUNT, text(account, "reference"), str(account["id"]), account)

    def compared(self, kind: str, content: bytes, record: bytes) -> str:
        """`other_FIELD` for the first field that the account shows otherwise than the stored body asked."""
        account = json_object(record)
        differing = ["unreadable"] if account is None else differences(content, account)
        return f"other_{differing[0]}" if differing else ""
