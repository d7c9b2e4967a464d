"""Records the histories that tests/workflows/test_replay.py replays: `python tests/workflows/record_histories.py`.

Run it after a change that workflow code takes on purpose, with the old files kept: a history stays valid for as long as
an execution that began under it may be open. New files go beside the old ones under the next version of the code
(`CODE_VERSION` in domain/execution.py), which is the name of their folder. Names of machines are taken out.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from databases import fresh_database, make_template  # noqa: E402 (the path comes first in a script)
from engine_view import EngineView  # noqa: E402
from eventually import ANSWER_SECONDS, eventually  # noqa: E402
from sandboxes import SandboxProcess, sandbox_process  # noqa: E402
from temporalio.client import Client, WorkflowExecutionStatus  # noqa: E402
from world import PORTAL, STRIPE_KEY, World, world  # noqa: E402

from business_store.sweeping import raise_epoch  # noqa: E402
from domain.execution import CODE_VERSION  # noqa: E402
from stack.child import Files  # noqa: E402
from stack.ports import free_port  # noqa: E402
from stack.postgres import EmbeddedPostgres, PostgresSettings  # noqa: E402
from stack.temporal import EmbeddedTemporal, TemporalSettings  # noqa: E402

FOLDER = Path(__file__).parent / "histories" / f"v{CODE_VERSION}"
ACCOUNTS = {"method": "POST", "path_prefix": "/v1/accounts"}
Scenario = Callable[["Recording"], None]


class Recording:
    """One world, and the files that its executions become."""

    def __init__(self, running: World, engine: EngineView) -> None:
        self.world = running
        self.engine = engine

    def begun(self, **changes: str) -> tuple[str, str]:
        """Company id and run id of a submitted partner."""
        company_id = self.world.seed(**changes).company_id
        return company_id, self.world.submit(company_id)

    def keep(self, name: str, run_id: str, epoch: int | None = None) -> None:
        """Write the execution's history as it is now."""
        text = self.engine.history(run_id, epoch).to_json()
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / f"{name}.json").write_text(anonymous(text) + "\n")
        print(f"{name}: {len(json.loads(text)['events'])} events")

    def close(self, name: str, run_id: str, state: str = "succeeded") -> None:
        """Wait for the end of run and execution, then write the history."""
        self.world.wait_state(run_id, state)
        eventually(lambda: self.engine.status(run_id) is WorkflowExecutionStatus.COMPLETED)
        self.keep(name, run_id)


def anonymous(text: str) -> str:
    """The history without process and machine names."""
    named = re.sub(r'("identity": )"[^"]*"', r'\1"recorded"', text)
    return named.replace(socket.gethostname(), "host")


# ── Histories that run past every waiting point ─────────────────────────────────────────────────────────────────


def straight(at: Recording) -> None:
    _, run_id = at.begun()
    at.world.wait_state(run_id, "awaiting_review")
    at.keep("open_awaiting_review", run_id)
    at.world.approve(run_id)
    at.close("straight", run_id)


def amended(at: Recording) -> None:
    company_id, run_id = at.begun()
    at.world.wait_state(run_id, "awaiting_review")
    at.world.set_company(company_id, name="Nordwind Handel und Logistik GmbH")
    at.world.wait_version(run_id, 2)
    at.world.approve(run_id)
    at.close("amended", run_id)


def amended_unseen(at: Recording) -> None:
    """The record changed without a message: the permit's own reading finds it, and leads back to review."""
    company_id, run_id = at.begun()
    at.world.wait_state(run_id, "awaiting_review")
    at.world.sandbox.settings(webhook_hold=True)
    at.world.set_company(company_id, name="Nordwind Handel und Logistik GmbH")
    at.world.approve(run_id)
    at.world.wait_version(run_id, 2)
    at.world.sandbox.settings(webhook_hold=False)
    at.world.sandbox.wait_until_delivered()
    at.world.approve(run_id)
    at.close("amended_unseen", run_id)


def changes_requested(at: Recording) -> None:
    company_id, run_id = at.begun(iban="")
    at.world.wait_state(run_id, "waiting", reason="inputs_incomplete")
    at.keep("open_waiting", run_id)
    at.world.set_company(company_id, iban="DE89370400440532013000")
    at.world.wait_state(run_id, "awaiting_review")
    at.world.decide(run_id, "changes_requested")
    at.world.wait_state(run_id, "waiting", reason="changes_requested")
    at.world.set_company(company_id, name="Nordwind Handel und Logistik GmbH")
    at.world.approve(run_id)
    at.close("changes_requested", run_id)


def rejected(at: Recording) -> None:
    _, run_id = at.begun()
    at.world.wait_state(run_id, "awaiting_review")
    at.world.decide(run_id, "rejected")
    at.close("rejected", run_id, "failed")


def outcome_unknown(at: Recording) -> None:
    _, run_id = at.begun()
    at.world.fault("drop_after_commit", match=ACCOUNTS)
    at.world.approve(run_id)
    at.world.wait_state(run_id, "outcome_unknown")
    at.keep("open_outcome_unknown", run_id)
    at.close("outcome_unknown", run_id)


