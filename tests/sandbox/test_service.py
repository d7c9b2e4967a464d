"""The service itself: control endpoints, request log, start, stop, durability."""

import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from eventually import ANSWER_SECONDS, eventually
from sandboxes import ROOT, sandbox_process

from sandbox.control import SandboxControl

HUBSPOT = {"authorization": "Bearer pat-sandbox-token"}
COMPANIES = "/crm/v3/objects/companies"


def test_requests_are_logged_without_credentials(sandbox: SandboxControl, stripe_http: httpx.Client) -> None:
    stripe_http.post("/v1/accounts", data={"country": "DE"}, headers={"idempotency-key": "op-1"})
    stripe_http.get("/v1/accounts", params={"limit": 5})
    [write] = sandbox.requests(key="op-1")
    assert (write["method"], write["path"], write["body"], write["status"]) == (
        "POST",
        "/v1/accounts",
        "country=DE",
        200,
    )
    assert (write["executed"], write["idempotencyKey"], write["fault"]) == (True, "op-1", None)
    assert write["receivedAt"] <= write["answeredAt"]
    [read] = sandbox.requests(method="GET", path_prefix="/v1/")
    assert read["query"] == [["limit", "5"]]
    assert "sk_test_sandbox" not in str(sandbox.requests())
    assert len(sandbox.requests(limit="1")) == 1


def test_unauthorized_and_refused_requests_are_logged_as_not_executed(
    sandbox: SandboxControl, hubspot: httpx.Client
) -> None:
    hubspot.get(COMPANIES, headers={"authorization": "Bearer wrong"})
    hubspot.post(COMPANIES, json={"properties": {"colour": "red"}})
    assert [(entry["status"], entry["executed"]) for entry in sandbox.requests()] == [(401, False), (400, False)]


def test_settings_are_checked_and_reset(sandbox: SandboxControl) -> None:
    assert sandbox.settings(search_lag=3)["search_lag"] == 3
    for bad in ({"search_lag": -1}, {"no_such": 1}, {"next_object_id": "many"}):
        with pytest.raises(httpx.HTTPStatusError):
            sandbox.settings(**bad)
    assert sandbox.settings()["search_lag"] == 3
    sandbox.reset()
    assert sandbox.settings()["search_lag"] == 0


def test_records_are_listed_in_full(sandbox: SandboxControl) -> None:
    seeded = sandbox.seed({"name": "North"}, contact={"email": "a@example.test"}, owner={"id": "7"})
    [company] = sandbox.records("hubspot", "companies")
    assert company["properties"] == {"name": "North", "hubspot_owner_id": "7"}
    assert {link["id"] for link in company["associations"]} == {seeded.contact_id}
    assert [owner["id"] for owner in sandbox.records("hubspot", "owners")] == ["7"]
    with pytest.raises(httpx.HTTPStatusError):
        sandbox.records("other", "things")


def test_everything_survives_sigkill(tmp_path: Path) -> None:
    with sandbox_process(tmp_path / "s.sqlite") as running, SandboxControl(running.url) as control:
        seeded = control.seed({"name": "North"}, contact={"email": "a@example.test"}, owner={})
        control.settings(search_lag=5)
        control.fault("lock_423")
        before = [control.records("hubspot", kind) for kind in ("companies", "contacts", "owners")]
        running.kill()
    with sandbox_process(tmp_path / "s.sqlite") as running, SandboxControl(running.url) as control:
        assert [control.records("hubspot", kind) for kind in ("companies", "contacts", "owners")] == before
        assert control.settings()["search_lag"] == 5
        url = f"{running.url}{COMPANIES}/{seeded.company_id}"
        assert [httpx.get(url, headers=HUBSPOT, timeout=ANSWER_SECONDS).status_code for _ in range(2)] == [423, 200]


def test_settings_come_from_the_environment(tmp_path: Path) -> None:
    with sandbox_process(tmp_path / "s.sqlite", hubspot_token="other", hubspot_portal_id="42") as running:
        details = httpx.get(
            f"{running.url}/account-info/v3/details", headers={"authorization": "Bearer other"}, timeout=ANSWER_SECONDS
        )
    assert details.json()["portalId"] == 42


def test_sigterm_stops_with_exit_code_0(tmp_path: Path) -> None:
    with (
        sandbox_process(tmp_path / "s.sqlite") as running,
        httpx.Client(base_url=running.url, timeout=ANSWER_SECONDS) as client,
    ):
        client.get("/sandbox/health")
        assert running.stop() == 0


def test_sigterm_does_not_wait_for_delayed_calls(tmp_path: Path) -> None:
    with (
        sandbox_process(tmp_path / "s.sqlite") as running,
        SandboxControl(running.url) as control,
        ThreadPoolExecutor(1) as pool,
    ):
        control.fault("slow_before", seconds=3600)
        delayed = pool.submit(httpx.get, f"{running.url}{COMPANIES}", headers=HUBSPOT, timeout=60)
        eventually(lambda: control.requests(path_prefix=COMPANIES))
        assert running.stop() == 0
        assert isinstance(delayed.exception(), httpx.RemoteProtocolError)


def test_a_taken_port_is_a_clear_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command = [sys.executable, "-m", "sandbox", "--port", str(taken.getsockname()[1])]
        ended = subprocess.run(
            [*command, "--data", str(tmp_path / "s")], capture_output=True, text=True, cwd=ROOT, check=False
        )
    assert ended.returncode == 2
    assert "cannot start" in ended.stderr
    assert "in use" in ended.stderr
