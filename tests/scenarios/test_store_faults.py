"""A store that fails while the whole is at work: what a sender, a worker, a person are told, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Any

import httpx
import pytest
from commands import Counterfoil
from databases import Database
from eventually import eventually
from inbound_samples import batch
from senders import Sender, now_ms, submitted
from sqlalchemy import text
from store_faults import locked_out, raising, standby
from world import SECRET, World

from composition import Parts
from gateway.app import application
from gateway.signatures import sign_hubspot_v3
from settings import load_settings

STORED = "SELECT id, disposition FROM delivery WHERE object_id = %s ORDER BY id"
Fault = Callable[[Database], AbstractContextManager[Callable[[], bool]]]
ON_DELIVERY: dict[str, tuple[Fault, str]] = {
    "disk full": (partial(raising, state="53100", table="delivery"), "store_exhausted"),
    "out of memory": (partial(raising, state="53200", table="delivery"), "store_exhausted"),
    "statement timeout": (partial(raising, state="57014", table="delivery"), "store_busy"),
    "deadlock again and again": (partial(raising, state="40P01", table="delivery"), "store_busy"),
    "shutting down": (partial(raising, state="57P01", table="delivery"), "store_unreachable"),
    "standby": (standby, "store_read_only"),
    "gone": (locked_out, "store_unreachable"),
}


def refused(answer: httpx.Response, code: str) -> None:
    """The sender is told to come again, and why."""
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json()["error"] == code
    assert answer.json()["next_actions"]


@pytest.mark.parametrize("name", ON_DELIVERY)
def test_a_trigger_is_acknowledged_only_when_it_is_stored(shared: World, name: str) -> None:
    fault, code = ON_DELIVERY[name]
    company_id = shared.seed().company_id
    shared.sandbox.wait_until_delivered()
    element = submitted(company_id)
    body = batch(element)
    before = shared.rows(STORED, company_id)
    with fault(shared.database):
        refused(Sender(shared).post(body), code)
    assert shared.rows(STORED, company_id) == before
    again = eventually(lambda: _stored(Sender(shared).post(body)))
    assert again.json()["elements"][0]["disposition"] == "started"
    assert Sender(shared).post(body).json()["elements"][0]["disposition"] == "duplicate"
    run_id = again.json()["elements"][0]["run"]
    shared.approve(run_id)
    shared.wait_state(run_id, "succeeded")
    shared.agrees(run_id)


def _stored(answer: httpx.Response) -> httpx.Response | None:
    return answer if answer.status_code == 202 else None


REFUSED_ANSWER: dict[str, Fault] = {
    "disk full": partial(raising, state="53100", table="answer"),
    "out of memory": partial(raising, state="53200", table="answer"),
    "statement timeout": partial(raising, state="57014", table="answer"),
    "serialization failure": partial(raising, state="40001", table="answer"),
}
AWAY: dict[str, Fault] = {"standby": standby, "gone": locked_out}


@pytest.mark.parametrize("name", [*REFUSED_ANSWER, *AWAY])
def test_an_answer_that_cannot_be_saved_is_saved_later_or_found_out(shared: World, name: str) -> None:
    """The account is made while the store takes nothing: it is never made again."""
    run_id = shared.submit(shared.seed().company_id)
    shared.wait_state(run_id, "awaiting_review")
    mark = {"method": "POST", "path_prefix": "/v1/accounts", "key": run_id}
    shared.fault("slow_after", match=mark, seconds=1)
    with ExitStack() as broken:
        if name in REFUSED_ANSWER:
            refused_one = broken.enter_context(REFUSED_ANSWER[name](shared.database))
        shared.approve(run_id)
        eventually(lambda: shared.accounts(run_id))
        if name in AWAY:
            refused_one = broken.enter_context(AWAY[name](shared.database))
        eventually(lambda: any(r["fault"] == "slow_after" and r["status"] for r in _sent(shared, run_id)))
        eventually(lambda: refused_one())
    shared.wait_state(run_id, "succeeded", within=60)
    shared.agrees(run_id)


def _sent(shared: World, run_id: str) -> list[dict[str, Any]]:
    return list(shared.sandbox.requests(path_prefix="/v1/accounts", key=run_id))


@pytest.mark.parametrize("name", ["disk full", "standby", "gone"])
def test_a_person_is_told_what_the_store_cannot_do_now(shared: World, name: str) -> None:
    full: Fault = partial(raising, state="53100", table="decision")
    fault = full if name == "disk full" else AWAY[name]
    run_id = shared.submit(shared.seed().company_id)
    shown = shared.wait_state(run_id, "awaiting_review")
    seen = ("--version", "1", "--fingerprint", shown["fingerprint"])
    token, command = shared.actor("sabine", "supervisor"), Counterfoil(shared.environment)
    with fault(shared.database):
        by_command = command("approve", run_id, *seen, "--json", token=token)
        answer = shared.http.post(
            f"/runs/{run_id}/decisions",
            json={"outcome": "approved", "version": 1, "fingerprint": shown["fingerprint"]},
            headers={"Authorization": f"Bearer {token}"},
        )
    assert (by_command.code, by_command.refusal["error"]) == (1, answer.json()["error"])
    assert by_command.refusal["next_actions"]
    refused(answer, answer.json()["error"])
    assert shared.rows("SELECT FROM decision WHERE run_id = %s", run_id) == []
    eventually(lambda: shared.decide(run_id).status_code == 200)
    shared.wait_state(run_id, "succeeded")
    shared.agrees(run_id)


@pytest.mark.parametrize("fault", [standby, locked_out])
def test_a_gateway_that_cannot_store_is_not_ready_and_still_lives(shared: World, fault: Fault) -> None:
    with fault(shared.database):
        eventually(lambda: shared.http.get("/health/ready").status_code == 503)
        assert shared.http.get("/health/ready").json()["store"] == "unreachable"
        assert shared.http.get("/health/live").is_success
    eventually(lambda: shared.http.get("/health/ready").is_success)


def test_c89_without_a_free_connection_a_trigger_is_told_to_come_again(shared: World) -> None:
    parts = Parts(load_settings({**shared.environment, "COUNTERFOIL_DATABASE_POOL": "1"}))
    parts.store.engine.pool._timeout = 0.1  # type: ignore[attr-defined]
    company_id = shared.seed().company_id
    shared.sandbox.wait_until_delivered()
    body = batch(submitted(company_id))
    signed = sign_hubspot_v3(SECRET, shared.settings.hubspot_public_url, now_ms(), body)

    async def posted() -> httpx.Response:
        inside = httpx.ASGITransport(application(parts))
        async with httpx.AsyncClient(transport=inside, base_url=shared.settings.public_url) as client:
            return await client.post("/triggers/hubspot", content=body, headers=signed)

    with parts.store.reading() as held:
        held.execute(text("SELECT 1"))
        refused(shared.loop.run(posted()), "store_busy")
    assert shared.loop.run(posted()).status_code == 202
    parts.close()
