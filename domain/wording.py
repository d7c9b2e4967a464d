"""How states are worded, in one place: store views, HTTP, CLI, CRM fields and Temporal UI all read it here.

The three waits never share wording or action: one waits for an approval, one for the provider, one for an operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from domain.contracts import Contract
from domain.execution import Then
from domain.reasons import meaning
from domain.records import Facts, Standing
from domain.resolutions import MEANING, Action, Doubtful, doubts, permitted_actions
from domain.states import RunState

S = RunState
AMEND = "amend the record in the CRM"
OBVIOUS = frozenset({"review_opened", "provider_outcome_unknown"})
"""Reasons that say no more than the state."""

SHOWN_AS: dict[RunState, str] = {
    S.QUEUED: "Accepted, not started",
    S.RUNNING: "Working",
    S.WAITING: "Waiting for an amended request",
    S.AWAITING_REVIEW: "Waiting for approval",
    S.DEFERRED: "Deferred",
    S.RETRYING: "Retrying",
    S.OUTCOME_UNKNOWN: "Provider outcome unknown",
    S.NEEDS_OPERATOR: "Needs operator review",
    S.CANCELING: "Stopping: settling what is in flight",
    S.SUCCEEDED: "Succeeded",
    S.FAILED: "Failed",
    S.CANCELED: "Canceled",
    S.SUPPRESSED: "Suppressed",
    S.EXPIRED: "Expired",
}

EXPLAINED: dict[RunState, str] = {
    S.QUEUED: "The request is stored; work has not begun.",
    S.RUNNING: "Nobody has to do anything.",
    S.WAITING: "The request cannot be approved as it is. It goes on when the record is amended in the CRM.",
    S.AWAITING_REVIEW: "A person with the role named here decides about exactly this version.",
    S.DEFERRED: "A policy put this off until a set time.",
    S.RETRYING: "Something outside could not be reached; it will be tried again by itself.",
    S.OUTCOME_UNKNOWN: "The provider may have acted; its answer was lost. It is being found out: do not repeat it.",
    S.NEEDS_OPERATOR: "Automation has no permitted step left. An operator looks at the evidence and resolves it.",
    S.CANCELING: "No new work is begun; what is in flight is being found out.",
    S.SUCCEEDED: "All mandatory records were read back and agree.",
    S.FAILED: "This run is over.",
    S.CANCELED: "This run was stopped.",
    S.SUPPRESSED: "A policy stopped this run.",
    S.EXPIRED: "Its time ran out.",
}


@dataclass(frozen=True, slots=True)
class Shown:
    """What the wording of a run depends on."""

    run_id: str
    state: RunState
    reason: str
    since: datetime
    next_owner: str | None
    deadline: datetime | None
    version: int
    fingerprint: str
    in_doubt: Sequence[Doubtful] = ()
    problems: Sequence[str] = ()
    next_look: datetime | None = None


def shown_of(facts: Facts, standing: Standing, contracts: Mapping[str, tuple[Contract, ...]]) -> Shown:
    """What is shown of a run that stands so. `facts` may be older than the standing: what it settled is left out."""
    run, target = standing.run, facts.target
    return Shown(
        run_id=run.id,
        state=run.state,
        reason=run.reason,
        since=run.state_since,
        next_owner=run.next_owner,
        deadline=run.deadline,
        version=target.version.number if target else 0,
        fingerprint=target.version.fingerprint if target else "",
        in_doubt=tuple(each for each in doubts(facts, contracts) if each.key != standing.settled),
        problems=target.problems if target else (),
        next_look=standing.until if standing.then is Then.WAIT else None,
    )


def waiting_for(shown: Shown) -> str | None:
    """Whom or what the run waits for, or None."""
    match shown.state:
        case S.AWAITING_REVIEW | S.NEEDS_OPERATOR | S.WAITING:
            return shown.next_owner
        case S.OUTCOME_UNKNOWN:
            return "the provider's answer, which is being found out"
        case S.RETRYING:
            return "the next try"
        case S.QUEUED:
            return "a worker"
        case _:
            return None


def next_actions(shown: Shown) -> tuple[str, ...]:
    """What a person may do now, as commands."""
    if shown.state is S.AWAITING_REVIEW:
        seen = f"{shown.run_id} --version {shown.version} --fingerprint {shown.fingerprint}"
        return tuple(f"counterfoil {verb} {seen}" for verb in ("approve", "reject", "request-changes"))
    if shown.state is S.WAITING:
        return (AMEND,)
    return tuple(_resolve(shown, action) for action in permitted_actions(shown.state, shown.in_doubt))


def says(action: str) -> str | None:
    """What one of `next_actions` tells us, where its name does not say it all."""
    words = action.split()
    return MEANING[Action(words[3])] if words[1] == "resolve" else None


def _resolve(shown: Shown, action: Action) -> str:
    reference = " --reference ID" if action is Action.CONFIRM else ""
    return f"counterfoil resolve {shown.run_id} {action}{reference} --reason TEXT --evidence TEXT"


def _instant(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def summary(shown: Shown) -> str:
    """One plain line for a timer in Temporal UI: what is waited for, and until when."""
    reason = f" ({shown.reason})" if shown.reason not in OBVIOUS else ""
    version = f", version {shown.version}" if shown.version else ""
    until = _until(shown)
    ends = f"; {until[0].lower()} {_instant(until[1])}" if until else ""
    return f"{SHOWN_AS[shown.state]}{reason}{version}{ends}"


def _until(shown: Shown) -> tuple[str, datetime] | None:
    """The time that matters most to a person, and what happens then."""
    automatic = {S.OUTCOME_UNKNOWN: "Next look", S.RETRYING: "Next try"}.get(shown.state)
    if automatic and shown.next_look is not None:
        return automatic, shown.next_look
    return ("Deadline", shown.deadline) if shown.deadline is not None and not automatic else None


def details(shown: Shown, link: str) -> str:
    """Markdown for the current details of a workflow in Temporal UI."""
    lines = [f"**{SHOWN_AS[shown.state]}**: {EXPLAINED[shown.state]}", "", *_facts(shown)]
    return "\n".join([*lines, "", *_acting(shown, f"[{shown.run_id}]({link})")])


def _facts(shown: Shown) -> list[str]:
    why, whom, until = meaning(shown.reason), waiting_for(shown), _until(shown)
    lines = [f"- Reason: `{shown.reason}`" + (f", {why}" if why else "")]
    if whom:
        lines.append(f"- Waiting for: {whom}")
    lines.append(f"- Since: {_instant(shown.since)}")
    if until:
        lines.append(f"- {until[0]}: {_instant(until[1])}")
    if shown.state is S.OUTCOME_UNKNOWN and shown.deadline is not None:
        lines.append(f"- Resend window ends: {_instant(shown.deadline)}")
    if shown.version:
        lines.append(f"- Input version: {shown.version}")
    if shown.problems:
        lines.append(f"- Problems: {', '.join(f'`{each}`' for each in shown.problems)}")
    return lines


def _acting(shown: Shown, run: str) -> list[str]:
    """What to do and where; a signal from Temporal UI decides nothing, so the way leads out of it."""
    actions, record = next_actions(shown), f"The whole record: {run}"
    if not actions:
        return [f"**Nothing to do.** {record}"]
    if actions == (AMEND,):
        return [f"**What to do:** {AMEND}. {record}"]
    return ["**What can be done,** one of:", "", *map(_in_markdown, actions), "", record]


def _in_markdown(action: str) -> str:
    told = says(action)
    return f"- {told}: `{action}`" if told else f"- `{action}`"
