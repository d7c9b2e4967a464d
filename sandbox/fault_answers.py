"""How each pretended system says that something went wrong; what a fault makes of a genuine answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sandbox import hubspot_errors, practice_errors, stripe_errors
from sandbox.wire import Answer, json_answer

Params = Mapping[str, Any]


@dataclass(frozen=True)
class Speech:
    """One system's error answers, the id of a record that is not there, and where its records carry our key."""

    internal_error: Callable[[], Answer]
    unavailable: Callable[[], Answer]
    throttled: Callable[[Params], Answer]
    busy: Callable[[Params], Answer]
    foreign_id: str
    key_in: str | None
    key_name: str = "operation_key"

    def foreign(self, record: dict[str, Any], params: Params) -> dict[str, Any]:
        """The record as if it were another partner's."""
        key = {self.key_name: params.get("operation_key", "op-of-another-partner")}
        named = {**record, "id": params.get("id", self.foreign_id)}
        return (
            {**named, **key} if self.key_in is None else {**named, self.key_in: {**record.get(self.key_in, {}), **key}}
        )


def _hubspot(status: int, category: str, message: str) -> Answer:
    return json_answer(hubspot_errors.error_body(category, message), status)


SPEECH: Mapping[str, Speech] = {
    "stripe": Speech(
        stripe_errors.internal_error,
        lambda: stripe_errors.error_answer(503, "Service temporarily unavailable", type="api_error"),
        lambda params: stripe_errors.rate_limited(),
        lambda params: stripe_errors.key_in_use(str(params.get("key", ""))),
        "acct_1SanotherPartner",
        "metadata",
    ),
    "hubspot": Speech(
        lambda: _hubspot(500, "INTERNAL_ERROR", "internal error"),
        lambda: _hubspot(503, "SERVICE_UNAVAILABLE", "service unavailable"),
        lambda params: hubspot_errors.rate_limited(str(params.get("policy", "TEN_SECONDLY_ROLLING"))),
        lambda params: _hubspot(409, "CONFLICT", "The record is being changed by another request"),
        "30100999999",
        "properties",
    ),
    "practice": Speech(
        lambda: practice_errors.error_answer(500, "internal_error"),
        lambda: practice_errors.error_answer(503, "unavailable"),
        lambda params: practice_errors.error_answer(429, "rate_limited"),
        lambda params: practice_errors.in_progress(),
        "pa_00000000another",
        None,
        "reference",
    ),
}
