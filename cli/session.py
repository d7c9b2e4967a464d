"""What a command works with: the parts of this environment, and the actor on whose behalf it acts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from pydantic import SecretStr
from sqlalchemy.exc import ArgumentError

from business_store.actors import Actor, authenticated
from business_store.database import Store
from composition import Parts
from domain.errors import InvalidInput, NotAuthenticated
from settings import SettingsError, load_settings

TOKEN = "COUNTERFOIL_TOKEN"
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", help=f"File with your API token, instead of {TOKEN}.", metavar="FILE")
]


@contextmanager
def session() -> Iterator[Parts]:
    """The parts of one command. Raises SettingsError."""
    parts = Parts(load_settings())
    with _named("COUNTERFOIL_DATABASE_URL"):
        _ = parts.store
    try:
        yield parts
    finally:
        parts.close()


@contextmanager
def store_of(setting: str, command: str) -> Iterator[Store]:
    """The store under another role than the application's. Raises SettingsError."""
    with _named(f"COUNTERFOIL_{setting.upper()}"):
        store = Store(role_url(setting, command), pool=1)
    try:
        yield store
    finally:
        store.close()


def role_url(setting: str, command: str) -> str:
    """From the environment alone where it is there, so that a job of its own needs no other setting.

    Raises SettingsError.
    """
    variable = f"COUNTERFOIL_{setting.upper()}"
    told = os.environ.get(variable)
    if told:
        return told
    secret: SecretStr | None = getattr(load_settings(), setting)
    if secret is None:
        raise SettingsError(f"{variable}: Field required by `{command}`")
    return secret.get_secret_value()


@contextmanager
def _named(variable: str) -> Iterator[None]:
    try:
        yield
    except (ArgumentError, ImportError):
        raise SettingsError(f"{variable}: must be like postgresql+psycopg://USER@HOST/DATABASE") from None


def acting(parts: Parts, token_file: Path | None) -> Actor:
    """Whoever the token belongs to. Raises NotAuthenticated."""
    secret = os.environ.get(TOKEN, "") if token_file is None else _read(token_file)
    if not secret.strip():
        raise NotAuthenticated(
            "nobody is acting: this command needs an API token",
            next_actions=[f"set {TOKEN}", "--token-file FILE", "counterfoil token issue ACTOR"],
        )
    if not secret.isascii():
        raise NotAuthenticated("that is no token: tokens are ASCII")
    with parts.store.reading() as connection:
        return authenticated(connection, secret.strip())


def _read(token_file: Path) -> str:
    try:
        return token_file.read_text(encoding="utf-8", errors="replace")
    except OSError as unreadable:
        raise InvalidInput("token-file", f"a file that can be read ({unreadable.strerror})") from None
