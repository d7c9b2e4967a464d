"""What operators do: start, resolve, resume and sweep."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from sqlalchemy import Connection

from business_store.actors import Actor
from business_store.requests import Asked, start_run
from business_store.resolving import Contracts, ResolutionAsked, Resolved, resolve
from business_store.runs import lock_run
from cli.answering import Answer, command
from cli.engine import tell_engine
from cli.reading import RunId
from cli.session import TokenFile, acting, session
from cli.text import table
from composition import Parts
from domain.boundaries import boundary
from domain.errors import NotAuthorised, ResolutionRefused
from domain.identity import subject_of
from domain.processes import process_named
from domain.resolutions import MEANING, Action
from domain.states import RunState
from domain.wording import SHOWN_AS

if TYPE_CHECKING:
    from sweep.passes import Report

STARTERS = frozenset({"operator", "admin"})
LOST = "execution_lost"
Reason = Annotated[str, typer.Option(metavar="TEXT", help="Why, for whoever asks later.")]
Evidence = Annotated[str, typer.Option(metavar="TEXT", help="What you looked at, and what it showed.")]


def register(app: typer.Typer) -> None:
    """`start`, `resolve`, `resume` and `sweep`."""
    command(app)(start)
    command(app, "resolve")(resolve_)
    command(app)(resume)
    command(app)(sweep)


def start(
    process: Annotated[str, typer.Argument(metavar="PROCESS", help="Such as partner-onboarding.")],
    subject: Annotated[str, typer.Option(metavar="hubspot:PORTAL:TYPE:ID", help="The CRM record it is about.")],
    rehearsal: Annotated[bool, typer.Option("--rehearsal", help="A dry run: asks nobody, sends nothing.")] = False,
    key: Annotated[str | None, typer.Option(help="Business key, when it is not the record's.")] = None,
    token_file: TokenFile = None,
) -> Answer:
    """Start a run by hand. A request that has its run already answers with that run."""
    with session() as parts:
        actor = acting(parts, token_file)
        if not actor.roles & STARTERS:
            raise NotAuthorised("starting a run needs the role operator", role="operator")
        asked = Asked(process_named(process), subject_of(subject), actor.id, rehearsal, key)
        with boundary("start-run"):
            run_id, made = parts.store.once(lambda connection: start_run(connection, asked))
        tell_engine(parts, run_id)
    outcome = "started" if made else "already_exists"
    return Answer({"run": run_id, "made": made, "outcome": outcome}, [f"{outcome.replace('_', ' ')}: {run_id}"])


def resolve_(
    run: RunId,
    action: Annotated[
        Action, typer.Argument(metavar="ACTION", help="; ".join(f"{a}: {m}" for a, m in MEANING.items()))
    ],
    reason: Reason,
    evidence: Evidence,
    reference: Annotated[str | None, typer.Option(metavar="ID", help="With confirm: the record outside.")] = None,
    operation: Annotated[str | None, typer.Option(metavar="KEY", help="Which one, when several are in doubt.")] = None,
    token_file: TokenFile = None,
) -> Answer:
    """Resolve a run that needs an operator."""
    asked = ResolutionAsked(run, action, reason, evidence, reference, operation)
    return _resolved(token_file, run, lambda connection, actor, known: resolve(connection, actor, asked, known))


def resume(
    run: RunId,
    reason: Reason = "the execution was lost",
    evidence: Evidence = "the sweep found no execution of an open run",
    token_file: TokenFile = None,
) -> Answer:
    """Start a lost execution again.

    The same as `resolve RUN retry`, for a run whose execution was lost.
    """

    def work(connection: Connection, actor: Actor, known: Contracts) -> Resolved:
        found = lock_run(connection, run)
        if found.reason != LOST:
            raise ResolutionRefused(
                f"the execution of this run is not known to be lost: it is {found.state} ({found.reason})",
                next_actions=["counterfoil sweep --once", f"counterfoil show {run}"],
                state=found.state,
                reason=found.reason,
            )
        return resolve(connection, actor, ResolutionAsked(run, Action.RETRY, reason, evidence), known)

    return _resolved(token_file, run, work)


def _resolved(token_file: Path | None, run_id: str, work: Callable[[Connection, Actor, Contracts], Resolved]) -> Answer:
    with session() as parts:
        actor = acting(parts, token_file)
        with boundary("resolve", run_id):
            resolved = parts.store.once(lambda connection: work(connection, actor, parts.contracts()))
        tell_engine(parts, run_id)
    return Answer(asdict(resolved), [_said(resolved)])


def _said(resolved: Resolved) -> str:
    if resolved.proposed:
        return f"proposed: {resolved.action} of {resolved.run_id} ({resolved.id}); a second operator must agree"
    return f"recorded: {resolved.action} of {resolved.run_id} ({resolved.id}), now {SHOWN_AS[RunState(resolved.state)]}"


def sweep(
    once: Annotated[bool, typer.Option("--once", help="Required: going on for ever is the worker's part.")] = False,
) -> Answer:
    """Repeat every lost hint now.

    As the worker does by itself; safe beside it.
    """
    if not once:
        raise typer.BadParameter("sweeping again and again is the worker's part: give --once")
    with session() as parts:
        report = asyncio.run(_swept(parts))
    done = [(name, str(count)) for name, count in report.done.items()]
    failed = [(name, f"failed: {problem}") for name, problem in report.failed.items()]
    return Answer(asdict(report), table(("PASS", "RUNS"), [*done, *failed]), ok=not report.failed)


async def _swept(parts: Parts) -> Report:
    from sweep.engine import connect

    return await parts.sweep(await connect(lazy=True)).once()
