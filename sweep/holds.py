"""Holds that are over because another credential was put in place: found without anybody saying so."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from business_store.database import Store
from business_store.limits import Marked, lift, marked, wake_held
from domain.boundaries import boundary
from domain.credentials import Account
from domain.ports import Connector, account_of

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Holds:
    """Compares what is held with what this process would send."""

    store: Store
    connectors: Mapping[str, Connector]

    def once(self) -> int:
        """End every hold of another credential than ours; return how many."""
        return sum(self._lifted(each) for each in self.store.read(marked))

    def _lifted(self, known: Marked) -> bool:
        connector = self.connectors.get(known.account.system)
        if connector is None or connector.scope != known.account.scope:
            return False
        account = account_of(known.account.system, connector, marked=True)
        return known.concerns(account.mark) and self._settled(account)

    def _settled(self, account: Account) -> bool:
        """A worker that dies before it has woken anybody costs them half a minute: they look by themselves."""
        with boundary("lift-hold"):
            lifted = self.store.once(lambda connection: lift(connection, account))
        if lifted:
            log.info("%s %s has another credential: every run to it goes on", account.system, account.scope)
            with boundary("wake-held"):
                self.store.write(wake_held)
        return lifted
