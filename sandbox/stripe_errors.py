"""Stripe's error bodies. Source: docs.stripe.com/api/errors, /api/idempotent_requests and the official client."""

from __future__ import annotations

from sandbox.wire import Answer, Json, Refusal, json_answer


class StripeRefusal(Refusal):
    """A refused call, not stored under its idempotency key."""

    def __init__(self, status: int, message: str, *, retry: bool = False, **fields: str) -> None:
        super().__init__(error_answer(status, message, retry=retry, **fields))


def error_answer(status: int, message: str, *, retry: bool | None = None, **fields: str) -> Answer:
    """`fields` are `type` (invalid_request_error if absent), `code` and `param`."""
    error: Json = {"message": message, "type": "invalid_request_error", **fields}
    if "code" in fields:
        error["doc_url"] = f"https://stripe.com/docs/error-codes/{fields['code'].replace('_', '-')}"
    answer = json_answer({"error": error}, status)
    return answer if retry is None else answer.with_headers(("Stripe-Should-Retry", str(retry).lower()))


def invalid_key(given: str) -> StripeRefusal:
    if not given:
        text = "You did not provide an API key. You need to provide your API key in the Authorization header."
        return StripeRefusal(401, text)
    return StripeRefusal(401, f"Invalid API Key provided: {given[:7]}****{given[-4:]}")


def unknown_url(method: str, path: str) -> StripeRefusal:
    return StripeRefusal(404, f"Unrecognized request URL ({method}: {path}).")


def unknown_parameter(name: str) -> StripeRefusal:
    return StripeRefusal(400, f"Received unknown parameter: {name}", code="parameter_unknown", param=name)


def invalid_parameter(name: str, message: str, code: str = "parameter_invalid") -> StripeRefusal:
    return StripeRefusal(400, message, code=code, param=name)


def no_such_account(account_id: str) -> StripeRefusal:
    """Stripe answers 403, not 404: it does not tell a missing account from one of another platform."""
    text = (
        f"The provided key 'sk_test_***' does not have access to account '{account_id}' (or that account does not "
        "exist). Application access may have been revoked."
    )
    return StripeRefusal(403, text, code="account_invalid")


def other_parameters(key: str) -> StripeRefusal:
    text = (
        "Keys for idempotent requests can only be used with the same parameters they were first used with. Try using "
        f"a key other than '{key}' if you meant to execute a different request."
    )
    return StripeRefusal(400, text, type="idempotency_error")


def other_endpoint(key: str, endpoint: str) -> StripeRefusal:
    text = (
        f"Keys for idempotent requests can only be used for the same endpoint they were first used for ('{endpoint}'). "
        f"Try using a key other than '{key}' if you meant to execute a different request."
    )
    return StripeRefusal(400, text, type="idempotency_error")


def key_in_use(key: str) -> Answer:
    text = f"There is currently another in-progress request using this Idempotent Key: {key}"
    return error_answer(409, text, retry=True, code="idempotency_key_in_use")


def rate_limited() -> Answer:
    text = "Request rate limit exceeded. You can learn more about rate limits here https://stripe.com/docs/rate-limits."
    return error_answer(429, text, code="rate_limit").with_headers(("Stripe-Rate-Limited-Reason", "global-rate"))


def internal_error() -> Answer:
    return error_answer(500, "An unknown error occurred", type="api_error")
