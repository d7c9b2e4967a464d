"""A whole Counterfoil on real parts for scenario tests: store, engine, sandbox, gateway and worker as processes."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psycopg
from databases import Database
from eventually import ANSWER_SECONDS, eventually
from psycopg.rows import dict_row
from sandboxes import ROOT, SandboxProcess, first_object_id
from sqlalchemy import Connection
from temporalio.client import Client, WorkflowExecutionDescription
from tied import tied

from business_store.actors import add_actor, grant, issue_token
from business_store.audit import audit
from business_store.database import Store
from drill.four_places import FourPlaces
from sandbox.control import SandboxControl, Seeded
from settings import Settings, load_settings
from stack.ports import free_port
from workflows.plugin import counterfoil_plugin

PORTAL, APP = "90210001", "7700123"
TOKEN, STRIPE_KEY, SECRET = "pat-sandbox-token", "sk_test_sandbox", "test-client-secret-0001"
WEBHOOK_SECRET = "whsec_//Q+P3aqkLhjTUJ4HReuWteJ1fnHZJNrKNWYYgbLpUw="
STRIPE_WEBHOOK_SECRET = "whsec_test_stripe_example"
MANAGER, AMENDER = "61000001", "61000002"
PARTNER = {
    "name": "Nordwind Handels GmbH",
    "country": "DE",
    "partner_email": "konto@nordwind.example",
    "legal_form": "GmbH",
    "bank_holder": "Nordwind Handels GmbH",
    "iban": "DE89370400440532013000",
    "phone": "+49 30 5550100",
    "description": "Wholesale partner",
}
CONTACT = {"firstname": "Petra"}
"""Completed by an address of its own for each seed: HubSpot knows one contact for one address."""
FAST = {
    "SEND_BEFORE": "2",
    "SEND_TIMEOUT": "2",
    "READ_TIMEOUT": "2",
    "STEP_MARGIN": "2",
    "SETTLE_TIME": "0.3",
    "VISIBILITY_LAG": "0.3",
    "OUTAGE_LAG": "0.3",
    "FRESH_FOR": "5",
    "RETRY_PAUSE": "0.4",
    "RETRY_LIMIT": "5",
    "RECHECK": "20",
    "SWEEP_INTERVAL": "0.4",
    "SWEEP_LEASE": "2",
    "SWEEP_PATIENCE": "1",
    "ENGINE_CHECK": "4",
    "PROJECTION_INTERVAL": "0.3",
}
"""Time constants that make minutes into moments; the code that uses them is the same."""


@dataclass
class Program:
    """One of our own processes, restartable under the same environment."""

    name: str
    argv: list[str]
    environment: Mapping[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                tied(self.argv), cwd=ROOT, env=dict(self.environment), stdout=log, stderr=log
            )

    def signal(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(90)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)

    def restart(self) -> None:
        self.kill()
        self.start()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid


@dataclass
class World:
    """Everything a scenario touches, with one client for each of the four places."""

    database: Database
    environment: dict[str, str]
    sandbox: SandboxControl
    gateway: Program
    worker: Program
    http: httpx.Client
    store: Store
    tokens: dict[str, str] = field(default_factory=dict)
    loop: asyncio.Runner = field(default_factory=asyncio.Runner)
    """For the engine's client, which is asynchronous."""

    @property
    def settings(self) -> Settings:
        return load_settings(self.environment)

    # ── acting ──────────────────────────────────────────────────────────────────────────────────────────────────

    def seed(self, **changes: str) -> Seeded:
        """A company with owner and primary contact, as the manager made it; not submitted yet."""
        owner: dict[str, object] = {"email": "owner@example.test", "firstName": "Olaf", "lastName": "Owner"}
        contact = {**CONTACT, "email": f"petra.kraft.{secrets.token_hex(4)}@nordwind.example"}
        return self.sandbox.seed({**PARTNER, **changes}, contact=contact, owner=owner, actor=f"userId:{MANAGER}")

    def set_company(self, company_id: str, user: str = MANAGER, **properties: str) -> None:
        """Change properties in the CRM as this user; webhooks follow by themselves."""
        answer = httpx.patch(
            f"{self.sandbox.base_url}/crm/v3/objects/companies/{company_id}",
            json={"properties": properties},
            headers={"Authorization": f"Bearer {TOKEN}", "X-Sandbox-Actor": f"userId:{user}"},
            timeout=ANSWER_SECONDS,
        )
        answer.raise_for_status()

    def submit(self, company_id: str) -> str:
        """Set the stage that starts a run, and wait for the run's id."""
        return self.submit_all([company_id])[0]

    def submit_all(self, company_ids: Sequence[str]) -> list[str]:
        """The same for several at once."""
        for company_id in company_ids:
            self.set_company(company_id, onboarding_stage="submitted")
        return [eventually(partial(self.run_of, company_id), within=15) for company_id in company_ids]

    def run_of(self, company_id: str) -> str | None:
        found = self.listed(f"{PORTAL}-0-2-{company_id}")
        return found[-1]["run"] if found else None

    def actor(self, actor_id: str, *roles: str) -> str:
        """An actor with these roles; returns its token. The same id again is the same actor."""
        if actor_id not in self.tokens:
            self.tokens[actor_id] = self.store.write(lambda connection: _new_actor(connection, actor_id, roles))
        return self.tokens[actor_id]

    def decide(
        self,
        run_id: str,
        outcome: str = "approved",
        *,
        by: str = "sabine",
        version: int | None = None,
        fingerprint: str = "",
    ) -> httpx.Response:
        """A decision by a supervisor about what the run shows now, unless told otherwise."""
        shown = self.show(run_id)
        body = {
            "outcome": outcome,
            "version": version or shown["input_version"],
            "fingerprint": fingerprint or shown["fingerprint"],
        }
        token = self.actor(by, "supervisor")
        return self.http.post(f"/runs/{run_id}/decisions", json=body, headers={"Authorization": f"Bearer {token}"})

    def approve(self, run_id: str) -> None:
        """Wait for the question about the newest version, and approve it."""
        self.wait_state(run_id, "awaiting_review")
        decided = self.decide(run_id)
        assert decided.status_code == 200, decided.text

    def fault(self, name: str, *, times: int = 1, match: dict[str, str], **params: object) -> None:
        """What the next fitting calls meet outside."""
        self.sandbox.fault(name, times=times, match=match, **params)

    def resolve(self, run_id: str, action: str, *, by: str = "otto", **more: str) -> httpx.Response:
        body = {"action": action, "reason": "checked by hand", "evidence": "ticket 4711", **more}
        token = self.actor(by, "operator")
        return self.http.post(f"/runs/{run_id}/resolutions", json=body, headers={"Authorization": f"Bearer {token}"})

    # ── looking ─────────────────────────────────────────────────────────────────────────────────────────────────

    def show(self, run_id: str) -> dict[str, Any]:
        answer = self.http.get(f"/runs/{run_id}")
        answer.raise_for_status()
        return dict(answer.json())

    def events(self, run_id: str) -> list[dict[str, Any]]:
        return list(self.http.get(f"/runs/{run_id}/events", params={"limit": 200}).json())

    def listed(self, business_key: str) -> list[dict[str, Any]]:
        """The runs of this key, the newest first."""
        return list(self.http.get("/runs", params={"business_key": business_key}).json())

    def wait_state(self, run_id: str, *states: str, reason: str | None = None, within: float = 30) -> dict[str, Any]:
        """Until the run is in one of these states (and for this reason)."""

        def reached() -> dict[str, Any]:
            shown = self.show(run_id)
            assert shown["state"] in states, f"{shown['state']} ({shown['reason']}), engine {shown['engine']}"
            assert reason in (None, shown["reason"]), f"{shown['state']} ({shown['reason']})"
            return shown

        return eventually(reached, within=within)

    def wait_version(self, run_id: str, version: int) -> dict[str, Any]:
        """Until the run waits for approval of this version."""
        return eventually(
            lambda: (s := self.show(run_id))["state"] == "awaiting_review" and s["input_version"] == version and s, 30
        )

    def agrees(
        self, run_id: str, state: str = "succeeded", *, accounts: int = 1, tasks: int = 1, audited: bool = True
    ) -> dict[str, Any]:
        """Store, engine, CRM and provider agree on the end, or the wait, of this run; the run as shown."""
        shown = FourPlaces(self, run_id).agree(state, accounts, tasks)
        if audited:
            self.keeps_its_word()
        return shown

    def keeps_its_word(self) -> None:
        """The audit of the whole store finds nothing."""
        with self.store.reading() as connection:
            assert audit(connection) == []

    def wait_quiet(self, run_id: str) -> None:
        """Until nothing that the CRM told of is under way any more, and the run has seen all of it."""
        self.sandbox.wait_until_delivered()
        eventually(lambda: self.show(run_id)["engine"]["unseen_nudges"] == 0, 20)

    def execution(self, workflow_id: str) -> WorkflowExecutionDescription:
        """The engine's own record of an execution."""
        return self.loop.run(self._described(workflow_id))

    async def _described(self, workflow_id: str) -> WorkflowExecutionDescription:
        client = await Client.connect(self.environment["TEMPORAL_ADDRESS"], plugins=[counterfoil_plugin()])
        return await client.get_workflow_handle(workflow_id).describe()

    def rows(self, statement: str, *parameters: object) -> list[dict[str, Any]]:
        """Rows of the store, read as superuser."""
        with psycopg.connect(self.database.superuser_dsn, row_factory=dict_row) as connection:
            return connection.execute(statement, parameters).fetchall()

    def accounts(self, run_id: str) -> list[dict[str, Any]]:
        """The provider's own records that name this run."""
        found = self.sandbox.records("stripe", "accounts")
        return [a for a in found if a.get("metadata", {}).get("run_id") == run_id and not a.get("deleted")]

    def tasks(self, run_id: str) -> list[dict[str, Any]]:
        """The CRM's own tasks that name this run."""
        return [t for t in self.sandbox.records("hubspot", "tasks") if run_id in json.dumps(t)]

    def company(self, company_id: str) -> dict[str, Any]:
        """The CRM's own record."""
        return next(c for c in self.sandbox.records("hubspot", "companies") if c["id"] == company_id)


