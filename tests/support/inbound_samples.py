"""Bodies as the senders make them, and elements to bend."""

import json
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parents[1] / "fixtures" / "inbound"
APP_ID = "7700123"
ODD_BODIES: dict[bytes, int] = {
    b"": 400,
    b"   ": 400,
    b"null": 202,
    b"[]": 202,
    b"7": 202,
    b'"x"': 202,
    b"{}": 202,
    b"[[]]": 202,
    b'{"a":NaN}': 400,
    b'[{"a":Infinity}]': 400,
    b'{"a":1,"a":2}': 400,
    b'[{"eventId":': 400,
    b"\xef\xbb\xbf[]": 202,
    b"\xff\xfe": 400,
    b"[" * 5000 + b"]" * 5000: 400,
}
"""Bodies that are no events, genuinely signed, with the status that every door for events answers."""


def fixture_bytes(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


def vectors() -> dict[str, dict[str, str]]:
    """Known answers: bodies, secrets and the signatures that belong to them."""
    loaded: dict[str, dict[str, str]] = json.loads(fixture_bytes("signature_vectors.json"))
    return loaded


def hubspot_element(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 (any JSON value, right or wrong)
    """A good property change, with these fields replaced."""
    good: dict[str, Any] = json.loads(fixture_bytes("hubspot_batch.json"))[0]
    return {**good, **changes}


def batch(*elements: Any) -> bytes:  # noqa: ANN401
    return json.dumps(elements).encode()


def partner_request(**changes: Any) -> dict[str, Any]:  # noqa: ANN401
    """A good submitted request, with these fields of its `data` replaced."""
    good: dict[str, Any] = json.loads(fixture_bytes("partner_request_submitted.json"))
    return {**good, "data": {**good["data"], **changes}}


def stripe_event(**changes: Any) -> dict[str, Any]:  # noqa: ANN401
    """A good event about an account, with these of its own fields or of its account's replaced."""
    good: dict[str, Any] = json.loads(fixture_bytes("stripe_account_updated.json"))
    own = {name: value for name, value in changes.items() if name in good}
    account = {**good["data"]["object"], **{name: value for name, value in changes.items() if name not in good}}
    return {**good, "data": {"object": account}, **own}
