"""Credentials that end while runs are under way: renewed once, or held once until somebody mends it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from commands import Counterfoil
from databases import Database
from eventually import ANSWER_SECONDS, eventually
from sandboxes import sandbox_process
from world import TOKEN, World, world

from stack.ports import free_port

OAUTH = {
    "hubspot_client_id": "sandbox-client-id",
    "hubspot_oauth_secret": "sandbox-oauth-secret",
    "hubspot_refresh_token": "rt-sandbox",
}
TASKS = {"method": "POST", "path_prefix": "/crm/objects/2026-09/tasks"}


@pytest.fixture
def connected(database: Database, temporal_server: str, tmp_path: Path) -> Iterator[World]:
    """A world whose CRM is reached by OAuth."""
    health = free_port()
    with (
        sandbox_process(tmp_path / "sandbox.db") as outside,
        world(database, temporal_server, outside, tmp_path, **OAUTH, gateway_metrics_port=str(health)) as running,
    ):
        yield running


def test_an_ended_token_costs_a_run_nothing_and_a_refused_one_holds_all_once(connected: World) -> None:
    at, sandbox = connected, connected.sandbox
    first = at.submit(at.seed().company_id)
    at.wait_state(first, "awaiting_review")
    _end_tokens(at)
    at.approve(first)
    at.wait_state(first, "succeeded", within=60)
    at.agrees(first)

    companies = [at.seed().company_id for _ in range(4)]
    runs = at.submit_all(companies)
    for run_id in runs:
        at.wait_state(run_id, "awaiting_review", within=60)
    sandbox.settings(oauth_refuses=True)
    _end_tokens(at)
    for run_id in runs:
        at.approve(run_id)
    for run_id in runs:
        at.wait_state(run_id, "retrying", reason="credential_refused", within=60)
    assert at.rows("SELECT system, scope, held FROM shared_limit WHERE held IS NOT NULL") == [
        {"system": "hubspot", "scope": at.settings.hubspot_portal_id, "held": "credential_refused"}
    ]
    assert at.rows("SELECT FROM notification WHERE state = 'needs_operator'") == []
    assert 'counterfoil_held{reason="credential_refused"' in _metrics(at)

    sandbox.settings(oauth_refuses=False)
    command = Counterfoil(at.environment)
    assert command("credential", "list", "--json").document[0]["held"] == "credential_refused"
    renewed = command("credential", "renew", "hubspot", "--json")
    assert (renewed.code, renewed.document["released"]) == (0, [at.settings.hubspot_portal_id])
    for run_id in runs:
        at.wait_state(run_id, "succeeded", within=90)
        at.agrees(run_id, audited=False)
    at.keeps_its_word()
    assert "counterfoil_held{" not in _metrics(at)
    known = ("rt-sandbox", "sandbox-oauth-secret", TOKEN)
    logs = at.worker.log.read_text() + at.gateway.log.read_text()
    assert [secret for secret in known if secret in logs] == []
    assert "Bearer at-" not in logs


def _end_tokens(at: World) -> None:
    """All access tokens end now, as those that were renewed a while ago do."""
    at.rows("UPDATE credential SET renewed_at = renewed_at - interval '1 hour' RETURNING system")
    at.sandbox.settings(oauth_epoch=at.sandbox.settings()["oauth_epoch"] + 1)


def _metrics(at: World) -> str:
    port = at.environment["COUNTERFOIL_GATEWAY_METRICS_PORT"]
    answer = eventually(lambda: httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False, timeout=ANSWER_SECONDS))
    return answer.text