def operator(at: Recording) -> None:
    """The account is changed behind our back before it is compared, and mended by hand."""
    _, run_id = at.begun()
    at.world.fault("slow_before", match={"method": "POST", "path_prefix": "/crm/objects/2026-09/tasks"}, seconds=1.5)
    at.world.approve(run_id)
    account = eventually(lambda: at.world.accounts(run_id))[0]
    change_account(at.world, account["id"], "elsewhere@nordwind.example")
    at.world.wait_state(run_id, "needs_operator", reason="records_disagree")
    at.keep("open_needs_operator", run_id)
    change_account(at.world, account["id"], account["email"])
    at.world.resolve(run_id, "retry")
    at.close("operator", run_id)


def change_account(running: World, account_id: str, email: str) -> None:
    url = f"{running.sandbox.base_url}/v1/accounts/{account_id}"
    httpx.post(url, data={"email": email}, auth=(STRIPE_KEY, ""), timeout=ANSWER_SECONDS).raise_for_status()


def retrying(at: Recording) -> None:
    company_id = at.world.seed().company_id
    match = {"method": "GET", "path_prefix": f"/crm/objects/2026-09/0-2/{company_id}"}
    at.world.fault("error_500_before", match=match, times=50)
    run_id = at.world.submit(company_id)
    at.world.wait_state(run_id, "retrying")
    at.keep("open_retrying", run_id)
    at.world.sandbox.clear_faults()
    at.world.wait_state(run_id, "awaiting_review")
    at.world.approve(run_id)
    at.close("retrying", run_id)


def rehearsal(at: Recording) -> None:
    company_id = at.world.seed().company_id
    subject = f"hubspot:{PORTAL}:0-2:{company_id}"
    headers = {"Authorization": f"Bearer {at.world.actor('otto', 'operator')}"}
    body = {"process": "partner-onboarding", "subject": subject, "rehearsal": True}
    made = at.world.http.post("/runs", json=body, headers=headers).raise_for_status().json()
    at.close("rehearsal", made["run"])


def messages(at: Recording) -> None:
    """Signals of all shapes, before and between."""
    _, run_id = at.begun()
    at.world.wait_state(run_id, "awaiting_review")
    for words in (("nudge",), ("nudge", "--input", "1", "--input", "[]"), ("approve", "--input", '{"a": 1}')):
        at.engine.send(run_id, *words)
    at.world.approve(run_id)
    at.close("messages", run_id)


def superseded(at: Recording) -> None:
    """A raised epoch while the old execution still waits: at its next look it ends."""
    _, run_id = at.begun()
    at.world.wait_state(run_id, "awaiting_review")
    epoch = at.world.show(run_id)["engine"]["epoch"]
    at.world.store.write(lambda connection: raise_epoch(connection, run_id, epoch))
    eventually(lambda: at.world.show(run_id)["engine"]["temporal_run_id"], 30)
    at.engine.run(at.engine.handle(run_id, epoch).signal("nudge"))
    eventually(lambda: at.engine.status(run_id, epoch) is WorkflowExecutionStatus.COMPLETED)
    at.keep("superseded", run_id, epoch)


def expired(at: Recording) -> None:
    _, run_id = at.begun()
    at.close("expired", run_id, "expired")


SCENARIOS: tuple[Scenario, ...] = (
    *(straight, amended, amended_unseen, changes_requested, rejected),
    *(outcome_unknown, operator, retrying, rehearsal, messages, superseded),
)


def main() -> None:
    """Record everything anew."""
    with tempfile.TemporaryDirectory() as folder, servers(Path(folder)) as (postgres, temporal, sandbox):
        for scenarios, overrides in ((SCENARIOS, {}), ((expired,), {"review_deadline": "1"})):
            with (
                asyncio.Runner() as runner,
                fresh_database(postgres) as database,
                world(database, temporal, sandbox, Path(folder), **overrides) as running,
            ):
                engine = EngineView(running, runner.run(Client.connect(temporal)), runner)
                for scenario in scenarios:
                    scenario(Recording(running, engine))


@contextmanager
def servers(folder: Path) -> Iterator[tuple[EmbeddedPostgres, str, SandboxProcess]]:
    """Store, engine and sandbox of this recording alone."""
    settings = PostgresSettings(password=secrets.token_urlsafe(), durable=False)
    postgres = EmbeddedPostgres(folder / "postgres", free_port(), settings)
    temporal = EmbeddedTemporal(TemporalSettings(free_port()), Files.of(folder / "temporal", "temporal"))
    postgres.start()
    temporal.start()
    try:
        make_template(postgres)
        with sandbox_process(folder / "sandbox.db") as sandbox:
            yield postgres, temporal.address, sandbox
    finally:
        temporal.stop()
        postgres.stop()


if __name__ == "__main__":
    main()
