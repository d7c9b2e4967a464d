"""The operations that every rule of a connector is tested on, against the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import pytest

from connectors.hubspot import HubSpot
from connectors.hubspot_contracts import HubSpotTimes
from connectors.stripe import Stripe
from connectors.stripe_contracts import StripeTimes
from domain.contracts import Contract, Keyed, LookupLagged, LookupStrong, NoRecovery, SavedId, Upsert
from domain.ports import Connector, Send, Sought
from domain.signals import Answer, Finding, Found
from drill.practice import Practice
from drill.practice_contracts import PracticeTimes
from sandbox.control import SandboxControl, Seeded

WITHIN = timedelta(seconds=60)
BRIEF = timedelta(seconds=1)
KEY = "op-aaaaaaaaaaaaaaaaaaaaaaaaaa"
PORTAL = "90210001"
IBAN = "DE89370400440532013000"


class Closeable(Connector, Protocol):
    """A connector of ours, with its connections."""

    def close(self) -> None: ...


Connect = Callable[..., Closeable]


def stripe_to(base_url: str, key: str = "sk_test_sandbox") -> Stripe:
    return Stripe(base_url, key, StripeTimes(read_within=WITHIN))


def hubspot_to(base_url: str, token: str = "pat-sandbox-token") -> HubSpot:
    times = HubSpotTimes(read_within=WITHIN)
    return HubSpot(base_url, token, portal_id=PORTAL, app_id="7700123", times=times)


def practice_to(mode: str) -> Connect:
    times = PracticeTimes(read_within=WITHIN)
    return lambda base_url, token="practice-sandbox-token": Practice(base_url, token, mode, times)


@dataclass(frozen=True)
class Case:
    """One operation of one system, where the sandbox keeps what it makes, and what the API promises.

    `holder` is where a record carries our key; `looks_up`: whether it is found without its id; `guarded`: whether a
    repeat makes no second record; `refuses`: whether a rate limit is documented to refuse before execution.
    """

    system: str
    operation: str
    kind: str
    path: str
    fields: Mapping[str, str | None]
    connect: Connect
    holder: str | None
    kinds: tuple[type[Contract], ...]
    looks_up: bool = True
    guarded: bool = True
    refuses: bool = True

    @property
    def name(self) -> str:
        return f"{self.system}.{self.kind if self.system == 'practice' else self.operation}"

    def fields_for(self, company: Seeded) -> dict[str, str | None]:
        return dict(self.fields) | ({"subject_id": company.company_id} if self.operation == "create_task" else {})

    def seen(self, found: Found) -> Found:
        """What a look-up by our key says of it."""
        return found if self.looks_up else Found.FAILED

    def key_in(self, record: Mapping[str, Any]) -> object:
        return record["reference"] if self.holder is None else record[self.holder].get("operation_key")


ACCOUNT = Case(
    "stripe",
    "create_account",
    "accounts",
    "/v1/accounts",
    {
        "name": "Nörthwind & Söhne GmbH",
        "country": "DE",
        "email": "partner731@example.test",
        "legal_form": "GmbH",
        "bank_holder": "Nörthwind & Söhne GmbH",
        "iban": IBAN,
        "run_id": "run_0042",
    },
    stripe_to,
    "metadata",
    (Keyed, LookupStrong),
)
TASK = Case(
    "hubspot",
    "create_task",
    "tasks",
    "/crm/objects/2026-09/tasks",
    {
        "owner": "61000001",
        "title": "Verify partner account",
        "body": "Check ä < & 'quotes'",
        "due_at": "2026-11-03T09:00:00.000Z",
        "run_id": "run_0042",
    },
    hubspot_to,
    "properties",
    (Upsert, LookupLagged),
)
COMPANY = Case(
    "hubspot",
    "upsert_company",
    "companies",
    "/crm/objects/2026-09/companies/batch/upsert",
    {"partner_key": "PRT-000731", "name": "Northwind Test Partner", "phone": None},
    hubspot_to,
    "properties",
    (Upsert, LookupLagged),
)
PRACTISED: Mapping[str, tuple[type[Contract], ...]] = {
    "keyed_store_all": (Keyed, LookupStrong),
    "keyed_store_2xx": (Keyed, LookupStrong),
    "keyed_rerun_failed": (Keyed, LookupStrong),
    "keyed_ignore_body": (Keyed,),
    "keyed_conflict_names_id": (Keyed,),
    "keyed_conflict_400": (Keyed, LookupStrong),
    "upsert_unique": (Upsert,),
    "create_once_409_text_id": (Upsert,),
    "create_once_400": (Upsert,),
    "lookup_strong_after_H": (LookupStrong,),
    "lookup_lagged": (LookupLagged,),
    "callback_only": (SavedId,),
    "none": (NoRecovery,),
}


def practice_case(mode: str) -> Case:
    """The practice provider's create in one mode."""
    kinds = PRACTISED[mode]
    return Case(
        "practice",
        "create_account",
        mode,
        f"/practice/{mode}/accounts",
        ACCOUNT.fields,
        practice_to(mode),
        None,
        kinds,
        looks_up=not {Upsert, LookupStrong, LookupLagged}.isdisjoint(kinds),
        guarded=not {Keyed, Upsert}.isdisjoint(kinds),
        refuses=False,
    )


def modes(*names: str) -> pytest.MarkDecorator:
    """The modes of which a test says something; without it, all."""
    return pytest.mark.parametrize("practised", [practice_case(name) for name in names], ids=names, indirect=True)


KEYED = tuple(mode for mode, kinds in PRACTISED.items() if Keyed in kinds)
LOOKED_UP = tuple(mode for mode in PRACTISED if practice_case(mode).looks_up)
PRACTICE = tuple(map(practice_case, PRACTISED))
CASES = (ACCOUNT, TASK, COMPANY, *PRACTICE)


@dataclass
class Made:
    """A case with its connector and the bytes that were rendered for it."""

    case: Case
    connector: Connector
    sandbox: SandboxControl
    fields: dict[str, str | None]
    since: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def content(self) -> bytes:
        return self.connector.render(self.case.operation, KEY, self.fields)

    def fault(self, name: str, **params: object) -> None:
        """The next write of this case meets this fault."""
        self.sandbox.fault(name, times=1, match={"method": "POST", "path_prefix": self.case.path}, **params)

    def lookups_meet(self, name: str, times: int = 100) -> None:
        """The next reads of this system meet this fault."""
        self.sandbox.fault(name, times=times, match={"method": "GET", "system": self.case.system})

    def send(self, within: timedelta = WITHIN, content: bytes | None = None, key: str = KEY) -> Answer:
        """One send, which must be exactly one request at the server."""
        before = len(self.writes())
        request = Send(self.case.operation, key, self.content if content is None else content, within)
        answer = self.connector.send(request)
        assert len(self.writes()) == before + 1
        return answer

    def writes(self) -> list[dict[str, Any]]:
        return [one for one in self.sandbox.requests(method="POST") if one["path"] == self.case.path]

    def probe(self, reference: str | None = None, content: bytes | None = None) -> Finding:
        sought = Sought(self.case.operation, KEY, self.content if content is None else content, self.since, reference)
        return self.connector.probe(sought)

    def ours(self) -> list[str]:
        """Ids of the records in the sandbox that carry our key."""
        records = self.sandbox.records(self.case.system, self.case.kind)
        return [record["id"] for record in records if self.case.key_in(record) == KEY]
