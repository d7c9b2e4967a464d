"""The secrets of an embedded stack: made once, kept in `secrets.env`."""

import base64
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from stack.files import read_variables, write_variables
from stack.provision import Passwords


@dataclass(frozen=True)
class Secrets:
    postgres_password: str = field(repr=False)
    database_owner_password: str = field(repr=False)
    database_password: str = field(repr=False)
    database_retention_password: str = field(repr=False)
    hubspot_token: str = field(repr=False)
    hubspot_client_secret: str = field(repr=False)
    stripe_secret_key: str = field(repr=False)
    standard_webhooks_secret: str = field(repr=False)

    @property
    def passwords(self) -> Passwords:
        return Passwords(self.database_owner_password, self.database_password, self.database_retention_password)


def kept_secrets(path: Path) -> Secrets:
    """Reads the file, makes what it lacks, and writes it back only then."""
    known = {name.lower(): value for name, value in read_variables(path).items()}
    secrets_ = Secrets(**{each.name: known.get(each.name) or _made(each.name) for each in fields(Secrets)})
    if asdict(secrets_) != known:
        write_variables(path, {name.upper(): value for name, value in asdict(secrets_).items()})
    return secrets_


def _made(name: str) -> str:
    return _SHAPES.get(name, _plain)()


def _plain() -> str:
    return secrets.token_urlsafe(24)


def _standard_webhooks() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(24)).decode()


# As the real services write theirs, so that a log scanner or a person recognises them.
_SHAPES: dict[str, Callable[[], str]] = {
    "hubspot_token": lambda: "pat-sandbox-" + secrets.token_hex(16),
    "stripe_secret_key": lambda: "sk_test_" + secrets.token_hex(16),
    "standard_webhooks_secret": _standard_webhooks,
}
