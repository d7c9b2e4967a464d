"""The store itself: migrations and the audit of its invariants."""

from __future__ import annotations

import os
from dataclasses import asdict

import typer

from business_store.audit import CHECKS, audit
from cli.answering import Answer, command
from cli.session import session
from cli.text import table
from settings import SettingsError, load_settings

OWNER_URL = "COUNTERFOIL_DATABASE_OWNER_URL"

db_app = typer.Typer(help="The store's schema.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """`db` and `audit`."""
    command(app, "audit")(audit_)
    app.add_typer(db_app, name="db")


def audit_() -> Answer:
    """Check every invariant on the live store.

    Prints the offending rows and exits with 1 when there is any.
    """
    with session() as parts, parts.store.reading() as connection:
        found = audit(connection)
    document = {"checks": len(CHECKS), "violations": [asdict(each) for each in found]}
    rows = [(each.invariant, each.table, each.row, each.detail) for each in found]
    lines = table(("INVARIANT", "TABLE", "ROW", "DETAIL"), rows) if found else [f"{len(CHECKS)} checks, no violation"]
    return Answer(document, lines, ok=not found)


@command(db_app, "upgrade")
def upgrade_() -> Answer:
    """Bring the store to the newest schema, as its owner; safe while everything runs."""
    from business_store.schema import upgrade  # Alembic is slow to load, and this command alone needs it

    revision = upgrade(_owner_url())
    return Answer({"revision": revision}, [f"the store is at revision {revision}"])


def _owner_url() -> str:
    """From the environment alone where it is there, so that a migration job needs no other setting."""
    return os.environ.get(OWNER_URL) or _of_settings()


def _of_settings() -> str:
    secret = load_settings().database_owner_url
    if secret is None:
        raise SettingsError(f"{OWNER_URL}: Field required by `db upgrade`")
    return secret.get_secret_value()
