"""Checks of the parameters of Stripe's account requests."""

from __future__ import annotations

import re

from sandbox.stripe_errors import invalid_parameter, unknown_parameter
from sandbox.wire import Json

ACCOUNT = frozenset(
    [
        "account_token",
        "business_profile",
        "business_type",
        "capabilities",
        "company",
        "controller",
        "country",
        "default_currency",
        "documents",
        "email",
        "expand",
        "external_account",
        "groups",
        "individual",
        "metadata",
        "settings",
        "tos_acceptance",
        "type",
    ]
)
LIST = frozenset({"created", "ending_before", "expand", "limit", "starting_after"})
BANK_ACCOUNT = frozenset(
    ["object", "account_holder_name", "account_holder_type", "account_number", "country", "currency", "routing_number"]
)
HASHES = ("business_profile", "capabilities", "company", "controller", "individual", "settings", "tos_acceptance")
TYPES = ("custom", "express", "standard")
BUSINESS_TYPES = ("company", "government_entity", "individual", "non_profit")
_EMAIL = re.compile(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)+")


def check_known(given: Json, known: frozenset[str], prefix: str = "") -> None:
    for name in given:
        if name not in known:
            raise unknown_parameter(f"{prefix}[{name}]" if prefix else name)


def check_account(given: Json) -> None:
    """Raises Stripe's 400."""
    check_known(given, ACCOUNT)
    for name in HASHES:
        if not isinstance(given.get(name, {}), dict):
            raise invalid_parameter(name, "Invalid hash", "parameter_invalid_empty")
    _check_choice(given, "type", TYPES)
    _check_choice(given, "business_type", BUSINESS_TYPES)
    _check_country(given.get("country", "DE"), "country")
    if "email" in given and not _EMAIL.fullmatch(str(given["email"])):
        raise invalid_parameter("email", f"Invalid email address: {given['email']}", "email_invalid")
    _check_metadata(given.get("metadata", {}))
    if "external_account" in given:
        _check_bank_account(given["external_account"])


def _check_choice(given: Json, name: str, allowed: tuple[str, ...]) -> None:
    if name in given and given[name] not in allowed:
        raise invalid_parameter(name, f"Invalid {name}: must be one of {', '.join(allowed)}")


def _check_country(value: object, name: str) -> None:
    if not re.fullmatch("[A-Z]{2}", str(value)):
        raise invalid_parameter(name, f"Country '{value}' is unknown.", "country_unsupported")


def _check_metadata(metadata: object) -> None:
    if metadata == "":
        return
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise invalid_parameter("metadata", "Invalid metadata: must be a hash of text values")
    if len(metadata) > 50:
        raise invalid_parameter("metadata", "Metadata can have up to 50 keys")
    if any(len(key) > 40 or len(value) > 500 for key, value in metadata.items()):
        raise invalid_parameter("metadata", "Metadata keys have up to 40, values up to 500 characters")


def _check_bank_account(given: object) -> None:
    if isinstance(given, str) and given.startswith("btok_"):
        return
    if not isinstance(given, dict) or given.get("object") != "bank_account":
        raise invalid_parameter("external_account", "Invalid external_account: object must be bank_account")
    check_known(given, BANK_ACCOUNT, "external_account")
    for name in ("country", "account_number"):
        if not given.get(name):
            text = f"Missing required param: external_account[{name}]."
            raise invalid_parameter(f"external_account[{name}]", text, "parameter_missing")
    _check_country(given["country"], "external_account[country]")
    if given["account_number"][:2].isalpha() and not valid_iban(given["account_number"]):
        name = "external_account[account_number]"
        raise invalid_parameter(name, "The IBAN you provided is invalid.", "account_number_invalid")


def valid_iban(text: str) -> bool:
    """ISO 13616: the number modulo 97 is 1."""
    compact = text.replace(" ", "").upper()
    if not re.fullmatch("[A-Z]{2}[0-9]{2}[A-Z0-9]{8,30}", compact):
        return False
    return int("".join(str(int(sign, 36)) for sign in compact[4:] + compact[:4])) % 97 == 1
