"""What the application asks of every pretended system."""

from __future__ import annotations

from abc import ABC, abstractmethod

from sandbox.wire import Answer, Call


class Pretended(ABC):
    """One pretended system. The defaults are those of a system without idempotency keys."""

    @abstractmethod
    def answer(self, call: Call) -> Answer:
        """The genuine answer. Raises Refusal."""

    def running_key(self, call: Call) -> str | None:
        """What may not run twice at once."""
        return None

    def restate(self, call: Call, answer: Answer) -> Answer:
        """The answer, kept under the call's key: the server failed after execution had begun."""
        return answer

    def dressed(self, call: Call, answer: Answer) -> Answer:
        """With the headers that every answer of the system's own has."""
        return answer
