"""The badge office: POST /v1/badges, one badge for each reference; GET by id or by reference, not from an index."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from connectors.classify import (
    accepted,
    children,
    doubtful,
    exists,
    json_object,
    lost,
    machine_code,
    rejected,
    text,
    throttled,
    unauthenticated,
)
from connectors.fields import Fields, present
from connectors.reading import Reader, unseen
from connectors.transport import Lost, Reply, Request, Transport, segment
from domain.contracts import ClientKey, Contract, Repeat, Sign, Upsert
from domain.errors import InvalidInput, ReadFailed
from domain.ports import Send, Sought
from domain.signals import Answer, Finding, Found

ISSUE = "issue_badge"
BADGES = "/v1/badges"
NAMES = ("holder", "colour")
REFERENCE = ClientKey("reference in the body", 64, "office")
TAKEN = Sign("reference_taken", (409,))


class BadgeOffice:
    """One account of the badge office. Obeys domain.ports.Connector."""

    system = "badges"
    scope = ""

    def __init__(self, base_url: str, token: str, settle: timedelta, read_within: timedelta) -> None:
        self._transport = Transport(base_url, token)
        self._reader = Reader(self.system, self._transport, read_within)
        self._settle = settle

    def close(self) -> None:
        self._transport.close()

    def credential_mark(self) -> str:
        return self._transport.credential_mark()

    def contracts(self, operation: str) -> tuple[Contract, ...]:
        """A reference is unique and can be read back, so the same bytes may go again once it is absent."""
        _known(operation)
        return (Upsert(self._settle, REFERENCE, "GET /v1/badges?reference=", taken=TAKEN, repeat=Repeat.NAMES_ID),)

    def render(self, operation: str, key: str, fields: Fields) -> bytes:
        """Our key is the reference. The order is fixed: the same fields are the same bytes."""
        _known(operation)
        given = present(fields, "holder")
        body = {"reference": key, **{name: given[name] for name in NAMES if name in given}}
        return json.dumps(body, ensure_ascii=False).encode()

    def send(self, request: Send) -> Answer:
        """One POST."""
        post = Request("POST", BADGES, body=request.content, headers={"Content-Type": "application/json"})
        return _classified(self._transport.write(post, request.within), request)

    def probe(self, sought: Sought) -> Finding:
        """The badge that an answer named, else the one under our reference."""
        try:
            if sought.reference is not None:
                named = self._reader.found(_badge(sought.reference))
                return _compared([named] if named else [], sought)
            page = self._reader.required(Request("GET", BADGES, (("reference", sought.key),)))
            if not isinstance(page.get("badges"), list):
                raise self._reader.failed("unreadable_list")
            return _compared(list(children(page, "badges")), sought)
        except ReadFailed as failure:
            return unseen(failure)

    def read_back(self, operation: str, reference: str) -> Mapping[str, str | None]:
        """The fields as `render` takes them. Raises ReadFailed."""
        _known(operation)
        badge = self._reader.required(_badge(reference))
        return {name: text(badge, name) for name in NAMES}


def _known(operation: str) -> None:
    if operation != ISSUE:
        raise InvalidInput("operation", ISSUE)


def _badge(reference: str) -> Request:
    return Request("GET", f"{BADGES}/{segment(reference)}")


def _classified(reply: Reply | Lost, request: Send) -> Answer:
    """Only what the API documents is definite; everything else may have happened."""
    if isinstance(reply, Lost):
        return lost(reply)
    value = None if reply.defect else json_object(reply.body)
    if value is None:
        return doubtful(reply)
    code = text(value, "error")
    match reply.status:
        case 201 if text(value, "id") and text(value, "reference") == request.key:
            return accepted(reply, str(value["id"]))
        case 401 if code:
            return unauthenticated(reply)
        case status if TAKEN.fits(status, code):
            return exists(reply, text(value, "id"))
        case 422 if code:
            return rejected(reply, machine_code(code))
        case 429 if code:
            return throttled(reply, datetime.now(UTC), machine_code(code), refused=True)
        case _:
            return doubtful(reply)


def _compared(badges: list[Mapping[str, object]], sought: Sought) -> Finding:
    """ONE only with our key and our content: somebody else's badge is for a person to look at."""
    if len(badges) != 1:
        return Finding(Found.MANY, "several_badges") if badges else Finding(Found.NONE, "absent")
    asked, shown = json.loads(sought.content), badges[0]
    reference = str(shown.get("id"))
    differing = [name for name in asked if asked[name] != shown.get(name)]
    return (
        Finding(Found.FOREIGN, f"other_{differing[0]}", reference)
        if differing
        else Finding(Found.ONE, "found", reference)
    )
