"""Whether everything around us is there and as it must be. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

import typer
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from cli.answering import Answer, command
from cli.failures import store_problem
from cli.session import session
from cli.text import table
from composition import Parts
from domain.errors import ReadFailed
from settings import SettingsError, several

REVISION = text("SELECT version_num FROM alembic_version")
WANTING = ("is missing", "is NOT unique")
"""What `HubSpot.check` says of a property on which a recovery contract rests."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    part: str
    ok: bool
    found: str


def register(app: typer.Typer) -> None:
    """`doctor`."""
    command(app)(doctor)


def doctor() -> Answer:
    """Check every connection, with reads only.

    Settings, store and schema, Temporal and its search attributes, HubSpot, Stripe.
    """
    try:
        findings = _findings()
    except SettingsError as problem:
        findings = [Finding("settings", False, line) for line in str(problem).splitlines()]
    rows = [("ok" if each.ok else "FAILED", each.part, each.found) for each in findings]
    document = {"ok": all(each.ok for each in findings), "findings": [asdict(each) for each in findings]}
    return Answer(document, table(("", "PART", "FOUND"), rows), ok=all(each.ok for each in findings))


def _findings() -> list[Finding]:
    with session() as parts:
        checks: tuple[Callable[[Parts], Iterable[Finding]], ...] = (_store, _temporal, _hubspot, _stripe)
        return [Finding("settings", True, "complete"), *(finding for check in checks for finding in check(parts))]


def _store(parts: Parts) -> Iterable[Finding]:
    from business_store.schema import head  # Alembic is slow to load, and this command alone needs it

    try:
        with parts.store.reading() as connection:
            revision = connection.execute(REVISION).scalar()
    except (DBAPIError, PoolTimeout) as problem:
        return [Finding("store", False, str(store_problem(problem)["message"]))]
    if revision != head():
        return [Finding("store", False, f"at revision {revision}, not {head()}: counterfoil db upgrade")]
    return [Finding("store", True, f"reachable, at revision {revision}")]


def _temporal(parts: Parts) -> Iterable[Finding]:
    from cli.engine_check import engine_problem  # the engine's SDK is slow to load

    problem = engine_problem()
    return [Finding("temporal", not problem, problem or "reachable, with its search attributes")]


def _hubspot(parts: Parts) -> Iterable[Finding]:
    return _connector("hubspot", parts.hubspot.check)


def _stripe(parts: Parts) -> Iterable[Finding]:
    return [*_connector("stripe", parts.stripe.check), _stripe_callbacks(parts)]


def _stripe_callbacks(parts: Parts) -> Finding:
    """Without them a lost answer is settled by repeats and look-ups alone, so their absence is no failure."""
    secrets = len(several(parts.settings.stripe_webhook_secret))
    taken = f"its callbacks are taken, by {secrets} signing secret{'s' if secrets > 1 else ''}"
    return Finding("stripe", True, taken if secrets else "no webhook secret: none of its callbacks is taken")


def _connector(part: str, check: Callable[[], Sequence[str]]) -> Iterable[Finding]:
    try:
        lines = check()
    except ReadFailed as problem:
        return [Finding(part, False, problem.message)]
    found = [line.removeprefix(f"{part}: ") for line in lines]
    return [Finding(part, not any(sign in line for sign in WANTING), line) for line in found]
