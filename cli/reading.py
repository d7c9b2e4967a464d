"""Reading runs. Nothing from the inputs is printed, except by `show --inputs` to those who decide about them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from business_store.actors import READERS
from business_store.runs import load_run
from business_store.views import MAX_PAGE, RunFilter, event_page, list_runs, run_view, version_inputs
from cli.answering import Answer, command
from cli.run_text import event_lines, input_lines, listed, run_lines
from cli.session import TokenFile, acting, session
from composition import Parts
from domain.errors import NotAuthorised
from domain.states import RunState

RunId = Annotated[str, typer.Argument(metavar="RUN", help="Id of the run.")]
Page = Annotated[int, typer.Option(min=1, max=MAX_PAGE, help="How many at most.")]


def register(app: typer.Typer) -> None:
    """`runs`, `show` and `events`."""
    command(app)(runs)
    command(app)(show)
    command(app)(events)


def runs(
    state: Annotated[RunState | None, typer.Option(help="Only runs in this state.")] = None,
    process: Annotated[str | None, typer.Option(help="Only runs of this process.")] = None,
    key: Annotated[str | None, typer.Option(help="Only runs with this business key.")] = None,
    owner: Annotated[str | None, typer.Option(help="Only runs that wait for this role.")] = None,
    limit: Page = 50,
    before: Annotated[str | None, typer.Option(metavar="RUN", help="Only runs older than this one.")] = None,
) -> Answer:
    """List runs, newest first."""
    with session() as parts, parts.store.reading() as connection:
        if before is not None:
            load_run(connection, before)
        found = list_runs(connection, RunFilter(state, process, key, owner, before, limit))
    return Answer(found, listed(found))


def show(
    run: RunId,
    inputs: Annotated[bool, typer.Option("--inputs", help="Also the partner's details; needs a token.")] = False,
    version: Annotated[int | None, typer.Option(min=1, help="With --inputs: which version.")] = None,
    token_file: TokenFile = None,
) -> Answer:
    """Show one run: state, deadline, what may be done."""
    with session() as parts:
        with parts.store.reading() as connection:
            view = run_view(connection, run, parts.contracts())
        if not inputs:
            return Answer(view, run_lines(view))
        content = _inputs(parts, token_file, (run, version or view["input_version"]))
    return Answer({**view, "inputs": content}, [*run_lines(view), *input_lines(content)])


def _inputs(parts: Parts, token_file: Path | None, wanted: tuple[str, int]) -> dict[str, Any]:
    if not acting(parts, token_file).roles & READERS:
        raise NotAuthorised(f"reading inputs needs one of the roles {', '.join(sorted(READERS))}", role="reviewer")
    with parts.store.reading() as connection:
        return version_inputs(connection, *wanted)


def events(
    run: RunId,
    after: Annotated[int, typer.Option(min=0, help="Only events with a higher number.")] = 0,
    limit: Page = 100,
) -> Answer:
    """List the events of a run, oldest first."""
    with session() as parts, parts.store.reading() as connection:
        found = event_page(connection, run, after, limit)
    return Answer(found, event_lines(found))
