"""Decisions. They are recorded in the store by this process itself, so gateway and engine may be down."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from business_store.decisions import DecisionAsked, RecordedDecision, decide, revoke_decision
from business_store.runs import load_run
from cli.answering import Answer, Asked, command
from cli.engine import tell_engine
from cli.reading import RunId
from cli.session import TokenFile, acting, session
from domain.approvals import Outcome
from domain.boundaries import boundary
from domain.processes import process_named

VERBS = {
    "approve": (Outcome.APPROVED, "Approve exactly this version of a run's inputs."),
    "reject": (Outcome.REJECTED, "Reject this version: the run ends."),
    "request-changes": (Outcome.CHANGES_REQUESTED, "Ask for an amendment: the run waits for one."),
}
Version = Annotated[int, typer.Option(min=1, help="The input version you looked at.")]
Fingerprint = Annotated[str, typer.Option(help="Its fingerprint, as `show` prints it.")]
Comment = Annotated[str, typer.Option(metavar="TEXT", help="Kept with the decision.")]


def register(app: typer.Typer) -> None:
    """The decision commands, all alike, and their revocation."""
    for verb, (outcome, told) in VERBS.items():
        asked = _deciding(outcome)
        asked.__doc__ = told
        command(app, verb)(asked)
    command(app, "revoke-decision")(revoke)


def _deciding(outcome: Outcome) -> Asked:
    def record(
        run: RunId, version: Version, fingerprint: Fingerprint, comment: Comment = "", token_file: TokenFile = None
    ) -> Answer:
        with session() as parts:
            actor = acting(parts, token_file)
            with parts.store.reading() as connection:
                process = process_named(load_run(connection, run).process)
            asked = DecisionAsked(run, outcome, version, fingerprint, comment)
            recorded = decide(parts.store, actor, asked, parts.terms(process).valid_for)
            tell_engine(parts, run)
        return Answer(asdict(recorded), [_said(recorded)])

    return record


def _said(recorded: RecordedDecision) -> str:
    before = "recorded before" if recorded.repeated else "recorded"
    outcome = recorded.outcome.replace("_", " ")
    until = f"{recorded.valid_until:%Y-%m-%d %H:%M:%S} UTC"
    return f"{before}: version {recorded.version} of {recorded.run_id} {outcome} ({recorded.id}, valid until {until})"


def revoke(
    run: RunId,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for whoever asks later.")],
    token_file: TokenFile = None,
) -> Answer:
    """Take an approval back before anything is sent."""
    with session() as parts:
        actor = acting(parts, token_file)
        with boundary("revoke", run):
            revoked = parts.store.once(lambda connection: revoke_decision(connection, actor, run, reason))
        tell_engine(parts, run)
    return Answer({"run": run, "revoked": revoked}, [f"revoked: {revoked} of {run}"])
