"""The credential of one account as connectors and store speak of it. Tokens are never part of a representation."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

UNAUTHENTICATED = "unauthenticated"
"""Code of an answer, or of a look-up, that a person has to mend: no credential of ours is good."""

RENEWAL = "renewal "
"""How the mark of tokens begins that are renewed by themselves; the number of renewals follows."""


class Verdict(StrEnum):
    """What became of a credential that was refused with 401."""

    RENEWED = "renewed"
    NOT_RENEWED = "not_renewed"
    """Renewing did not work now; it is tried again."""
    REFUSED = "refused"
    """Only a person can give another one."""


@dataclass(frozen=True, slots=True)
class Account:
    """One account of an outside system: limits, and the hold of a refused credential, are shared inside it.

    `mark` names the credential in use without telling it: another credential has another one. Empty where nobody said.
    """

    system: str
    scope: str = ""
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Token:
    """An access token as stored. `version` counts renewals, `fresh` says that it was renewed a moment ago."""

    version: int
    access: str | None = field(repr=False)
    refused: bool = False
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Renewed:
    """What a token endpoint gave. `refresh` is the token for the next time, where the endpoint changes it."""

    access: str = field(repr=False)
    lifetime: timedelta
    refresh: str | None = field(default=None, repr=False)


class Credential(Protocol):
    """What a transport sends along."""

    def bearer(self) -> str | None:
        """The token to send now; None while there is none."""

    def held(self) -> bool:
        """Whether only a person can give another one."""

    def refused(self, token: str) -> Verdict:
        """After a 401 to this token."""

    def mark(self) -> str:
        """A name for what is configured or stored now, from which it cannot be found out."""


class Vault(Protocol):
    """Where the tokens of one account are kept, for all processes."""

    def current(self) -> Token:
        """As stored now."""

    def claim(self, version: int) -> str | None:
        """The refresh token for the one caller who renews this version; None for all others."""

    def renewed(self, version: int, renewed: Renewed) -> None:
        """Store what came back before anybody uses it."""

    def given_up(self, version: int, *, refused: bool) -> None:
        """End the claim; `refused` if the refresh token is not good any more."""


class Exchange(Protocol):
    """Asks a token endpoint: the new tokens, or REFUSED, or NOT_RENEWED for anything else."""

    def __call__(self, refresh_token: str) -> Renewed | Verdict: ...
