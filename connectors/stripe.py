"""Stripe: connected accounts under an idempotency key, found again by our key in their metadata."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from connectors.classify import Object, child, text
from connectors.fields import Fields, fitting
from connectors.reading import ALL_PAGES, MAX_PAGES, Reader, every_page, page_by_id, unseen
from connectors.stripe_account import differences, is_account, key_of, readable, rendered
from connectors.stripe_answers import classified
from connectors.stripe_contracts import KEY_HEADER, StripeTimes, of_accounts
from connectors.stripe_limits import pause_of
from connectors.transport import Request, Transport, segment
from domain.contracts import Contract
from domain.errors import InvalidInput, ReadFailed
from domain.ports import Carrier, Send, Sought
from domain.signals import Answer, Finding, Found

CREATE_ACCOUNT = "create_account"
API_VERSION = "2026-10-28.endive"
CLOCK_SKEW = timedelta(minutes=5)
PAGE = 100


def absent(status: int, value: Object) -> bool:
    """Stripe says 403 account_invalid for an account that does not exist or is not ours."""
    return status == 404 or (status == 403 and text(child(value, "error"), "code") == "account_invalid")


class Stripe:
    """One platform account. `secret_key` is sent to `base_url` and nowhere else."""

    system = "stripe"
    scope = ""

    def __init__(self, base_url: str, secret_key: str, times: StripeTimes | None = None) -> None:
        self._times = times or StripeTimes()
        self._transport = Transport(base_url, secret_key, {"Stripe-Version": API_VERSION})
        self._reader = Reader(self.system, self._transport, self._times.read_within, absent, pause_of)

    def close(self) -> None:
        self._transport.close()

    def credential_mark(self) -> str:
        return self._transport.credential_mark()

    def contracts(self, operation: str) -> tuple[Contract, ...]:
        """C1, then C3: see connectors.stripe_contracts."""
        _known(operation)
        return of_accounts(self._times)

    def render(self, operation: str, key: str, fields: Fields) -> bytes:
        """Fields: name, country, email; optional legal_form, bank_holder, iban, run_id. Raises InvalidInput."""
        _known(operation)
        return rendered(fitting(key, self.contracts(operation)), fields)

    def send(self, request: Send) -> Answer:
        """One POST /v1/accounts under the key."""
        headers = {KEY_HEADER: request.key, "Content-Type": "application/x-www-form-urlencoded"}
        post = Request("POST", "/v1/accounts", body=request.content, headers=headers)
        return classified(self._transport.write(post, request.within), request.content, datetime.now(UTC))

    def probe(self, sought: Sought) -> Finding:
        """The named account, else every account created since shortly before the first send, compared by our key."""
        try:
            return self._named(sought) or self._listed(sought)
        except ReadFailed as failure:
            return unseen(failure)

    def read_back(self, operation: str, reference: str) -> Mapping[str, str | None]:
        """The fields as `render` takes them, plus `operation_key`, and `iban_last4` for the IBAN. Raises ReadFailed."""
        _known(operation)
        account = self._read(reference)
        if account is None:
            raise self._reader.failed("absent")
        return readable(account)

    def carriers(self, operation: str, since: datetime) -> Iterator[Carrier]:
        """Connected accounts with `operation_key` in their metadata. Raises ReadFailed."""
        _known(operation)
        keyed = ((str(account["id"]), key_of(account)) for account in self._accounts(since, ALL_PAGES))
        return (Carrier(reference, key) for reference, key in keyed if key)

    def check(self) -> Sequence[str]:
        """Whose key this is. Raises ReadFailed."""
        account = self._reader.required(Request("GET", "/v1/account"))
        return (f"stripe: key of {text(account, 'id') or 'an account without id'}, API version {API_VERSION}",)

    def _named(self, sought: Sought) -> Finding | None:
        if sought.reference is None:
            return None
        account = self._read(sought.reference)
        return None if account is None else _compared(account, sought)

    def _read(self, reference: str) -> Object | None:
        account = self._reader.found(Request("GET", f"/v1/accounts/{segment(reference)}"))
        if account is not None and not is_account(account):
            raise self._reader.failed("unreadable_account")
        return account

    def _listed(self, sought: Sought) -> Finding:
        accounts = self._accounts(sought.since - CLOCK_SKEW)
        ours = {account["id"]: account for account in accounts if key_of(account) == sought.key}
        if len(ours) > 1:
            return Finding(Found.MANY, "several_accounts")
        return _compared(ours.popitem()[1], sought) if ours else Finding(Found.NONE, "absent")

    def _accounts(self, since: datetime, most: int = MAX_PAGES) -> Iterator[Object]:
        """Raises ReadFailed if any page of the list cannot be read."""
        wanted = (("limit", str(PAGE)), ("created[gte]", str(int(since.timestamp()))))

        def request(after: str | None) -> Request:
            return Request("GET", "/v1/accounts", (*wanted, *((("starting_after", after),) if after else ())))

        return every_page(self._reader, request, lambda page: page_by_id(self._reader, page, is_account), most)


def _compared(account: Object, sought: Sought) -> Finding:
    """ONE only with our key and our content."""
    reference = text(account, "id")
    if key_of(account) != sought.key:
        return Finding(Found.FOREIGN, "other_key", reference)
    differing = differences(sought.content, account)
    if differing:
        return Finding(Found.FOREIGN, f"other_{differing[0]}", reference)
    return Finding(Found.ONE, "found", reference)


def _known(operation: str) -> None:
    if operation != CREATE_ACCOUNT:
        raise InvalidInput("operation", CREATE_ACCOUNT)
