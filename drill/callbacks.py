"""What the provider tells of by itself: early, instead of its answer, twice, late, in another order, or of another."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from domain.identity import OperationIdentity, operation_key
from domain.partner_onboarding import CREATE_ACCOUNT
from drill.driving import approve, at_once, came, rested, straight, submit
from drill.ends import MODES, STRIPE, SYSTEM
from drill.slot import ANSWERED_WITHIN, CALLBACK_SECRET, Slot, Subject
from drill.waiting import until
from gateway.signatures import sign_stripe
from sandbox.standard_webhook import message, signed_message

Event = dict[str, Any]
UNMATCHED = "SELECT FROM callback_delivery WHERE told_key = %s AND disposition = 'unmatched'"


@dataclass
class Voice:
    """A provider that can be asked nothing tells of every account of the run, once."""

    slot: Slot
    subject: Subject
    _told: set[str] = field(default_factory=set)

    def __call__(self) -> None:
        made = [each for each in self.slot.practised(self.subject.run_id) if each["id"] not in self._told]
        self._told |= {each["id"] for each in made}
        for account in made:
            call_back(self.slot, message("account.created", account))


def listen(slot: Slot, subject: Subject) -> None:
    """From now on the slot's provider tells of this run's accounts, if its contract says so."""
    speaks = slot.mode != STRIPE and MODES[slot.mode].calls_back
    slot.beside = Voice(slot, subject) if speaks else silent


def silent() -> None:
    """The journey itself says what the provider tells, and when."""


def call_back(slot: Slot, event: Event) -> None:
    """The event, signed as the provider signs, and again until it is taken."""

    def taken() -> bool:
        body, headers = _signed(slot.mode, event)
        answer = slot.post(f"/callbacks/{SYSTEM}", content=body, headers=headers)
        return answer is not None and answer.status_code == 202

    until(taken, ANSWERED_WITHIN, "a callback that is taken")


def _signed(mode: str, event: Event) -> tuple[bytes, dict[str, str]]:
    if mode != STRIPE:
        return signed_message(CALLBACK_SECRET, event, time.time_ns() // 1_000_000)
    body = json.dumps(event).encode()
    return body, sign_stripe(CALLBACK_SECRET, int(time.time()), body)


def _stripe_event(account: Mapping[str, Any]) -> Event:
    event_id, now = f"evt_{secrets.token_hex(8)}", int(time.time())
    about = {"id": event_id, "object": "event", "type": "account.updated", "created": now, "request": None}
    return {**about, "data": {"object": dict(account)}}


def _told(slot: Slot, subject: Subject) -> list[Event]:
    """What the provider tells of the run's accounts."""
    if slot.mode == STRIPE:
        return [_stripe_event(each) for each in slot.accounts(subject.run_id)]
    return [message("account.created", each) for each in slot.practised(subject.run_id)]


def _awaited(slot: Slot, subject: Subject) -> list[Event]:
    """The same once there is something to tell of; nothing where the run rests before."""
    came(slot, subject, lambda: bool(slot.accounts(subject.run_id)), "an account")
    return _told(slot, subject)


def _account_request(slot: Slot, subject: Subject) -> dict[str, str]:
    return {"method": "POST", "path_prefix": MODES[slot.mode].accounts, "key": subject.mark}


def told_early(slot: Slot, subject: Subject) -> None:
    """The provider calls back before its answer is there, four times at once, and again when all is over."""
    slot.beside = silent
    slot.ground.sandbox.fault("slow_after", times=1, match=_account_request(slot, subject), seconds=0.8)
    submit(slot, subject)
    approve(slot, subject)
    events = _awaited(slot, subject)
    for event in events:
        at_once(4, partial(call_back, slot, event))
    rested(slot, subject)
    for event in events:
        call_back(slot, event)


def told_of_another(slot: Slot, subject: Subject) -> None:
    """An account under our key that is not ours is told of before anything is sent, and then answers are lost."""
    slot.beside = silent
    key = operation_key(OperationIdentity(subject.request_id, CREATE_ACCOUNT.step))
    call_back(slot, _another(slot.mode, key))
    slot.ground.sandbox.fault("drop_after_commit", times=2, match=_account_request(slot, subject))
    submit(slot, subject)
    approve(slot, subject)
    came(slot, subject, lambda: not slot.rows(UNMATCHED, key), "a callback that is matched")
    for event in _told(slot, subject):
        call_back(slot, event)
    rested(slot, subject)


def _another(mode: str, key: str) -> Event:
    if mode == STRIPE:
        account = {"id": f"acct_{secrets.token_hex(8)}", "object": "account", "metadata": {"operation_key": key}}
        return _stripe_event(account)
    return message("account.created", {"id": f"pa_{secrets.token_hex(8)}", "object": "account", "reference": key})


def told_instead(slot: Slot, subject: Subject) -> None:
    """The answer is lost, and the provider calls back."""
    slot.beside = silent
    slot.ground.sandbox.fault("drop_after_commit", match=_account_request(slot, subject))
    submit(slot, subject)
    approve(slot, subject)
    for event in _awaited(slot, subject):
        call_back(slot, event)
    rested(slot, subject)


def told_reordered(slot: Slot, subject: Subject) -> None:
    """The answer is lost, and of two events about the account the later one comes first, the earlier one twice."""
    slot.beside = silent
    slot.ground.sandbox.fault("drop_after_commit", match=_account_request(slot, subject))
    submit(slot, subject)
    approve(slot, subject)
    first = _awaited(slot, subject)
    for event in (*reversed(_told(slot, subject)), *first, *first):
        call_back(slot, event)
    rested(slot, subject)


def told_delayed(slot: Slot, subject: Subject) -> None:
    """The answer is lost, and the provider calls back when a person has already been asked."""
    slot.beside = silent
    slot.ground.sandbox.fault("drop_after_commit", match=_account_request(slot, subject))
    straight(slot, subject)
    for event in _told(slot, subject):
        call_back(slot, event)


def told_late(slot: Slot, subject: Subject) -> None:
    """The provider calls back twice when all is over."""
    slot.beside = silent
    straight(slot, subject)
    for event in _told(slot, subject):
        call_back(slot, event)
        call_back(slot, event)
