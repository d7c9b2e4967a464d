"""The values that pass between the HTTP server and the pretended systems."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """One received request. Header names are lower case; the path is percent-decoded."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def header(self, name: str) -> str | None:
        return self.headers.get(name)

    def first(self, name: str) -> str | None:
        return next((value for key, value in self.query if key == name), None)

    def listed(self, name: str) -> tuple[str, ...]:
        """Values given as a comma list, as repeated parameters, or both."""
        given = (value.split(",") for key, value in self.query if key == name)
        return tuple(part.strip() for parts in given for part in parts if part.strip())

    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


@dataclass(frozen=True)
class Answer:
    """One complete answer."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()

    def with_headers(self, *headers: tuple[str, str]) -> Answer:
        return replace(self, headers=self.headers + headers)

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    def json(self) -> Any:  # noqa: ANN401 (any JSON)
        return json.loads(self.body)


class Refusal(Exception):
    """Ends a call with an answer and without effect: whatever it had written is rolled back."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


Handler = Callable[[Call, dict[str, str]], Answer]


@dataclass(frozen=True)
class Route:
    """A method and a path pattern such as `/v1/accounts/{id}`; names in braces match one path segment."""

    method: str
    pattern: str
    handler: Handler

    def arguments(self, call: Call) -> dict[str, str] | None:
        found = re.fullmatch(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", self.pattern), call.path)
        return found.groupdict() if found and call.method == self.method else None


def routed(routes: Iterable[Route], call: Call) -> Answer | None:
    """Answer of the first route that fits, None if none does."""
    for route in routes:
        arguments = route.arguments(call)
        if arguments is not None:
            return route.handler(call, arguments)
    return None


def json_answer(value: object, status: int = 200) -> Answer:
    # lone surrogates leave as question marks
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
    return Answer(status, body, (("content-type", "application/json;charset=utf-8"),))


def json_object(call: Call) -> Json | None:
    """The body as a JSON object, None if it is anything else."""
    try:
        value = json.loads(call.body)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
