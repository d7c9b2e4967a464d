"""Holds that are over because another credential was put in place: found without anybody saying so."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from business_store.database import Store
from business_store.limits import lift, marked, wake_held
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
        return sum(self._lifted(account) for account in self.store.read(marked))

    def _lifted(self, held: Account) -> bool:
        connector = self.connectors.get(held.system)
        if connector is None or connector.scope != held.scope:
            return False
        account = account_of(connector, marked=True)
        if not self.store.once(lambda connection: lift(connection, account)):
            return False
        log.info("%s %s has another credential: every run to it goes on", held.system, held.scope)
        self.store.write(wake_held)
        return True
