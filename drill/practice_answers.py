"""What the practice provider's answers to a create mean, judged by the signs that the mode's contracts declare. Pure.

No mode documents that a rate limit refuses before execution.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from connectors.classify import (
    Object,
    accepted,
    busy,
    child,
    doubtful,
    exists,
    json_object,
    lost,
    machine_code,
    mismatch,
    rejected,
    text,
    throttled,
    unauthenticated,
)
from connectors.transport import Lost, Reply
from domain.canonical import parse
from domain.contracts import Contract, Keyed, Repeat, Upsert
from domain.ports import Send
from domain.signals import Answer

NAMES = ("name", "country", "email", "legal_form", "bank_holder", "run_id")
_HOLDER = re.compile(r"Existing ID: (pa_[A-Za-z0-9]{1,60})\Z")


def classified(reply: Reply | Lost, request: Send, contracts: Sequence[Contract], now: datetime) -> Answer:
    """The answer to one create."""
    if isinstance(reply, Lost):
        return lost(reply)
    value = None if reply.defect else json_object(reply.body)
    if 200 <= reply.status < 300:
        return _success(reply, value, request)
    error = child(value or {}, "error")
    if reply.status == 429:
        return throttled(reply, now, machine_code(error.get("code") or "rate_limit"), refused=False)
    return _refusal(reply, error, contracts) if error and 400 <= reply.status < 500 else doubtful(reply)


def _success(reply: Reply, value: Object | None, request: Send) -> Answer:
    """A replay may be of another body: what is shown must be what was asked."""
    if value is None:
        return doubtful(reply, "unreadable")
    if not is_account(value) or text(value, "reference") != request.key:
        return doubtful(reply, "no_account_with_our_key")
    differing = differences(request.content, value)
    return mismatch(reply, f"other_{differing[0]}") if differing else accepted(reply, str(value["id"]))


def _refusal(reply: Reply, error: Object, contracts: Sequence[Contract]) -> Answer:
    code = text(error, "code")
    if reply.status == 401:
        return unauthenticated(reply)
    for contract in contracts:
        answer = _as_declared(reply, error, contract) if isinstance(contract, Keyed | Upsert) else None
        if answer is not None:
            return answer
    if reply.status == 400 and code == "invalid_request":
        return rejected(reply, f"invalid_request:{machine_code(error.get('param'))}")
    return doubtful(reply, machine_code(code))


def _as_declared(reply: Reply, error: Object, contract: Keyed | Upsert) -> Answer | None:
    code = text(error, "code")
    if contract.in_progress is not None and contract.in_progress.fits(reply.status, code):
        return busy(reply, contract.in_progress.code)
    if contract.taken is not None and contract.taken.fits(reply.status, code):
        return exists(reply, _holder(error, contract.repeat))
    if isinstance(contract, Keyed) and contract.mismatch is not None and contract.mismatch.fits(reply.status, code):
        return mismatch(reply, contract.mismatch.code)
    return None


def _holder(error: Object, repeat: Repeat) -> str | None:
    if repeat is Repeat.NAMES_ID:
        return text(child(error, "links"), "conflicting_resource_id")
    found = _HOLDER.search(text(error, "message") or "") if repeat is Repeat.ID_IN_TEXT else None
    return found and found[1]


def is_account(value: Object) -> bool:
    """Whether this is an account with an id."""
    return value.get("object") == "account" and (text(value, "id") or "").startswith("pa_")


def readable(account: Object) -> dict[str, str | None]:
    """The fields of an existing account; of the IBAN the last four characters only."""
    return {name: text(account, name) for name in (*NAMES, "iban_last4")}


def differences(content: bytes, account: Object) -> list[str]:
    """Names of the fields that the account shows otherwise than the stored body asked."""
    body = parse(content)
    asked = dict(body) if isinstance(body, Mapping) else {}
    iban = str(asked.pop("iban", ""))
    asked |= {"iban_last4": iban[-4:]} if iban else {}
    shown = {**readable(account), "reference": text(account, "reference")}
    return [name for name, value in asked.items() if shown.get(name) != value]
