"""A Stripe connected account as our fields, and back. Pure.

Parameters: docs.stripe.com/api/accounts/create. `controller` instead of the deprecated `type=custom`: the platform
collects requirements and carries losses and fees, the partner has no Stripe dashboard, which is also what makes
`external_accounts` readable. The legal form goes into metadata, because `company[structure]` is a closed list that
differs by country.
"""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode

from connectors.classify import Object, child, children, text
from connectors.fields import Fields, present

_PLATFORM_RUNS_IT = (
    ("controller[fees][payer]", "application"),
    ("controller[losses][payments]", "application"),
    ("controller[requirement_collection]", "application"),
    ("controller[stripe_dashboard][type]", "none"),
)
_CURRENCIES = {
    "CH": "chf",
    "CZ": "czk",
    "DK": "dkk",
    "GB": "gbp",
    "HU": "huf",
    "LI": "chf",
    "NO": "nok",
    "PL": "pln",
    "RO": "ron",
    "SE": "sek",
}
"""Currency of an IBAN's country where it is not the euro."""


def rendered(key: str, fields: Fields) -> bytes:
    """The form body of POST /v1/accounts, in one order. Raises InvalidInput."""
    given = present(fields, "name", "country", "email")
    pairs = [
        ("business_type", "company"),
        ("capabilities[transfers][requested]", "true"),
        ("company[name]", given["name"]),
        *_PLATFORM_RUNS_IT,
        ("country", given["country"]),
        ("email", given["email"]),
        *_bank_account(given),
        ("metadata[operation_key]", key),
        *((f"metadata[{name}]", given[name]) for name in ("run_id", "legal_form") if name in given),
    ]
    return urlencode(pairs).encode("ascii")


def _bank_account(given: dict[str, str]) -> list[tuple[str, str]]:
    if "iban" not in given:
        return []
    iban = given["iban"].replace(" ", "").upper()
    holder = [("account_holder_name", given["bank_holder"])] if "bank_holder" in given else []
    pairs = [
        ("object", "bank_account"),
        *holder,
        ("account_holder_type", "company"),
        ("account_number", iban),
        ("country", iban[:2]),
        ("currency", _CURRENCIES.get(iban[:2], "eur")),
    ]
    return [(f"external_account[{name}]", value) for name, value in pairs]


def asked(content: bytes) -> dict[str, str]:
    """What a stored body asked for, by the names that `readable` uses."""
    form = dict(parse_qsl(content.decode("ascii")))
    number = form.get("external_account[account_number]")
    named = {
        "name": form.get("company[name]"),
        "country": form.get("country"),
        "email": form.get("email"),
        "bank_holder": form.get("external_account[account_holder_name]"),
        "iban_last4": number and number[-4:],
        "legal_form": form.get("metadata[legal_form]"),
        "run_id": form.get("metadata[run_id]"),
        "operation_key": form.get("metadata[operation_key]"),
    }
    return {name: value for name, value in named.items() if value}


def readable(account: Object) -> dict[str, str | None]:
    """The fields of an existing account. Of the IBAN Stripe gives back the last four characters only."""
    bank = next(iter(children(child(account, "external_accounts"), "data")), {})
    metadata = child(account, "metadata")
    return {
        "name": text(child(account, "company"), "name"),
        "country": text(account, "country"),
        "email": text(account, "email"),
        "bank_holder": text(bank, "account_holder_name"),
        "iban_last4": text(bank, "last4"),
        "legal_form": text(metadata, "legal_form"),
        "run_id": text(metadata, "run_id"),
        "operation_key": text(metadata, "operation_key"),
    }


def differences(content: bytes, account: Object) -> tuple[str, ...]:
    """Names of the fields that the account shows otherwise than the stored body asked; unshown ones do not count."""
    shown = readable(account)
    return tuple(name for name, value in asked(content).items() if not _alike(name, value, shown[name]))


def _alike(name: str, value: str, shown: str | None) -> bool:
    if shown is None:
        return name != "operation_key"
    folded = str.casefold if name in ("email", "country") else str
    return folded(" ".join(value.split())) == folded(" ".join(shown.split()))


def is_account(value: Object) -> bool:
    """Whether this is an account with an id."""
    return value.get("object") == "account" and (text(value, "id") or "").startswith("acct_")


def key_of(account: Object) -> str | None:
    """The operation key that the account carries."""
    return text(child(account, "metadata"), "operation_key")
