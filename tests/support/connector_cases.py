"""The operations that every rule of a connector is tested on, against the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from connectors.hubspot import HubSpot
from connectors.hubspot_contracts import HubSpotTimes
from connectors.stripe import Stripe
from connectors.stripe_contracts import StripeTimes
from domain.ports import Connector, Send, Sought
from domain.signals import Answer, Finding
from sandbox.control import SandboxControl, Seeded

WITHIN = timedelta(seconds=10)
BRIEF = timedelta(seconds=0.4)
KEY = "op-aaaaaaaaaaaaaaaaaaaaaaaaaa"
PORTAL = "90210001"
IBAN = "DE89370400440532013000"


def stripe_to(base_url: str, key: str = "sk_test_sandbox") -> Stripe:
    return Stripe(base_url, key, StripeTimes(read_within=timedelta(seconds=5)))


def hubspot_to(base_url: str, token: str = "pat-sandbox-token") -> HubSpot:
    times = HubSpotTimes(read_within=timedelta(seconds=5))
    return HubSpot(base_url, token, portal_id=PORTAL, app_id="7700123", times=times)


CONNECT: dict[str, Callable[..., Stripe | HubSpot]] = {"stripe": stripe_to, "hubspot": hubspot_to}


@dataclass(frozen=True)
class Case:
    """One operation of one system, and where the sandbox keeps what it makes."""

    system: str
    operation: str
    kind: str
    path: str
    fields: Mapping[str, str | None]

    @property
    def name(self) -> str:
        return f"{self.system}.{self.operation}"

    def fields_for(self, company: Seeded) -> dict[str, str | None]:
        return dict(self.fields) | ({"subject_id": company.company_id} if self.operation == "create_task" else {})


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
)
COMPANY = Case(
    "hubspot",
    "upsert_company",
    "companies",
    "/crm/objects/2026-09/companies/batch/upsert",
    {"partner_key": "PRT-000731", "name": "Northwind Test Partner", "phone": None},
)
CASES = (ACCOUNT, TASK, COMPANY)


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

    def lookups_meet(self, name: str) -> None:
        """Every read of this system meets this fault."""
        self.sandbox.fault(name, times=100, match={"method": "GET", "system": self.case.system})

    def send(self, within: timedelta = WITHIN, content: bytes | None = None) -> Answer:
        """One send, which must be exactly one request at the server."""
        before = len(self.writes())
        request = Send(self.case.operation, KEY, self.content if content is None else content, within)
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
        holder = "metadata" if self.case.system == "stripe" else "properties"
        records = self.sandbox.records(self.case.system, self.case.kind)
        return [record["id"] for record in records if record[holder].get("operation_key") == KEY]
