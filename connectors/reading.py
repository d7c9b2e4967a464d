"""Reads without effect: a JSON object, None for 404, or a typed error that carries codes only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from connectors.classify import MIGRATING, Object, children, json_object, pause_asked
from connectors.transport import Lost, Reply, Request, Transport
from domain.credentials import UNAUTHENTICATED, Verdict
from domain.errors import CredentialRefused, ReadFailed, Throttled
from domain.signals import Finding, Found

MAX_PAGES = 200
"""Of a hundred records: more than were made between a send and its look-up."""
ALL_PAGES = 10**9

_THROTTLES = (423, 429, MIGRATING)


def gone(status: int, value: Object) -> bool:
    """Absence as most APIs say it."""
    return status == 404


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads from one system; each read ends `within` the total timeout."""

    system: str
    transport: Transport
    within: timedelta
    absent: Callable[[int, Object], bool] = gone
    pause_of: Callable[[Reply, datetime], timedelta | None] = pause_asked
    """How long everybody is to wait after a refusal with this status; None where it does not say."""

    def found(self, request: Request) -> Object | None:
        """The object, or None if the system says that there is none. Raises ReadFailed, or Throttled."""
        return self.understood(self.transport.read(request, self.within))

    def required(self, request: Request) -> Object:
        """As `found`; absence too raises ReadFailed."""
        found = self.found(request)
        if found is None:
            raise self.failed("absent")
        return found

    def understood(self, reply: Reply | Lost) -> Object | None:
        """The object of an answer already received. Absence counts only if the API itself says so, in JSON."""
        if isinstance(reply, Lost):
            raise self.failed(reply.code) if reply.code != UNAUTHENTICATED else self._unauthenticated()
        value = None if reply.defect else json_object(reply.body)
        if reply.status in _THROTTLES:
            raise self._throttled(reply)
        if value is not None and self.absent(reply.status, value):
            return None
        if value is not None and reply.status == 401 and reply.verdict is Verdict.REFUSED:
            raise self._unauthenticated()
        if value is None or reply.status != 200:
            raise self.failed(reply.defect or _reason(reply))
        return value

    def failed(self, reason: str) -> ReadFailed:
        """The error to raise for a read that saw nothing."""
        return ReadFailed(f"{self.system} could not be read: {reason}", system=self.system, reason=reason)

    def _unauthenticated(self) -> CredentialRefused:
        return CredentialRefused(
            f"{self.system} refuses our credential",
            system=self.system,
            reason="http_401",
            next_actions=[f"counterfoil credential renew {self.system}"],
        )

    def _throttled(self, reply: Reply) -> Throttled:
        wait = self.pause_of(reply, datetime.now(UTC))
        seconds = None if wait is None else wait.total_seconds()
        return Throttled(
            f"{self.system} refused a read for now", system=self.system, reason="throttled", retry_after=seconds
        )


def unseen(failure: ReadFailed) -> Finding:
    """A look-up that saw nothing at all, with what it means to every other request to the same account."""
    seconds = failure.fields.get("retry_after")
    pause = timedelta(seconds=float(seconds)) if isinstance(seconds, int | float) else None
    refused = isinstance(failure, CredentialRefused)
    return Finding(Found.FAILED, UNAUTHENTICATED if refused else str(failure.fields["reason"]), retry_after=pause)


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list, and the cursor of the next one; None after the last."""

    records: tuple[Object, ...]
    after: str | None


def every_page(
    reader: Reader,
    request: Callable[[str | None], Request],
    read: Callable[[Object], Page],
    most: int = MAX_PAGES,
) -> Iterator[Object]:
    """The records of all pages. Raises ReadFailed if any page cannot be read: part of a list proves no absence."""
    after: str | None = None
    for _ in range(most):
        page = read(reader.required(request(after)))
        yield from page.records
        if page.after is None:
            return
        if page.after == after:
            raise reader.failed("repeated_page")
        after = page.after
    raise reader.failed("too_many_pages")


def page_by_id(reader: Reader, value: Object, whole: Callable[[Object], bool]) -> Page:
    """`{object: list, data, has_more}`, whose cursor is the id of its last record. Raises ReadFailed."""
    records = children(value, "data")
    complete = value.get("object") == "list" and isinstance(value.get("has_more"), bool)
    if not complete or not all(map(whole, records)) or (value["has_more"] and not records):
        raise reader.failed("unreadable_list")
    return Page(records, str(records[-1]["id"]) if value["has_more"] else None)


def _reason(reply: Reply) -> str:
    return "unreadable" if reply.status == 200 else f"http_{reply.status}"
