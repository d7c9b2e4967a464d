"""The part of Stripe's v1 HTTP API that Counterfoil uses."""

from __future__ import annotations

import base64
import binascii
import hmac

from sandbox.idempotency import IdempotencyKeys
from sandbox.pretended import Pretended
from sandbox.records import Records
from sandbox.settings import Settings
from sandbox.stripe_accounts import Accounts, fresh_id
from sandbox.stripe_errors import invalid_key, unknown_url
from sandbox.stripe_events import AccountEvents
from sandbox.stripe_forms import decoded, nested
from sandbox.wire import Answer, Call, Json, Route, json_answer, routed

API_VERSION = "2026-10-28.endive"
OWN_ACCOUNT = "acct_1SandboxPlatform"


def key_of(call: Call) -> str | None:
    """The idempotency key, which Stripe heeds on POST only."""
    return call.header("idempotency-key") if call.method == "POST" else None


class StripeApi(Pretended):
    """Answers calls; each runs in one transaction of the caller."""

    def __init__(self, records: Records, settings: Settings, keys: IdempotencyKeys, events: AccountEvents) -> None:
        self._settings = settings
        self._events = events
        self._keys = keys
        self._accounts = Accounts(records)
        self._routes = [
            Route("GET", "/v1/account", self._own),
            Route("POST", "/v1/accounts", self._create),
            Route("GET", "/v1/accounts", self._list),
            Route("GET", "/v1/accounts/{id}", self._read),
            Route("POST", "/v1/accounts/{id}", self._update),
            Route("DELETE", "/v1/accounts/{id}", self._delete),
        ]

    def answer(self, call: Call) -> Answer:
        """Raises Stripe's refusals, which no idempotency key stores."""
        self._authorize(call)
        key = key_of(call)
        if key is None:
            return self._executed(call)
        parameters = decoded(call.body)
        replayed = self._keys.stored(key, call.path, parameters)
        if replayed is not None:
            return replayed
        answer = self._executed(call)
        self._keys.store(key, call.path, parameters, answer)
        return answer.with_headers(("Idempotency-Key", key))

    def running_key(self, call: Call) -> str | None:
        return key_of(call)

    def restate(self, call: Call, answer: Answer) -> Answer:
        key = key_of(call)
        if key is not None:
            self._keys.store(key, call.path, decoded(call.body), answer)
        return answer

    def dressed(self, call: Call, answer: Answer) -> Answer:
        """Pages of a proxy in front of Stripe have none of its headers."""
        if answer.header("request-id") or not (answer.header("content-type") or "").startswith("application/json"):
            return answer
        key = key_of(call)
        echo = () if key is None or answer.header("idempotency-key") else (("Idempotency-Key", key),)
        version = call.header("stripe-version") or API_VERSION
        return answer.with_headers(("Request-Id", fresh_id("req")), ("Stripe-Version", version), *echo)

    def _authorize(self, call: Call) -> None:
        given = _secret_key(call.header("authorization") or "")
        if not hmac.compare_digest(given.encode(), self._settings.stripe_key.encode()):
            raise invalid_key(given)

    def _executed(self, call: Call) -> Answer:
        answer = routed(self._routes, call)
        if answer is None:
            raise unknown_url(call.method, call.path)
        return answer

    def _create(self, call: Call, args: dict[str, str]) -> Answer:
        return self._told(call, self._accounts.create(decoded(call.body)))

    def _read(self, call: Call, args: dict[str, str]) -> Answer:
        return json_answer(self._accounts.find(args["id"]))

    def _update(self, call: Call, args: dict[str, str]) -> Answer:
        return self._told(call, self._accounts.update(args["id"], decoded(call.body)))

    def _told(self, call: Call, account: Json) -> Answer:
        self._events.updated(account, key_of(call))
        return json_answer(account)

    def _delete(self, call: Call, args: dict[str, str]) -> Answer:
        return json_answer(self._accounts.delete(args["id"]))

    def _list(self, call: Call, args: dict[str, str]) -> Answer:
        return json_answer(self._accounts.page(nested(call.query)))

    def _own(self, call: Call, args: dict[str, str]) -> Answer:
        own = {"id": OWN_ACCOUNT, "object": "account", "country": "DE", "type": "standard", "email": "own@example.test"}
        return json_answer({**own, "charges_enabled": True, "payouts_enabled": True, "details_submitted": True})


def _secret_key(authorization: str) -> str:
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() != "basic":
        return value
    try:
        return base64.b64decode(value).decode().partition(":")[0]
    except (binascii.Error, UnicodeDecodeError):
        return ""
