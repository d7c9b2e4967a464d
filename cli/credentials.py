"""Credentials of outside systems: which are renewed by program, which are refused, and that one is good again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from business_store.credentials import credentials
from business_store.credentials import renew as store_renew
from cli.answering import Answer, command
from cli.session import session
from cli.text import table
from domain.errors import InvalidInput

credential_app = typer.Typer(help="Credentials of outside systems; tokens are never shown.", no_args_is_help=True)
COLUMNS = ("system", "scope", "renewable", "renewals", "renewed_at", "expires_at", "held", "held_at")


def register(app: typer.Typer) -> None:
    """`credential …`."""
    app.add_typer(credential_app, name="credential")


@command(credential_app, "list")
def list_() -> Answer:
    """Every account whose tokens are kept, and every one that is held because its credential is refused."""
    with session() as parts:
        found = parts.store.read(credentials)
    rows = [tuple("" if row[name] is None else str(row[name]) for name in COLUMNS) for row in found]
    shown = [{name: row[name] if isinstance(row[name], bool | int) else text_of(row[name]) for name in COLUMNS}
             for row in found]  # fmt: skip
    return Answer(shown, table(tuple(name.upper() for name in COLUMNS), rows))


def text_of(value: object) -> str | None:
    """A value of the listing as JSON knows it."""
    return None if value is None else str(value)


@command(credential_app)
def renew(
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="Such as hubspot.")],
    refresh_token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with a new OAuth refresh token; - reads standard input.")
    ] = None,
) -> Answer:
    """Say that a credential is good again: what waits for it goes on, one run after the other.

    With a file, its OAuth refresh token is stored first. Without one, the setting was changed, or the cause is mended.
    """
    token = None if refresh_token_file is None else _read(refresh_token_file)
    with session() as parts:
        released = parts.store.once(lambda connection: store_renew(connection, system, token))
    lines = [f"released: {system} {scope}" for scope in released] or [f"nothing of {system} was held"]
    return Answer({"system": system, "released": released, "replaced": token is not None}, lines)


def _read(file: Path) -> str:
    try:
        words = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise InvalidInput("refresh-token-file", "a file of text that can be read") from None
    token = words.strip()
    if not token or not token.isascii() or not token.isprintable():
        raise InvalidInput("refresh-token-file", "one token of printable ASCII")
    return token
