"""One lane of the drill: a database, a task queue, a gateway and a worker of its own, and one run at a time."""

from __future__ import annotations

import itertools
import json
import secrets
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import httpx
import psycopg
from sqlalchemy import Connection
from temporalio.client import WorkflowExecutionDescription

from business_store.actors import add_actor, grant, issue_token
from business_store.audit import Violation, audit
from business_store.database import Store
from domain.identity import SubjectRef, short_digest, subject_key
from domain.partner_onboarding import ONBOARDING
from drill.ends import STRIPE
from drill.ground import Ground
from drill.hook import REACHED, TRACE, Order
from drill.points import Action, Point
from drill.processes import Process
from drill.waiting import until
from gateway.signatures import sign_hubspot_v3

PORTAL, APP = "90210001", "7700123"
TOKEN, STRIPE_KEY, SECRET = "pat-sandbox-token", "sk_test_sandbox", "drill-client-secret"
CALLBACK_SECRET = "whsec_ZHJpbGwtcHJhY3RpY2UtY2FsbGJhY2tz"
MANAGER, AMENDER = "61000001", "61000002"
PARTNER = {
    "name": "Nordwind Handels GmbH",
    "country": "DE",
    "legal_form": "GmbH",
    "bank_holder": "Nordwind Handels GmbH",
    "iban": "DE89370400440532013000",
    "phone": "+49 30 5550100",
    "description": "Wholesale partner",
}
ANSWERED_WITHIN = 180.0
RESTS_ON = {"reason": "seen in the drill", "evidence": "the provider's records"}

_events = itertools.count(secrets.randbelow(10**9) * 1000)


@dataclass(frozen=True)
class Subject:
    """The company of one schedule; `mark` is in every send about it, and the run's id is known before the run is."""

    company_id: str
    mark: str
    request_id: str
    run_id: str
    key: str


