"""What the core asks of a connector. Every CRM and provider adapter obeys one contract suite."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol, TypeAlias

from domain.contracts import Contract
from domain.credentials import Account
from domain.identity import SubjectRef
from domain.signals import Answer, Finding


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to read of a subject: CRM property names of the record and of one linked record."""

    properties: tuple[str, ...]
    linked_type: str = ""
    linked_properties: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SubjectReading:
    """One untorn read of a CRM record.

    `values` maps property names (linked ones as `linked.NAME`, the linked id as `linked.id`) to text or None; absent,
    null and empty all become None. `makers` are outside identities (`hubspot:61000001`) of the authors of the current
    values, by property name. `live` differs from the asked subject after a merge. `notes` say, by property name, what
    was done to a value that could not be kept as it was.
    """

    live: SubjectRef
    values: Mapping[str, str | None] = field(repr=False)
    marker: str
    makers: Mapping[str, str] = field(default_factory=dict)
    owner: str | None = None
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Until:
    """An instant in seconds of this process's `time.monotonic()`: a process that stands still meanwhile is too late."""

    at: float


Within: TypeAlias = timedelta | Until
"""How long a request may take: a time that counts from its beginning, or an instant that was fixed before."""


@dataclass(frozen=True, slots=True)
class Send:
    """One HTTP request to make: the recorded bytes under the recorded key, `within` the total client timeout.

    After an instant none of its bytes is written any more, however long the process stood still before.
    """

    operation: str
    key: str
    content: bytes = field(repr=False)
    within: Within


@dataclass(frozen=True, slots=True)
class Sought:
    """One look-up: by our key, or the record that an answer named; the first send was permitted at `since`."""

    operation: str
    key: str
    content: bytes = field(repr=False)
    since: datetime
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class Carrier:
    """A record outside that carries an operation key, whosever it is."""

    reference: str
    key: str


class Lists(Protocol):
    """A system whose records can be walked, whatever the store knows of them."""

    def carriers(self, operation: str, since: datetime) -> Iterator[Carrier]:
        """Every record of this kind, made since then, that carries an operation key; one page in memory at a time.

        Raises ReadFailed if any page cannot be read.
        """


class Connector(Protocol):
    """One adapter for one outside system. Makes at most one request per send; never retries, never redirects."""

    system: str
    scope: str
    """Which account of the system: its limits and its credential are shared by all runs. Empty where it has but one."""

    def credential_mark(self) -> str:
        """A name for the credential in use, from which it cannot be found out: what is held is that one alone."""

    def contracts(self, operation: str) -> tuple[Contract, ...]:
        """The ordered recovery contracts of one operation."""

    def render(self, operation: str, key: str, fields: Mapping[str, str | None]) -> bytes:
        """The exact request body for these fields; stored, approved and replayed verbatim."""

    def send(self, request: Send) -> Answer:
        """Make one request. Never raises for anything the network or the API does."""

    def probe(self, sought: Sought) -> Finding:
        """Look for the effect of an operation. Never raises for anything the network or the API does."""

    def read_back(self, operation: str, reference: str) -> Mapping[str, str | None]:
        """The fields of an existing effect, named as `render` takes them. Raises ReadFailed."""


class Crm(Connector, Protocol):
    """A connector whose system holds subjects."""

    def read_subject(self, subject: SubjectRef, wanted: Wanted) -> SubjectReading:
        """Read the record and its linked record, again when torn. Raises ReadFailed, or SubjectGone."""

    def project(self, subject: SubjectRef, properties: Mapping[str, str | None]) -> None:
        """Write only these properties (declared state, latest wins). Raises ReadFailed."""

    def check(self) -> Sequence[str]:
        """Verify credentials with reads only; one line per finding. Raises ReadFailed."""


def account_of(system: str, connector: Connector, *, marked: bool = False) -> Account:
    """The account that a connector reaches as this system; `marked`: with its credential, maybe read from the store."""
    return Account(system, connector.scope, connector.credential_mark() if marked else "")
