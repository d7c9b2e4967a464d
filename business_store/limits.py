"""What a system asked of all runs that talk to it: pauses, turns taken one after the other, and holds until mended.

Locks: a run's request first, then the row of the limit; nobody waits for a request while holding a limit.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, text

from business_store.runs import want_nudge
from domain.credentials import UNAUTHENTICATED, Account
from domain.errors import ReadFailed
from domain.permits import Turn
from domain.signals import Answer, Finding, Found, Signal

GAP = timedelta(milliseconds=200)
"""Between two turns after a limit; doubled each time that proves too fast, up to ten seconds, and a fifth less after
each turn that met no limit."""
HELD_PAUSE = timedelta(seconds=30)
"""How often a run looks whether a hold is over, unless it is nudged."""
UNSAID = timedelta(seconds=2)
"""Before the next try after a refusal that names no wait: HubSpot's lock of one record lasts that long."""
CREDENTIAL_REFUSED = "credential_refused"
log = logging.getLogger(__name__)


HIT = text("SELECT limit_hit(:system, :scope, :wait, :gap)")
TURN = text("SELECT turn, held FROM limit_turn_of(:system, :scope, :run, :use)")
HOLD = text("SELECT limit_hold_mark(:system, :scope, :reason, :gap, :mark)")
LIFT = text("SELECT limit_lift(:system, :scope, :mark)")
RELEASE = text("SELECT limit_release(:system, :scope)")
FORGET = text("UPDATE shared_limit SET refused = '{}' WHERE (system, scope) = (:system, :scope)")
MARKED = text("""
    SELECT system, scope, held IS NOT NULL AS held, refused FROM shared_limit
    WHERE held IS NOT NULL OR refused <> '{}' ORDER BY 1, 2
""")
WAITING = text("""
    SELECT run.id FROM run WHERE reason = :reason AND state IN ('retrying', 'outcome_unknown') ORDER BY run.id
""")


def _named(account: Account) -> dict[str, str]:
    return {"system": account.system, "scope": account.scope}


def limit_hit(connection: Connection, account: Account, wait: timedelta) -> None:
    """Slow every run down that talks to this account. A later, shorter wait never shortens it."""
    connection.execute(HIT, {**_named(account), "wait": wait, "gap": GAP})


def turn_of(connection: Connection, account: Account, run_id: str, now: datetime, *, use: bool) -> Turn | None:
    """The turn that this run has to wait for, or None: it may go now."""
    row = connection.execute(TURN, {**_named(account), "run": run_id, "use": use}).one()
    if row.held is not None:
        return Turn(now + HELD_PAUSE, row.held)
    return None if row.turn is None else Turn(row.turn, "throttled")


def hold(connection: Connection, account: Account, reason: str) -> bool:
    """Keep every run from this account until `release` or `lift`; whether nobody had said so before."""
    named = {**_named(account), "reason": reason, "gap": GAP, "mark": account.mark}
    return bool(connection.execute(HOLD, named).scalar_one())


def release(connection: Connection, account: Account) -> bool:
    """The cause is mended: wake whoever waits, to go on one after the other. False where nothing was held."""
    was_held = bool(connection.execute(RELEASE, _named(account)).scalar_one())
    connection.execute(FORGET, _named(account))
    if was_held:
        wake_held(connection)
    return was_held


def lift(connection: Connection, account: Account) -> bool:
    """End a hold of other credentials than this one. Nobody is woken yet: that takes locks of runs."""
    return bool(connection.execute(LIFT, {**_named(account), "mark": account.mark}).scalar_one())


def wake_held(connection: Connection) -> None:
    """Runs that wait for a credential look again at once."""
    for run_id in connection.execute(WAITING, {"reason": CREDENTIAL_REFUSED}).scalars().all():
        want_nudge(connection, run_id)


@dataclass(frozen=True, slots=True)
class Marked:
    """An account that is held, or of which credentials were refused."""

    account: Account
    held: bool
    refused: frozenset[str]

    def concerns(self, mark: str) -> bool:
        """Whether this credential ends the hold, or is in use again after it was refused."""
        return bool(mark and self.refused) and self.held is (mark not in self.refused)


def marked(connection: Connection) -> list[Marked]:
    """Every account for which somebody may have another credential by now."""
    return [Marked(Account(r.system, r.scope), r.held, frozenset(r.refused)) for r in connection.execute(MARKED)]


def respect(connection: Connection, account: Account, met: Answer | Finding) -> None:
    """What one answer, or one look-up, means to every run: a pause, or a credential that somebody has to mend."""
    if met.retry_after is not None and _throttled(met):
        limit_hit(connection, account, met.retry_after)
    if met.code == UNAUTHENTICATED:
        _alarm(connection, account)


def _throttled(met: Answer | Finding) -> bool:
    return met.signal is Signal.THROTTLED if isinstance(met, Answer) else met.found is Found.FAILED


def respect_read(connection: Connection, account: Account, refused: ReadFailed) -> None:
    """The same for a read, and for a write of what the CRM shows."""
    seconds = refused.fields.get("retry_after")
    if isinstance(seconds, int | float):
        limit_hit(connection, account, timedelta(seconds=float(seconds)))
    if refused.code == CREDENTIAL_REFUSED:
        _alarm(connection, account)


def _alarm(connection: Connection, account: Account) -> None:
    """Once, whoever meets it next."""
    if hold(connection, account, CREDENTIAL_REFUSED):
        where = (account.system, account.scope)
        log.error("the credential of %s %s is refused: every run to it waits until there is another", *where)
