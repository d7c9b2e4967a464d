"""Turns of what works beside the runs: mirroring their state, and reading for requests that have none open."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from business_store.database import Store
from business_store.limits import respect_read, turn_of
from domain.boundaries import boundary
from domain.errors import CounterfoilError, CredentialRefused, Throttled
from domain.permits import Turn
from domain.ports import Connector, account_of
from domain.records import Facts


@dataclass(frozen=True)
class Turns:
    """Asks in the name of the run that is mirrored or read for.

    An open run keeps its turn for what it does itself: what the CRM shows of it goes along.
    """

    store: Store

    def not_yet(self, facts: Facts, connector: Connector) -> Turn | None:
        """The turn to wait for, where the system wants all runs to wait."""
        until = facts.throttles.get(facts.subject.system)
        if until is None or until <= facts.now:
            return None
        account, use = account_of(facts.subject.system, connector), not facts.run.is_open
        with boundary("turn", facts.run.id):
            return self.store.write(lambda connection: turn_of(connection, account, facts.run.id, facts.now, use=use))

    def met(self, facts: Facts, connector: Connector, refused: CounterfoilError) -> Turn | None:
        """A limit or a refused credential is every run's; the turn to wait for after it."""
        if not isinstance(refused, Throttled | CredentialRefused):
            return None
        account = account_of(facts.subject.system, connector, marked=True)

        def noted(connection: Connection) -> Turn | None:
            respect_read(connection, account, refused)
            return turn_of(connection, account, facts.run.id, facts.now, use=False)

        with boundary("read-refused", facts.run.id):
            return self.store.write(noted)
