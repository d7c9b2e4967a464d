"""Stripe's connected accounts. Bank account numbers are never kept: only the last four digits and a fingerprint."""

from __future__ import annotations

import hashlib
import json
import secrets
import string
import time

from sandbox.records import Records, Row
from sandbox.stripe_errors import invalid_parameter, no_such_account
from sandbox.stripe_parameters import HASHES, LIST, check_account, check_known
from sandbox.wire import Json

_SIGNS = string.ascii_letters + string.digits
_PLAIN = ("business_type", "country", "default_currency", "email")
_MOST = 100
_COMPARISONS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_CURRENCIES = {"GB": "gbp", "CH": "chf", "US": "usd", "PL": "pln", "SE": "sek", "DK": "dkk", "NO": "nok", "CZ": "czk"}


def fresh_id(prefix: str) -> str:
    return f"{prefix}_1S" + "".join(secrets.choice(_SIGNS) for _ in range(14))


class Accounts:
    """Every method expects an open transaction."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def create(self, given: Json) -> Json:
        """Raises Stripe's 400 before anything is written."""
        check_account(given)
        account_id, created = fresh_id("acct"), int(time.time())
        account = _updated(_blank(account_id, created, str(given.get("country", "DE"))), given)
        account["type"] = given.get("type", "none" if "controller" in given else "standard")
        self._records.write(
            "insert into accounts (id, created, body) values (?, ?, ?)", account_id, created, json.dumps(account)
        )
        return account

    def find(self, account_id: str) -> Json:
        """Raises Stripe's 403 for unknown and deleted accounts."""
        row = self._records.row("select body from accounts where id = ? and deleted = 0", account_id)
        if row is None:
            raise no_such_account(account_id)
        account: Json = json.loads(row["body"])
        return account

    def update(self, account_id: str, given: Json) -> Json:
        found = self.find(account_id)
        check_account(given)
        if given.get("country", found["country"]) != found["country"] or "type" in given:
            raise invalid_parameter("country", "The country and the type of an account cannot be changed")
        account = _updated(found, given)
        self._records.write("update accounts set body = ? where id = ?", json.dumps(account), account_id)
        return account

    def delete(self, account_id: str) -> Json:
        self.find(account_id)
        self._records.write("update accounts set deleted = 1 where id = ?", account_id)
        return {"id": account_id, "object": "account", "deleted": True}

    def page(self, given: Json) -> Json:
        """Newest first. Raises Stripe's 400 for unknown filters, bad limits and unknown cursors."""
        check_known(given, LIST)
        limit = _limit(given)
        conditions, values = _created(given.get("created", {}))
        backwards = "ending_before" in given
        for name, sign in (("starting_after", "<"), ("ending_before", ">")):
            if name in given:
                conditions.append(f"seq {sign} ?")
                values.append(self._position(name, given[name]))
        rows = self._records.rows(
            f"select body from accounts where {' and '.join(['deleted = 0', *conditions])} "
            f"order by seq {'asc' if backwards else 'desc'} limit {limit + 1}",
            *values,
        )
        return _listed(rows, limit, backwards=backwards)

    def _position(self, name: str, account_id: object) -> int:
        row = self._records.row("select seq from accounts where id = ?", str(account_id))
        if row is None:
            raise invalid_parameter(name, f"No such account: '{account_id}'", "resource_missing")
        return int(row["seq"])


def _limit(given: Json) -> int:
    text = str(given.get("limit", 10))
    if not text.isdigit() or not 1 <= int(text) <= _MOST:
        raise invalid_parameter("limit", f"Invalid limit: must be between 1 and {_MOST}", "parameter_invalid_integer")
    return int(text)


def _created(given: object) -> tuple[list[str], list[int]]:
    """`created=T` or `created[gte]=T` and so on, as conditions and their values."""
    bounds = given if isinstance(given, dict) else {"": given}
    conditions, values = [], []
    for name, moment in bounds.items():
        if name not in {*_COMPARISONS, ""} or not str(moment).isdigit():
            raise invalid_parameter(
                f"created[{name}]", f"Invalid created filter: {moment}", "parameter_invalid_integer"
            )
        conditions.append(f"created {_COMPARISONS.get(name, '=')} ?")
        values.append(int(str(moment)))
    return conditions, values


