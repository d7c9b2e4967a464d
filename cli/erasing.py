"""Erasing what was over long ago: recorded first, as a role that can do nothing else."""

from __future__ import annotations

import getpass
from dataclasses import asdict
from datetime import timedelta
from typing import Annotated

import typer

from business_store.erasing import Erasure, ErasureAsked, erasable, erase
from cli.answering import Answer, command
from cli.session import store_of
from cli.text import instant, table

OlderThan = Annotated[
    int, typer.Option("--older-than", min=1, metavar="DAYS", help="What was over for longer than this.")
]


def register(app: typer.Typer) -> None:
    """`erase`."""
    command(app, "erase")(erase_)


def erase_(
    older_than: OlderThan,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count, change nothing.")] = False,
    reason: Annotated[str, typer.Option(help="Why; kept with the record.")] = "retention",
    by: Annotated[str, typer.Option(help="Who; kept with the record. Else the account on this machine.")] = "",
) -> Answer:
    """Erase inputs and comments of what is over.

    Takes requests whose every run ended longer ago, with nothing in doubt, and triggers that none of the others needs.
    Hashes, decisions, events and sends stay. Interrupted, it may simply be given again.
    """
    age = timedelta(days=older_than)
    with store_of("database_retention_url", "erase") as store:
        if dry_run:
            found = store.read(lambda connection: erasable(connection, age))
        else:
            found = erase(store, ErasureAsked(by or _account(), reason, age))
    return Answer({"dry_run": dry_run, **asdict(found)}, _lines(found, dry_run))


def _account() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unnamed"


def _lines(found: Erasure, dry_run: bool) -> list[str]:
    cutoff = found.cutoff.isoformat()
    verb = "would be erased" if dry_run else "erased"
    what = f"{verb}: {found.requests} requests and {found.receipts} receipts from before {instant(cutoff)}"
    if not found.contents:
        return [f"nothing to erase from before {instant(cutoff)}"]
    lines = table(("TABLE", "CONTENTS"), sorted(found.contents.items()))
    return [what, *lines, *([f"recorded as erasure {found.id}"] if found.id else [])]
