"""The doors that the demo comes in by: the CLI, the gateway, the CRM's and the provider's HTTP APIs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from sandbox.control import SandboxControl

HTTP_SECONDS = 60.0
CLI_SECONDS = 60.0
COMPANIES = "/crm/v3/objects/companies"


@dataclass(frozen=True)
class Doors:
    """Clients of a running stack, all made from the environment that it publishes."""

    environment: Mapping[str, str] = field(repr=False)
    sandbox: SandboxControl
    gateway: httpx.Client
    crm: httpx.Client
    provider: httpx.Client

    def counterfoil(self, *words: str, token: str = "") -> Said:
        """The command line as a person types it, with `--json`."""
        program = str(Path(sys.executable).with_name("counterfoil"))
        environment = {**_clean(os.environ), **self.environment, "COUNTERFOIL_TOKEN": token}
        done = subprocess.run(
            (program, *words, "--json"),
            env=environment,
            timeout=CLI_SECONDS,
            capture_output=True,
            text=True,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def run(self, run_id: str) -> dict[str, Any]:
        """The run as the gateway shows it."""
        return dict(_json(self.gateway.get(f"/runs/{run_id}")))

    def run_about(self, business_key: str) -> str | None:
        """Id of the newest run of this business key."""
        found = _json(self.gateway.get("/runs", params={"business_key": business_key}))
        return str(found[0]["run"]) if found else None

    def change_company(self, company_id: str, user: str, properties: Mapping[str, str]) -> None:
        """As this CRM user; HubSpot's webhooks follow by themselves."""
        headers = {"X-Sandbox-Actor": f"userId:{user}"}
        _json(self.crm.patch(f"{COMPANIES}/{company_id}", json={"properties": dict(properties)}, headers=headers))

    def accounts(self, run_id: str) -> list[dict[str, Any]]:
        """The provider's accounts that name this run."""
        found = _json(self.provider.get("/v1/accounts", params={"limit": "100"}))["data"]
        return [account for account in found if account["metadata"].get("run_id") == run_id]


@dataclass(frozen=True)
class Said:
    """How a command ended and what it printed."""

    code: int
    output: str
    errors: str

    @property
    def document(self) -> Any:  # noqa: ANN401 (any JSON)
        try:
            return json.loads(self.output or self.errors)
        except ValueError:
            return {"message": (self.errors or self.output).strip()[-2000:]}


@contextmanager
def opened(environment: Mapping[str, str]) -> Iterator[Doors]:
    with ExitStack() as closing:

        def client(base: str, token: str = "") -> httpx.Client:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            made = httpx.Client(base_url=base, headers=headers, timeout=HTTP_SECONDS, trust_env=False)
            return closing.enter_context(made)

        yield Doors(
            environment,
            closing.enter_context(SandboxControl(environment["COUNTERFOIL_HUBSPOT_BASE_URL"])),
            client(environment["COUNTERFOIL_PUBLIC_URL"]),
            client(environment["COUNTERFOIL_HUBSPOT_BASE_URL"], environment["COUNTERFOIL_HUBSPOT_TOKEN"]),
            client(environment["COUNTERFOIL_STRIPE_BASE_URL"], environment["COUNTERFOIL_STRIPE_SECRET_KEY"]),
        )


def _json(answer: httpx.Response) -> Any:  # noqa: ANN401 (any JSON)
    answer.raise_for_status()
    return answer.json()


def _clean(variables: Mapping[str, str]) -> dict[str, str]:
    """Without what this shell says of another Counterfoil or Temporal."""
    return {name: text for name, text in variables.items() if not name.startswith(("COUNTERFOIL_", "TEMPORAL_"))}
