"""Reads without effect: a JSON object, None for 404, or a typed error that carries codes only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from connectors.classify import MIGRATING, Object, json_object, wait_cap
from connectors.retry_after import retry_after
from connectors.transport import Lost, Reply, Request, Transport
from domain.errors import ReadFailed, Throttled

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

    def found(self, request: Request) -> Object | None:
        """The object, or None if the system says that there is none. Raises ReadFailed, or Throttled."""
        reply = self.transport.read(request, self.within)
        if isinstance(reply, Lost):
            raise self.failed(reply.code)
        return self.understood(reply)

    def required(self, request: Request) -> Object:
        """As `found`; absence too raises ReadFailed."""
        found = self.found(request)
        if found is None:
            raise self.failed("absent")
        return found

    def understood(self, reply: Reply) -> Object | None:
        """The object of an answer already received. Absence counts only if the API itself says so, in JSON."""
        value = None if reply.defect else json_object(reply.body)
        if reply.status in _THROTTLES:
            raise self._throttled(reply)
        if value is not None and self.absent(reply.status, value):
            return None
        if value is None or reply.status != 200:
            raise self.failed(reply.defect or _reason(reply))
        return value

    def failed(self, reason: str) -> ReadFailed:
        """The error to raise for a read that saw nothing."""
        return ReadFailed(f"{self.system} could not be read: {reason}", system=self.system, reason=reason)

    def _throttled(self, reply: Reply) -> Throttled:
        wait = retry_after(reply.header("retry-after"), datetime.now(UTC), wait_cap(reply.status))
        seconds = None if wait is None else wait.total_seconds()
        return Throttled(
            f"{self.system} refused a read for now", system=self.system, reason="throttled", retry_after=seconds
        )


def _reason(reply: Reply) -> str:
    return "unreadable" if reply.status == 200 else f"http_{reply.status}"
