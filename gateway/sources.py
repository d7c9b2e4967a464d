"""Senders of inbound messages: how their bytes are judged, what they say, what is answered when they are not taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from fastapi import Response
from fastapi.responses import JSONResponse

from domain.canonical import NotJson
from domain.deliveries import ReceiptVerdict
from domain.errors import CounterfoilError

E = TypeVar("E")


@dataclass(frozen=True)
class Source(Generic[E]):
    """One kind of sender."""

    name: str
    judge: Callable[[Mapping[str, str], bytes], ReceiptVerdict]
    parse: Callable[[Mapping[str, str], bytes], Sequence[E]]


@dataclass(frozen=True)
class Judged(Generic[E]):
    """A body with what was made of it before anything is stored."""

    verdict: ReceiptVerdict
    elements: Sequence[E] = ()
    problem: CounterfoilError | None = None

    @property
    def refusal(self) -> Response | None:
        """What its sender is told when it is not taken in."""
        if self.problem is not None:
            status = 400 if isinstance(self.problem, NotJson) else self.problem.status
            return JSONResponse(self.problem.as_dict(), status)
        if self.verdict is ReceiptVerdict.GENUINE:
            return None
        return JSONResponse({"error": self.verdict, "message": "the signature or its time does not fit this body"}, 401)


def judged(source: Source[E], headers: Mapping[str, str], body: bytes) -> Judged[E]:
    """Nothing is interpreted unless the bytes are genuine."""
    verdict = source.judge(headers, body)
    if verdict is not ReceiptVerdict.GENUINE:
        return Judged(verdict)
    try:
        return Judged(verdict, source.parse(headers, body))
    except CounterfoilError as problem:
        return Judged(ReceiptVerdict.UNREADABLE, problem=problem)
