"""How states are worded, in one place: store views, HTTP, CLI, CRM fields and Temporal UI all read it here.

The three waits never share wording or action: one waits for an approval, one for the provider, one for an operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from domain.resolutions import Action, permitted_actions
from domain.states import RunState

S = RunState

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
    in_doubt: Sequence[str] = ()
    next_look: datetime | None = None


def waiting_for(shown: Shown) -> str | None:
    """Whom or what the run waits for, or None."""
    match shown.state:
        case S.AWAITING_REVIEW | S.NEEDS_OPERATOR | S.WAITING:
            return shown.next_owner
        case S.OUTCOME_UNKNOWN:
            return "the provider's answer, by look-up"
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
        return ("amend the record in the CRM",)
    return tuple(_resolve(shown, action) for action in permitted_actions(shown.state, shown.in_doubt))


def _resolve(shown: Shown, action: Action) -> str:
    reference = " --reference ID" if action is Action.CONFIRM else ""
    return f"counterfoil resolve {shown.run_id} {action}{reference} --reason TEXT --evidence TEXT"


def _instant(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def summary(shown: Shown) -> str:
    """One plain line for a timer or activity in Temporal UI."""
    return f"{SHOWN_AS[shown.state]} ({shown.reason}), version {shown.version}"


def details(shown: Shown, link: str) -> str:
    """Markdown for the current details of a workflow in Temporal UI."""
    lines = [f"**{SHOWN_AS[shown.state]}**: {EXPLAINED[shown.state]}", "", f"- Reason: `{shown.reason}`"]
    lines.append(f"- Since: {_instant(shown.since)}")
    lines.append(f"- Input version: {shown.version}")
    whom = waiting_for(shown)
    if whom:
        lines.append(f"- Waiting for: {whom}")
    if shown.next_look is not None:
        lines.append(f"- Next look: {_instant(shown.next_look)}")
    if shown.deadline is not None:
        label = "Resend window ends" if shown.state is S.OUTCOME_UNKNOWN else "Deadline"
        lines.append(f"- {label}: {_instant(shown.deadline)}")
    lines += [f"- Permitted: `{action}`" for action in next_actions(shown)]
    return "\n".join([*lines, "", f"Where to act: [run {shown.run_id}]({link})"])
