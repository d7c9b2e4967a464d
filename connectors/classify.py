"""What every connector does alike with an answer: parse it, name it without its text, and doubt what is left."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import TypeAlias

from connectors.retry_after import MIGRATION_CAP, USUAL_CAP, retry_after
from connectors.transport import Lost, Reply
from domain.canonical import Json, NotJson, parse
from domain.credentials import UNAUTHENTICATED, Verdict
from domain.signals import Answer, Doubt, Signal

MIGRATING = 477
Object: TypeAlias = "Mapping[str, Json]"

_CODE = re.compile(r"[a-z0-9_.\[\]:-]{1,80}\Z")
_LONG_NUMBER = re.compile(r"[0-9]{5}")
_TAG = re.compile(r"<\s*(!doctype html|html|head|body|title|\?xml)", re.IGNORECASE)
_TITLE = re.compile(r"<title>\s*(?:[0-9]{3}\s+)?([A-Za-z -]{2,40}?)\s*</title>", re.IGNORECASE)
_PHRASES = {status.phrase.lower(): status.value for status in HTTPStatus}


def machine_code(value: object) -> str:
    """A code as APIs name their errors, in lower case; `unlisted` for anything that could be free text."""
    text = value.lower() if isinstance(value, str) else ""
    return text if _CODE.match(text) and not _LONG_NUMBER.search(text) else "unlisted"


def json_object(body: bytes) -> Object | None:
    """The body as a JSON object; None if it is anything else."""
    try:
        value = parse(body)
    except NotJson:
        return None
    return value if isinstance(value, Mapping) else None


def child(value: Object, name: str) -> Object:
    """The object under `name`; empty if there is none."""
    found = value.get(name)
    return found if isinstance(found, Mapping) else {}


def children(value: Object, name: str) -> tuple[Object, ...]:
    """The objects of the list under `name`; empty if there is none."""
    found = value.get(name)
    return tuple(item for item in found if isinstance(item, Mapping)) if isinstance(found, list) else ()


def text(value: Object, name: str) -> str | None:
    """The text under `name`; None if absent, empty or not text."""
    found = value.get(name)
    return found if isinstance(found, str) and found else None


def excerpt(reply: Reply) -> str:
    """What kind of body it was: media type, size and one mark. Never its text, which may repeat names or an IBAN."""
    media = reply.media_type if re.fullmatch(r"[a-z0-9.+-]{1,40}/[a-z0-9.+-]{1,60}", reply.media_type) else "untyped"
    parts = (media, f"{len(reply.body)} bytes", _mark(reply.body), reply.defect)
    return ", ".join(part for part in parts if part)


def _mark(body: bytes) -> str:
    start = body[:4096].decode("utf-8", "replace")
    tag = _TAG.search(start)
    if tag is None:
        return "json" if json_object(body) is not None else ""
    title = _TITLE.search(start)
    phrase = title.group(1).lower() if title else ""
    return f"<{tag.group(1).lower()}>" + (f" {_PHRASES[phrase]} {phrase}" if phrase in _PHRASES else "")


def lost(failure: Lost) -> Answer:
    """No answer: not sent if that is proved, else in doubt."""
    if failure.sent:
        return Answer(Signal.UNKNOWN, failure.code, doubt=Doubt.NO_ANSWER)
    return Answer(Signal.NOT_SENT, failure.code)


def doubtful(reply: Reply, code: str = "") -> Answer:
    """UNKNOWN with the doubt that this status and body leave."""
    doubt = _doubt(reply)
    return Answer(
        Signal.UNKNOWN,
        f"{doubt}_{reply.defect}" if reply.defect else code or f"http_{reply.status}",
        doubt=doubt,
        http_status=reply.status,
        excerpt=excerpt(reply),
    )


def _doubt(reply: Reply) -> Doubt:
    if reply.status >= 500:
        return Doubt.SERVER_ERROR
    if reply.defect in ("cut", "timeout"):
        return Doubt.NO_ANSWER
    if reply.status >= 400:
        return Doubt.CLIENT_ERROR
    return Doubt.REDIRECT if reply.status >= 300 or reply.status < 200 else Doubt.UNREADABLE


def throttled(reply: Reply, now: datetime, code: str, *, refused: bool) -> Answer:
    """A rate limit or a lock, with the wait asked for."""
    return told_to_pause(reply, pause_asked(reply, now), code, refused=refused)


def told_to_pause(reply: Reply, pause: timedelta | None, code: str, *, refused: bool) -> Answer:
    """The same where the API says in its own words for how long."""
    return Answer(Signal.THROTTLED, code, retry_after=pause, refused=refused, http_status=reply.status)


def unauthenticated(reply: Reply) -> Answer:
    """401, refused before execution: our credential is at fault, not the intent, so the same bytes may go again."""
    mended = {Verdict.RENEWED: "token_renewed", Verdict.NOT_RENEWED: "token_not_renewed"}
    code = UNAUTHENTICATED if reply.verdict is None else mended.get(reply.verdict, UNAUTHENTICATED)
    return Answer(Signal.NOT_SENT, code, refused=True, http_status=reply.status)


def pause_asked(reply: Reply, now: datetime) -> timedelta | None:
    """What Retry-After asks for, as far as it is believed with this status; None where it says nothing of sense."""
    return retry_after(reply.header("retry-after"), now, MIGRATION_CAP if reply.status == MIGRATING else USUAL_CAP)


def accepted(reply: Reply, reference: str) -> Answer:
    """Documented success for this very operation."""
    return Answer(Signal.ACCEPTED, "accepted", reference=reference, http_status=reply.status)


def rejected(reply: Reply, code: str) -> Answer:
    """A documented answer that means not executed."""
    return Answer(Signal.REJECTED, code, http_status=reply.status)


def mismatch(reply: Reply, code: str) -> Answer:
    """Our key, other content: a defect of ours, or an API that ignores the body of a repeat."""
    return Answer(Signal.MISMATCH, code, http_status=reply.status)


def exists(reply: Reply, reference: str | None) -> Answer:
    """A unique value is taken, by the record named if the answer names one."""
    return Answer(Signal.EXISTS, "exists", reference=reference, http_status=reply.status)


def busy(reply: Reply, code: str) -> Answer:
    """Our key, or our record, is being worked on by an earlier request."""
    return Answer(Signal.BUSY, code, http_status=reply.status)
