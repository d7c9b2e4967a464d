"""What a system asked of all runs that talk to it: pauses, turns taken one after the other, and holds until mended.

Locks: a run's request first, then the row of the limit; nobody waits for a request while holding a limit.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from sqlalchemy import Connection, text

from business_store.runs import want_nudge
from domain.errors import ReadFailed
from domain.permits import Turn
from domain.signals import Answer, Signal

GAP = timedelta(milliseconds=200)
"""Between two turns after a limit; doubled each time that proves too fast, up to ten seconds, and a fifth less after
each turn that met no limit."""
HELD_PAUSE = timedelta(seconds=30)
"""How often a run looks whether a hold is over, unless it is nudged."""
CREDENTIAL_REFUSED, UNAUTHENTICATED = "credential_refused", "unauthenticated"
log = logging.getLogger(__name__)


HIT = text("SELECT limit_hit(:system, :scope, :wait, :gap)")
TURN = text("SELECT turn, held FROM limit_turn_of(:system, :scope, :run, :use)")
HOLD = text("SELECT limit_hold(:system, :scope, :reason, :gap)")
RELEASE = text("SELECT limit_release(:system, :scope)")
WAITING = text("""
    SELECT run.id FROM run WHERE reason = :reason AND state IN ('retrying', 'outcome_unknown') ORDER BY run.id
""")


def limit_hit(connection: Connection, system: str, scope: str, wait: timedelta) -> None:
    """Slow every run down that talks to this account. A later, shorter wait never shortens it."""
    connection.execute(HIT, {"system": system, "scope": scope, "wait": wait, "gap": GAP})


def turn_of(connection: Connection, about: tuple[str, str], run_id: str, now: datetime, *, use: bool) -> Turn | None:
    """The turn that this run has to wait for, or None: it may go now. `about`: system and scope."""
    named = {"system": about[0], "scope": about[1], "run": run_id, "use": use}
    row = connection.execute(TURN, named).one()
    if row.held is not None:
        return Turn(now + HELD_PAUSE, row.held)
    return None if row.turn is None else Turn(row.turn, "throttled")


def hold(connection: Connection, system: str, scope: str, reason: str) -> bool:
    """Keep every run from this account until `release`; whether nobody had said so before."""
    named = {"system": system, "scope": scope, "reason": reason, "gap": GAP}
    return bool(connection.execute(HOLD, named).scalar_one())


def release(connection: Connection, system: str, scope: str) -> bool:
    """The cause is mended: wake whoever waits, to go on one after the other. False where nothing was held."""
    was_held = bool(connection.execute(RELEASE, {"system": system, "scope": scope}).scalar_one())
    if was_held:
        for run_id in connection.execute(WAITING, {"reason": CREDENTIAL_REFUSED}).scalars().all():
            want_nudge(connection, run_id)
    return was_held


def respect(connection: Connection, system: str, scope: str, answer: Answer) -> None:
    """What one answer to a send means to every run: a pause, or a credential that somebody has to mend."""
    if answer.signal is Signal.THROTTLED and answer.retry_after is not None:
        limit_hit(connection, system, scope, answer.retry_after)
    if answer.code == UNAUTHENTICATED:
        _alarm(connection, system, scope)


def respect_read(connection: Connection, about: tuple[str, str], refused: ReadFailed) -> None:
    """The same for a read."""
    seconds = refused.fields.get("retry_after")
    if isinstance(seconds, int | float):
        limit_hit(connection, *about, timedelta(seconds=float(seconds)))
    if refused.code == CREDENTIAL_REFUSED:
        _alarm(connection, *about)


def _alarm(connection: Connection, system: str, scope: str) -> None:
    """Once, whoever meets it next."""
    if hold(connection, system, scope, CREDENTIAL_REFUSED):
        log.error("the credential of %s %s is refused: every run to it waits until it is renewed", system, scope)