def _listed(rows: list[Row], limit: int, *, backwards: bool) -> Json:
    shown = [json.loads(row["body"]) for row in rows[:limit]]
    data = shown[::-1] if backwards else shown
    return {"object": "list", "data": data, "has_more": len(rows) > limit, "url": "/v1/accounts"}


def _blank(account_id: str, created: int, country: str) -> Json:
    return {
        "id": account_id,
        "object": "account",
        "business_profile": {"mcc": None, "name": None, "product_description": None, "url": None},
        "business_type": None,
        "capabilities": {},
        "charges_enabled": False,
        "country": country,
        "created": created,
        "default_currency": _currency(country),
        "details_submitted": False,
        "email": None,
        "external_accounts": _bank_accounts(account_id, []),
        "future_requirements": _requirements(None),
        "metadata": {},
        "payouts_enabled": False,
        "requirements": _requirements("requirements.past_due"),
        "settings": {
            "branding": {},
            "payments": {"statement_descriptor": None},
            "payouts": {"debit_negative_balances": True},
        },
        "tos_acceptance": {"date": None, "ip": None, "user_agent": None},
    }


def _requirements(disabled: str | None) -> Json:
    lists = ("alternatives", "currently_due", "errors", "eventually_due", "past_due", "pending_verification")
    return {**{name: [] for name in lists}, "current_deadline": None, "disabled_reason": disabled}


def _currency(country: str) -> str:
    return _CURRENCIES.get(country, "eur")


def _updated(account: Json, given: Json) -> Json:
    account = {**account, **{name: given[name] for name in _PLAIN if name in given}}
    for name in HASHES:
        if name in given:
            account[name] = _merged(account.get(name) or {}, given[name])
    if "metadata" in given:
        account["metadata"] = _metadata(account["metadata"], given["metadata"])
    if "external_account" in given:
        bank = _bank_account(account["id"], given["external_account"])
        account["external_accounts"] = _bank_accounts(account["id"], [bank])
    if "capabilities" in given:
        account["capabilities"] = dict.fromkeys(account["capabilities"], "inactive")
    return account


def _merged(old: Json, new: Json) -> Json:
    """Nested hashes are merged, as an update of Stripe's does."""
    return {
        **old,
        **{
            key: _merged(old[key], value) if isinstance(value, dict) and isinstance(old.get(key), dict) else value
            for key, value in new.items()
        },
    }


def _metadata(old: Json, new: Json | str) -> Json:
    """An empty value removes its key, an empty metadata all of them."""
    changes = new if isinstance(new, dict) else dict.fromkeys(old, "")
    return {key: value for key, value in {**old, **changes}.items() if value != ""}


def _bank_accounts(account_id: str, data: list[Json]) -> Json:
    url = f"/v1/accounts/{account_id}/external_accounts"
    return {"object": "list", "data": data, "has_more": False, "total_count": len(data), "url": url}


def _bank_account(account_id: str, given: Json | str) -> Json:
    fields = given if isinstance(given, dict) else {"country": "DE", "account_number": given}
    number = str(fields["account_number"]).replace(" ", "").upper()
    return {
        "id": fresh_id("ba"),
        "object": "bank_account",
        "account": account_id,
        "account_holder_name": fields.get("account_holder_name"),
        "account_holder_type": fields.get("account_holder_type"),
        "account_type": None,
        "available_payout_methods": ["standard"],
        "bank_name": "STRIPE TEST BANK",
        "country": fields["country"],
        "currency": str(fields.get("currency") or _currency(fields["country"])).lower(),
        "default_for_currency": True,
        "fingerprint": hashlib.sha256(f"sandbox:{number}".encode()).hexdigest()[:16],
        "future_requirements": None,
        "last4": number[-4:],
        "metadata": {},
        "requirements": None,
        "routing_number": fields.get("routing_number"),
        "status": "new",
    }
