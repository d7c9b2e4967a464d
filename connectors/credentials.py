"""The credential of one account: fixed, or an access token that is renewed once for all processes.

A 401 is documented as refused before execution, so a new token and a repeat with a permit of its own are safe. Of many
who meet the same 401 one renews; the others wait for the token that it stored.
"""

from __future__ import annotations

import hmac
import time
from dataclasses import dataclass, field
from datetime import timedelta

from domain.credentials import RENEWAL, Exchange, Renewed, Token, Vault, Verdict


@dataclass(frozen=True, slots=True)
class Fixed:
    """A token that nobody can renew by program."""

    token: str = field(repr=False)

    def bearer(self) -> str | None:
        return self.token

    def held(self) -> bool:
        return False

    def refused(self, token: str) -> Verdict:
        return Verdict.REFUSED

    def mark(self) -> str:
        """Keyed with the token itself: no table of hashes knows it, and who has the token learns nothing new."""
        return hmac.new(self.token.encode(), b"counterfoil credential", "sha256").hexdigest()[:32]


LOOK_EVERY = 0.1


@dataclass(frozen=True, slots=True)
class Renewable:
    """OAuth tokens. `patience`: how long another's renewal is waited for."""

    vault: Vault
    exchange: Exchange
    patience: timedelta = timedelta(seconds=10)

    def bearer(self) -> str | None:
        token = self.vault.current()
        if token.refused:
            return None
        if token.access is None and self._renewed(token) is not Verdict.RENEWED:
            return None
        return token.access or self.vault.current().access

    def held(self) -> bool:
        return self.vault.current().refused

    def refused(self, token: str) -> Verdict:
        now = self.vault.current()
        if now.refused:
            return Verdict.REFUSED
        if now.access not in (None, token):
            return Verdict.RENEWED
        if now.fresh:
            self.vault.given_up(now.version, refused=True)
            return Verdict.REFUSED
        return self._renewed(now)

    def mark(self) -> str:
        return f"{RENEWAL}{self.vault.current().version}"

    def _renewed(self, stale: Token) -> Verdict:
        refresh = self.vault.claim(stale.version)
        if refresh is None:
            return self._waited(stale)
        got = self.exchange(refresh)
        if isinstance(got, Renewed):
            self.vault.renewed(stale.version, got)
            return Verdict.RENEWED
        self.vault.given_up(stale.version, refused=got is Verdict.REFUSED)
        return got

    def _waited(self, stale: Token) -> Verdict:
        """Another one renews: its result counts for us too."""
        until = time.monotonic() + self.patience.total_seconds()
        while time.monotonic() < until:
            now = self.vault.current()
            if now.refused:
                return Verdict.REFUSED
            if now.version > stale.version:
                return Verdict.RENEWED
            time.sleep(LOOK_EVERY)
        return Verdict.NOT_RENEWED
