"""The store itself: migrations and the audit of its invariants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from business_store.audit import CHECKS, Violation, audit
from cli.answering import Answer, command
from cli.session import role_url, session
from cli.text import NOTHING, table
from domain.drift import MEANING, Drift
from domain.errors import InvalidInput

Deep = Annotated[bool, typer.Option("--deep", help="Read CRM and provider back as well; takes several reads a run.")]
Since = Annotated[
    datetime | None,
    typer.Option(
        formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S%z"],
        help="With --deep: look from then on for records of no operation; else since the first request.",
    ),
]

db_app = typer.Typer(help="The store's schema.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """`db` and `audit`."""
    command(app, "audit")(audit_)
    app.add_typer(db_app, name="db")


def audit_(deep: Deep = False, since: Since = None) -> Answer:
    """Check every invariant on the live store.

    Prints the offending rows and exits with 1 when there is any. With --deep the records outside are read back too, and
    every difference from the store is printed.
    """
    if since is not None and not deep:
        raise InvalidInput("since", "together with --deep")
    with session() as parts:
        with parts.store.reading() as connection:
            found = audit(connection)
        drift = list(parts.outside().drift(_in_utc(since))) if deep else []
    document = {"checks": len(CHECKS), "violations": [asdict(each) for each in found]}
    apart = {"drift": [asdict(each) for each in drift]} if deep else {}
    lines = [*_violated(found), *(_apart(drift) if deep else ())]
    return Answer({**document, **apart}, lines, ok=not found and not drift)


def _in_utc(moment: datetime | None) -> datetime | None:
    """A day without a zone is one of UTC."""
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment


def _violated(found: Sequence[Violation]) -> list[str]:
    rows = [(each.invariant, each.table, each.row, each.detail) for each in found]
    return table(("INVARIANT", "TABLE", "ROW", "DETAIL"), rows) if found else [f"{len(CHECKS)} checks, no violation"]


def _apart(drift: Sequence[Drift]) -> list[str]:
    rows = [
        (each.run or NOTHING, each.system, each.record, MEANING[each.apart], ", ".join(each.fields)) for each in drift
    ]
    return table(("RUN", "SYSTEM", "RECORD", "DRIFT", "FIELDS"), rows) if drift else ["outside: no drift"]


@command(db_app, "upgrade")
def upgrade_() -> Answer:
    """Bring the store to the newest schema, as its owner; safe while everything runs."""
    from business_store.schema import upgrade  # Alembic is slow to load, and this command alone needs it

    revision = upgrade(role_url("database_owner_url", "db upgrade"))
    return Answer({"revision": revision}, [f"the store is at revision {revision}"])