@dataclass
class Slot:
    """Everything that one schedule touches."""

    ground: Ground
    name: str
    mode: str
    folder: Path
    environment: dict[str, str]
    seeing: psycopg.Connection[dict[str, Any]]
    store: Store
    http: httpx.Client
    gateway: Process
    workers: list[Process] = field(default_factory=list)
    tokens: dict[str, str] = field(default_factory=dict)
    order: Order | None = None
    beside: Callable[[], None] = lambda: None
    """What the world does by itself while somebody waits for the run."""
    _acting: Lock = field(default_factory=Lock)
    _orders: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    # ── processes ───────────────────────────────────────────────────────────────────────────────────────────────

    def start_worker(self) -> Process:
        """One more worker."""
        made = self.ground.nursery.start("worker", self.environment, self.folder / "worker.log")
        self.workers.append(made)
        return made

    def ordered(self, run_id: str, action: Action | None, point: Point | None) -> Order:
        """What the processes of this slot are to do at their points from now on."""
        self.order = Order(next(self._orders), run_id, action, point)
        self.order.written(self.folder)
        return self.order

    def tend(self) -> None:
        """Start again what has died, and a second worker beside one that stands still."""
        self.workers = [each for each in self.workers if not each.ended.is_set()]
        alone = len(self.workers) == 1
        if not self.workers or (alone and self._frozen()):
            self.start_worker()
        if self.gateway.ended.is_set():
            self.gateway = self.ground.nursery.start("gateway", self.environment, self.folder / "gateway.log")

    def _frozen(self) -> bool:
        return self.order is not None and self.order.action is Action.FREEZE and self.reached()

    def thaw(self) -> None:
        """Let what stood still do the rest of its work, and end it."""
        if not self.workers:
            return
        frozen = self.workers[0]
        frozen.signal(signal.SIGCONT)
        frozen.signal(signal.SIGTERM)
        until(frozen.ended.is_set, ANSWERED_WITHIN, "the thawed worker ends")

    def reached(self) -> bool:
        """Whether a process came to the point that was ordered."""
        return self.order is not None and (self.folder / f"{REACHED}-{self.order.number}").exists()

    def trace(self) -> list[str]:
        """The points that this slot's processes came to under the present order."""
        lines = (self.folder / TRACE).read_text().splitlines()
        own = f"{self.order.number if self.order else 0} "
        return [line.removeprefix(own) for line in lines if line.startswith(own)]

    # ── acting ──────────────────────────────────────────────────────────────────────────────────────────────────

    def seed(self) -> Subject:
        """A company as its manager made it; not submitted yet."""
        mark = secrets.token_hex(8)
        owner: dict[str, object] = {"email": "owner@example.test", "firstName": "Olaf", "lastName": "Owner"}
        contact = {"firstname": "Petra", "email": f"petra.{mark}@nordwind.example"}
        company = {**PARTNER, "partner_email": f"{mark}@partner.example", "onboarding_stage": "submitted"}
        seeded = self.ground.sandbox.seed(company, contact=contact, owner=owner, actor=f"userId:{MANAGER}")
        key = subject_key(SubjectRef("hubspot", PORTAL, "0-2", seeded.company_id))
        request_id = f"req-{short_digest(ONBOARDING.name, key)}"
        return Subject(seeded.company_id, mark, request_id, f"run-{short_digest(request_id, '1')}", key)

    def change(self, subject: Subject, user: str = AMENDER, **properties: str) -> None:
        """Change the company in the CRM; nobody is told of it here."""
        answer = httpx.patch(
            f"{self.ground.sandbox.base_url}/crm/v3/objects/companies/{subject.company_id}",
            json={"properties": properties},
            headers={"Authorization": f"Bearer {TOKEN}", "X-Sandbox-Actor": f"userId:{user}"},
            timeout=20,
            trust_env=False,
        )
        answer.raise_for_status()

    def remove(self, subject: Subject) -> None:
        """Delete the company in the CRM."""
        url = f"{self.ground.sandbox.base_url}/crm/v3/objects/companies/{subject.company_id}"
        answer = httpx.delete(url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=20, trust_env=False)
        answer.raise_for_status()

    def element(self, subject: Subject, name: str, value: str, user: str = MANAGER) -> dict[str, Any]:
        """A change as HubSpot tells it."""
        return {
            "eventId": next(_events),
            "subscriptionId": 550011,
            "portalId": int(PORTAL),
            "appId": int(APP),
            "occurredAt": time.time_ns() // 1_000_000,
            "subscriptionType": "object.propertyChange",
            "attemptNumber": 0,
            "objectId": int(subject.company_id),
            "objectTypeId": "0-2",
            "changeSource": "CRM_UI",
            "sourceId": f"userId:{user}",
            "propertyName": name,
            "propertyValue": value,
        }

    def submitted(self, subject: Subject) -> dict[str, Any]:
        """The change that starts the run."""
        return self.element(subject, "onboarding_stage", "submitted")

    def deliver(self, *elements: dict[str, Any]) -> list[dict[str, Any]]:
        """Signed, and again until it is taken, as the CRM does; what became of each element."""
        body = json.dumps(elements).encode()

        def taken() -> httpx.Response | None:
            stamp = time.time_ns() // 1_000_000
            signed = sign_hubspot_v3(SECRET, self.environment["COUNTERFOIL_HUBSPOT_PUBLIC_URL"], stamp, body)
            answer = self.post("/triggers/hubspot", content=body, headers=signed)
            return answer if answer is not None and answer.status_code == 202 else None

        return list(until(taken, ANSWERED_WITHIN, "a trigger that is taken").json()["elements"])

    def post(self, path: str, **request: Any) -> httpx.Response | None:  # noqa: ANN401 (httpx's own)
        """The answer; None where the gateway died under it, which is started again."""
        try:
            return self.http.post(path, **request)
        except httpx.TransportError:
            self.tend()
            return None

    def said(self, path: str, body: Mapping[str, object], actor: str, *roles: str) -> httpx.Response:
        """The same request by a person, again until it is answered."""
        headers = {"Authorization": f"Bearer {self.token(actor, *roles)}"}

        def answered() -> httpx.Response | None:
            answer = self.post(path, json=dict(body), headers=headers)
            return answer if answer is not None and answer.status_code < 500 else None

        return until(answered, ANSWERED_WITHIN, f"an answer to {path}")

    def decide(self, run_id: str, outcome: str = "approved", actor: str = "sabine", **other: object) -> httpx.Response:
        """A decision about what the run shows now, unless told otherwise."""
        shown = self.show(run_id)
        body = {"outcome": outcome, "version": shown["input_version"], "fingerprint": shown["fingerprint"]}
        return self.said(f"/runs/{run_id}/decisions", {**body, **other}, actor, "supervisor")

    def resolve(self, run_id: str, action: str, **more: str) -> httpx.Response:
        """An operator's word."""
        body = {"action": action, **RESTS_ON, **more}
        return self.said(f"/runs/{run_id}/resolutions", body, "otto", "operator")

    def token(self, actor: str, *roles: str) -> str:
        """Of an actor with these roles."""
        with self._acting:
            if actor not in self.tokens:
                self.tokens[actor] = self.store.write(lambda connection: _new_actor(connection, actor, roles))
            return self.tokens[actor]

    # ── looking ─────────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, path: str, **params: str | int) -> Any:  # noqa: ANN401 (any JSON)
        """What the gateway shows, as soon as it answers."""

        def answered() -> httpx.Response | None:
            try:
                answer = self.http.get(path, params=params)
            except httpx.TransportError:
                self.tend()
                return None
            return answer if answer.status_code < 500 else None

        return until(answered, ANSWERED_WITHIN, f"an answer to {path}").json()

    def show(self, run_id: str) -> dict[str, Any]:
        """The run as the gateway shows it."""
        return dict(self.get(f"/runs/{run_id}"))

    def events(self, run_id: str) -> list[dict[str, Any]]:
        return list(self.get(f"/runs/{run_id}/events", limit=200))

    def listed(self, business_key: str) -> list[dict[str, Any]]:
        return list(self.get("/runs", business_key=business_key))

    def rows(self, statement: str, *parameters: object) -> list[dict[str, Any]]:
        """Rows of the store, read as superuser."""
        return self.seeing.execute(statement, parameters).fetchall()

    def execution(self, workflow_id: str) -> WorkflowExecutionDescription:
        """The engine's own record; it changes only while somebody works."""
        self.tend()
        client = self.ground.engine.client
        return self.ground.engine.run(client.get_workflow_handle(workflow_id).describe())

    def company(self, company_id: str) -> dict[str, Any]:
        """The CRM's own record."""
        return next(each for each in self.ground.sandbox.records("hubspot", "companies") if each["id"] == company_id)

    def tasks(self, run_id: str) -> list[dict[str, Any]]:
        """The CRM's own tasks that name this run."""
        return [task for task in self.ground.sandbox.records("hubspot", "tasks") if run_id in json.dumps(task)]

    def accounts(self, run_id: str) -> list[dict[str, Any]]:
        """The provider's own records that name this run."""
        if self.mode != STRIPE:
            return [_as_stripe(each) for each in self.practised(run_id)]
        found = self.ground.sandbox.records("stripe", "accounts")
        return [each for each in found if each.get("metadata", {}).get("run_id") == run_id and not each.get("deleted")]

    def practised(self, run_id: str) -> list[dict[str, Any]]:
        """The same as a practice contract shows them."""
        return [each for each in self.ground.sandbox.records("practice", self.mode) if each["run_id"] == run_id]

    def audited(self) -> list[Violation]:
        """What the audit of this slot's store finds."""
        with self.store.reading() as connection:
            return audit(connection)


def _as_stripe(account: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": account["id"], "metadata": {"run_id": account["run_id"], "operation_key": account["reference"]}}


def _new_actor(connection: Connection, actor_id: str, roles: tuple[str, ...]) -> str:
    add_actor(connection, actor_id, "person", actor_id.capitalize())
    for role in roles:
        grant(connection, actor_id, role)
    return issue_token(connection, actor_id)[1]