def _new_actor(connection: Connection, actor_id: str, roles: tuple[str, ...]) -> str:
    add_actor(connection, actor_id, "person", actor_id.capitalize())
    for role in roles:
        grant(connection, actor_id, role)
    return issue_token(connection, actor_id)[1]


def environment_for(database: Database, temporal: str, sandbox: str, task_queue: str) -> dict[str, str]:
    """The environment of gateway, worker and CLI in a test."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    own = {
        "DATABASE_URL": database.url,
        "DATABASE_OWNER_URL": database.owner_url,
        "DATABASE_RETENTION_URL": database.retention_url,
        "GATEWAY_PORT": str(port),
        "PUBLIC_URL": url,
        "TASK_QUEUE": task_queue,
        "HUBSPOT_BASE_URL": sandbox,
        "HUBSPOT_TOKEN": TOKEN,
        "HUBSPOT_CLIENT_SECRET": SECRET,
        "HUBSPOT_PUBLIC_URL": f"{url}/triggers/hubspot",
        "HUBSPOT_PORTAL_ID": PORTAL,
        "HUBSPOT_APP_ID": APP,
        "STRIPE_BASE_URL": sandbox,
        "STRIPE_SECRET_KEY": STRIPE_KEY,
        "STRIPE_WEBHOOK_SECRET": STRIPE_WEBHOOK_SECRET,
        "STANDARD_WEBHOOKS_SECRET": WEBHOOK_SECRET,
        **FAST,
    }
    clean = {name: text for name, text in os.environ.items() if not name.startswith(("COUNTERFOIL_", "TEMPORAL_"))}
    return {**clean, "TEMPORAL_ADDRESS": temporal, **{f"COUNTERFOIL_{name}": text for name, text in own.items()}}


@contextmanager
def world(
    database: Database, temporal: str, sandbox: SandboxProcess, folder: Path, **overrides: str
) -> Iterator[World]:
    """A running world; `overrides` are settings such as `review_deadline="1"`."""
    environment = environment_for(database, temporal, sandbox.url, f"q-{database.name}")
    environment |= {f"COUNTERFOIL_{name.upper()}": text for name, text in overrides.items()}
    gateway = Program("gateway", [sys.executable, "-m", "gateway"], environment, folder / "gateway.log")
    worker = Program("worker", [sys.executable, "worker.py"], environment, folder / "worker.log")
    url = environment["COUNTERFOIL_PUBLIC_URL"]
    store = Store(database.url, 3)
    with (
        SandboxControl(sandbox.url) as control,
        httpx.Client(base_url=url, timeout=ANSWER_SECONDS, trust_env=False) as http,
    ):
        control.settings(next_object_id=first_object_id())
        control.settings(webhook_urls=[f"{url}/triggers/hubspot"], webhook_secret=SECRET)
        built = World(database, environment, control, gateway, worker, http, store)
        try:
            for program in (gateway, worker):
                program.start()
            eventually(lambda: http.get("/health/ready").is_success, within=60)
            yield built
        finally:
            store.close()
            built.loop.close()
            for program in (worker, gateway):
                if program.process is not None and program.process.poll() is None:
                    program.kill()
