"""One answer for many runs, or a file of answers: each recorded on its own; one that is refused stops no other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from business_store.resolving import MOST, ResolutionAsked, Resolved, resolve_each
from business_store.views import RunFilter, list_runs
from cli.answering import Answer, command
from cli.engine import tell_engine
from cli.operating import Evidence, Reason
from cli.session import TokenFile, acting, session
from cli.text import table
from composition import Parts
from domain.errors import CounterfoilError, InvalidInput
from domain.resolutions import Action
from domain.states import RunState
from gateway.bodies import ResolutionItem, answered

ITEMS = TypeAdapter(list[ResolutionItem])
PAGE = 200


def register(app: typer.Typer) -> None:
    """`resolve-all` and `resolve-file`."""
    command(app)(resolve_all)
    command(app)(resolve_file)


def resolve_all(
    action: Annotated[Action, typer.Argument(metavar="ACTION", help="As for resolve; confirm needs a file.")],
    reason_code: Annotated[str, typer.Option(metavar="CODE", help="Why the runs need an operator, as runs shows it.")],
    reason: Reason,
    evidence: Evidence,
    token_file: TokenFile = None,
) -> Answer:
    """Resolve all runs that need an operator for one reason.

    500 at most; each is answered by itself.
    """
    if action is Action.CONFIRM:
        raise InvalidInput("action", "another than confirm: each record outside has an id of its own (resolve-file)")
    with session() as parts:
        runs = _needing(parts, reason_code)
        return _answer(parts, token_file, [ResolutionAsked(run, action, reason, evidence) for run in runs])


def resolve_file(
    items: Annotated[Path, typer.Argument(metavar="FILE", help="JSON list of run, action, reason, evidence, …")],
    token_file: TokenFile = None,
) -> Answer:
    """Resolve what a file lists. The same file again records nothing twice."""
    asked = [ResolutionAsked(i.run, i.action, i.reason, i.evidence, i.reference, i.operation) for i in _read(items)]
    with session() as parts:
        return _answer(parts, token_file, asked)


def _read(items: Path) -> list[ResolutionItem]:
    try:
        return ITEMS.validate_json(items.read_bytes())
    except OSError as unreadable:
        raise InvalidInput("file", f"a file that can be read ({unreadable.strerror})") from None
    except ValidationError as wrong:
        first = wrong.errors()[0]
        raise InvalidInput(".".join(map(str, first["loc"])) or "file", str(first["msg"])) from None


def _needing(parts: Parts, reason_code: str) -> list[str]:
    found: list[str] = []
    with parts.store.reading() as connection:
        while len(found) <= MOST:
            last = found[-1] if found else None
            wanted = RunFilter(state=RunState.NEEDS_OPERATOR, reason=reason_code, before=last, limit=PAGE)
            page = [row["run"] for row in list_runs(connection, wanted)]
            found += page
            if len(page) < PAGE:
                break
    return found[:MOST]


def _answer(parts: Parts, token_file: Path | None, asked: list[ResolutionAsked]) -> Answer:
    actor = acting(parts, token_file)
    results = resolve_each(parts.store, actor, asked, parts.contracts())
    for result in results:
        if isinstance(result, Resolved):
            tell_engine(parts, result.run_id)
    rows = [(item.run_id, _said(result)) for item, result in zip(asked, results, strict=True)]
    refused = [each for each in results if isinstance(each, CounterfoilError)]
    return Answer(answered(asked, results), table(("RUN", "RESULT"), rows), ok=not refused)


def _said(result: Resolved | CounterfoilError) -> str:
    if isinstance(result, CounterfoilError):
        return f"refused: {result.message}"
    word = "repeated" if result.repeated else "proposed" if result.proposed else "recorded"
    return f"{word}: {result.action} ({result.id}), {result.state}"
