"""Where a run stands, said in the words that Temporal UI shows and the workflow acts on."""

from __future__ import annotations

from activities.tools import Tools
from domain.execution import Directive, Then
from domain.records import Facts, Standing
from domain.wording import details, shown_of, summary

SUPERSEDED = Directive(
    then=Then.ENDED,
    state="superseded",
    reason="superseded",
    input_version=0,
    next_owner="",
    deadline=None,
    until=None,
    summary="A newer execution owns this run",
    details="**Superseded**: a newer execution owns this run; this one changes nothing any more.",
)


def directive(facts: Facts, standing: Standing, tools: Tools) -> Directive:
    """The activity's one result. A wait without an end of its own ends at the recheck."""
    shown, link = shown_of(facts, standing, tools.contracts), tools.run_link(facts.run.id)
    recheck = tools.waits.recheck
    until = standing.until
    if standing.then in (Then.WAIT, Then.REVIEW):
        until = min(until, facts.now + recheck) if until is not None else facts.now + recheck
    return Directive(
        then=standing.then,
        state=standing.run.state,
        reason=standing.run.reason,
        input_version=shown.version,
        next_owner=standing.run.next_owner or "",
        deadline=standing.run.deadline,
        until=until,
        summary=summary(shown),
        details=details(shown, link),
        at=facts.now,
    )
