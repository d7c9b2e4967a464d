"""The ASGI application: reads a call, has the pretended system answer it and lets faults act on both."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from sandbox.control_api import ControlApi
from sandbox.fault_answers import SPEECH
from sandbox.faults import Ending, FaultBook, Rule
from sandbox.hubspot_api import HubspotApi
from sandbox.idempotency import IdempotencyKeys
from sandbox.practice_api import PracticeApi
from sandbox.pretended import Pretended
from sandbox.records import Records
from sandbox.request_log import RequestLog
from sandbox.settings import Knobs, Settings
from sandbox.stripe_api import StripeApi
from sandbox.stripe_events import AccountEvents
from sandbox.webhook_queue import Delivery
from sandbox.wire import Answer, Call, Refusal

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
# what a cut answer promises in Content-Length and never sends
_MISSING_BYTES = 64
PRACTICE = "/practice/"


@dataclass(frozen=True)
class Outcome:
    """What goes out for a call: an answer, its first part, or nothing."""

    answer: Answer
    ending: Ending = "answer"


class Sandbox:
    """One pretended CRM and one pretended provider over one data file."""

    def __init__(self, settings: Settings) -> None:
        self._records = Records(settings.data)
        knobs = Knobs(settings, self._records)
        self._keys = IdempotencyKeys(self._records, knobs)
        self._faults = FaultBook(self._records)
        self._log = RequestLog(self._records)
        hubspot = HubspotApi(self._records, settings, knobs)
        self._practice = PracticeApi(self._records, settings, knobs)
        self._systems: Mapping[str, Pretended] = {
            "hubspot": hubspot,
            "stripe": StripeApi(self._records, settings, self._keys, AccountEvents(self._records, knobs)),
            "practice": self._practice,
        }
        self._control = ControlApi(self._records, settings, knobs, hubspot, self._practice)
        self._late: set[asyncio.Task[None]] = set()
        self.delivery = Delivery(self._records, knobs, self._practice.execute_due)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._serve(scope, receive, send)
        except asyncio.CancelledError:
            # only a shutdown cancels a call that is being delayed
            _hang_up(scope)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._practice.execute_due()
        head = _head(scope)
        if head.path.startswith("/sandbox/"):
            await _send(self._committed(self._control.answer, await _read(head, receive)), send)
            return
        rule = self._faults.taken(head, _system(head), unread=True)
        if rule is not None:
            self._log.answered(self._log.received(head, rule.fault), None, executed=False)
            _hang_up(scope)
            return
        await _conclude(await self._outcome(await _read(head, receive)), scope, send)

    def close(self) -> None:
        self._records.close()

    async def _outcome(self, call: Call) -> Outcome:
        rule = self._faults.taken(call, _system(call), unread=False)
        number = self._log.received(call, rule.fault if rule else None)
        if rule is None:
            answer = await self._executed(call)
            self._log.answered(number, answer.status, executed=answer.status < 400)
            return Outcome(answer)
        if rule.kind.delay == "detached":
            self._execute_later(call, number, rule.seconds)
            return Outcome(Answer(0), "hang_up")
        return await self._under_fault(call, number, rule)

    async def _under_fault(self, call: Call, number: int, rule: Rule) -> Outcome:
        before = rule.seconds if rule.kind.delay == "before" else 0
        genuine = await self._executed(call, before) if rule.executes else Answer(200, b"{}")
        answer = self._failed_inside(call, rule, genuine)
        if rule.kind.hides and call.path.startswith(PRACTICE):
            self._practice.hide(genuine, rule.seconds)
        if rule.kind.delay == "after":
            await asyncio.sleep(rule.seconds)
        status = None if rule.kind.ending == "hang_up" else answer.status
        self._log.answered(number, status, executed=rule.executes and genuine.status < 400)
        return Outcome(answer, rule.kind.ending)

    def _failed_inside(self, call: Call, rule: Rule, genuine: Answer) -> Answer:
        system = _system(call)
        answer = rule.distorted(genuine, system)
        if rule.stored and genuine.status < 400 and not genuine.header("idempotent-replayed"):
            answer = self._systems[system].restate(call, answer)
        return self._systems[system].dressed(call, answer)

    async def _executed(self, call: Call, delay: float = 0) -> Answer:
        """The genuine answer, after a delay during which an idempotency key counts as in progress."""
        system = _system(call)
        pretended = self._systems[system]
        key = pretended.running_key(call)
        with self._keys.running(key) as free:
            if not free:
                return pretended.dressed(call, SPEECH[system].busy({"key": key}))
            await asyncio.sleep(delay)
            return pretended.dressed(call, self._committed(pretended.answer, call))

    def _committed(self, answering: Callable[[Call], Answer], call: Call) -> Answer:
        try:
            with self._records.transaction():
                return answering(call)
        except Refusal as refusal:
            return refusal.answer

    async def _executed_late(self, call: Call, number: int, seconds: float) -> None:
        answer = await self._executed(call, seconds)
        self._log.answered(number, None, executed=answer.status < 400)

    def _execute_later(self, call: Call, number: int, seconds: float) -> None:
        if call.path.startswith(PRACTICE):
            self._practice.execute_later(call, number, seconds)
            return
        task = asyncio.create_task(self._executed_late(call, number, seconds))
        self._late.add(task)
        task.add_done_callback(self._late.discard)


def _system(call: Call) -> str:
    if call.path.startswith(PRACTICE):
        return "practice"
    return "stripe" if call.path.startswith("/v1/") else "hubspot"


def _head(scope: Scope) -> Call:
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    return Call(scope["method"], scope["path"], tuple(query), headers)


async def _read(head: Call, receive: Receive) -> Call:
    parts = []
    more = True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return Call(head.method, head.path, head.query, head.headers, b"".join(parts))


async def _conclude(outcome: Outcome, scope: Scope, send: Send) -> None:
    if outcome.ending == "hang_up":
        _hang_up(scope)
    elif outcome.ending == "cut":
        await _send_part(outcome.answer, scope, send)
    else:
        await _send(outcome.answer, send)


async def _send(answer: Answer, send: Send) -> None:
    length = () if answer.status == 204 else (("content-length", str(len(answer.body))),)
    await send({"type": "http.response.start", "status": answer.status, "headers": _raw(answer.headers + length)})
    await send({"type": "http.response.body", "body": answer.body})


async def _send_part(answer: Answer, scope: Scope, send: Send) -> None:
    promised = (*answer.headers, ("content-length", str(len(answer.body) + _MISSING_BYTES)))
    await send({"type": "http.response.start", "status": answer.status, "headers": _raw(promised)})
    await send({"type": "http.response.body", "body": answer.body[: len(answer.body) // 2], "more_body": True})
    scope["state"]["connection"].hang_up(flushed=True)


def _hang_up(scope: Scope) -> None:
    scope["state"]["connection"].hang_up(flushed=False)


def _raw(headers: tuple[tuple[str, str], ...]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
