"""Expected errors as people and programs read them. Parameters and row contents of a statement are never shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from business_store.database import away_because, violated
from cli.text import plain
from domain.errors import CounterfoilError
from settings import SettingsError

REFUSED, CANNOT_BEGIN = 1, 2
REPEAT = ("repeat it: what was recorded already stays one",)
UNDEFINED_TABLE, NO_PRIVILEGE = "42P01", "42501"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a command did not do what was asked."""

    code: int
    document: dict[str, Any]
    lines: Sequence[str]


def failure_of(problem: Exception) -> Failure | None:
    """The failure, or None for a defect of our own, whose traceback is wanted."""
    match problem:
        case CounterfoilError():
            return _refused(problem.as_dict())
        case SettingsError():
            named = str(problem).splitlines()
            message = "settings are missing or not allowed"
            lines = [f"counterfoil: {message}", *(f"  {plain(line)}" for line in named)]
            return Failure(CANNOT_BEGIN, {"error": "settings", "message": message, "settings": named}, lines)
        case DBAPIError() | PoolTimeout():
            return _refused(store_problem(problem))
        case _:
            return None


def _refused(document: dict[str, Any]) -> Failure:
    lines = [f"counterfoil: {plain(document['message'])}"]
    lines += [f"  permitted next: {plain(str(action))}" for action in document["next_actions"]]
    return Failure(REFUSED, document, lines)


def store_problem(problem: DBAPIError | PoolTimeout) -> dict[str, Any]:
    """What the database said, without the statement's parameters: they can be a person's words."""
    state = getattr(getattr(problem, "orig", None), "sqlstate", None)
    away = away_because(problem)
    if away is not None:
        return _problem(away[0], f"{away[1]}: {_first_line(problem)}", *REPEAT)
    if state == UNDEFINED_TABLE:
        return _problem("store_not_migrated", "the store has no such table", "counterfoil db upgrade")
    if state == NO_PRIVILEGE:
        return _problem("store_not_permitted", "this database role may not do that")
    name = violated(problem) if isinstance(problem, DBAPIError) else None
    return _problem("store_refused", f"the store refused: {state or type(problem).__name__} {name or ''}".rstrip())


def _problem(code: str, message: str, *next_actions: str) -> dict[str, Any]:
    return {"error": code, "message": message, "next_actions": list(next_actions)}


def _first_line(problem: Exception) -> str:
    """Of the driver's own message: it names address and reason, never the password."""
    said = str(getattr(problem, "orig", None) or type(problem).__name__).strip()
    return said.splitlines()[0] if said else type(problem).__name__
