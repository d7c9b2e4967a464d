"""Records outside that carry the key of an operation which the store does not have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta

import httpx
import pytest
from eventually import ANSWER_SECONDS
from store_builder import ACCOUNT, Book

from business_store.actors import Actor
from business_store.audit.outside import beginning
from connectors.hubspot import HubSpot
from connectors.stripe import Stripe
from domain.drift import Apart, Drift
from sandbox.control import SandboxControl
from sweep import unrecorded
from sweep.unrecorded import Unrecorded

STRANGE = "op-zzzzzzzzzzzzzzzzzzzzzzzzzz"


@pytest.fixture
def walk(book: Book, sandbox: SandboxControl) -> Iterator[Unrecorded]:
    stripe = Stripe(sandbox.base_url, "sk_test_sandbox")
    hubspot = HubSpot(sandbox.base_url, "pat-sandbox-token", portal_id=ACCOUNT, app_id="7700123")
    with closing(stripe), closing(hubspot):
        yield Unrecorded(book.store, {"stripe": stripe, "hubspot": hubspot}, {book.process.name: book.process})


def made(sandbox: SandboxControl, key: str) -> str:
    """An account that carries this key."""
    headers = {"authorization": "Bearer sk_test_sandbox"}
    form = {"country": "DE", "metadata[operation_key]": key}
    answer = httpx.post(
        f"{sandbox.base_url}/v1/accounts", data=form, headers=headers, trust_env=False, timeout=ANSWER_SECONDS
    )
    return str(answer.raise_for_status().json()["id"])


def test_only_what_no_operation_stands_behind_is_told(
    book: Book, reviewer: Actor, sandbox: SandboxControl, walk: Unrecorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unrecorded, "TOGETHER", 2)
    run_id = book.accept_trigger()
    book.approved(run_id, reviewer)
    known = book.permit(run_id).sendable.key
    made(sandbox, known)
    assert list(walk.drift(None)) == []
    strange, named = made(sandbox, STRANGE), made(sandbox, "Petra Muster")
    made(sandbox, known)
    found = {each.record: each for each in walk.drift(None)}
    assert found == {
        strange: Drift("", "stripe", strange, Apart.UNRECORDED, (STRANGE,)),
        named: Drift("", "stripe", named, Apart.UNRECORDED, ("another_key",)),
    }
    assert book.count("operation") == 1


def test_the_time_can_be_named(book: Book, sandbox: SandboxControl, walk: Unrecorded) -> None:
    strange = made(sandbox, STRANGE)
    assert _now(book) - timedelta(seconds=5) < book.store.read(beginning) <= _now(book)
    assert [each.record for each in walk.drift(_now(book) - timedelta(days=1))] == [strange]
    assert list(walk.drift(_now(book) + timedelta(days=1))) == []


def _now(book: Book) -> datetime:
    moment: datetime = book.rows("SELECT clock_timestamp() AS now")[0].now
    return moment


def test_what_cannot_be_walked_is_said_and_hides_nothing_of_the_other(
    book: Book, sandbox: SandboxControl, walk: Unrecorded
) -> None:
    strange = made(sandbox, STRANGE)
    sandbox.fault("error_500_before", match={"path_prefix": "/crm/objects/2026-09/tasks/search"})
    assert list(walk.drift(None)) == [
        Drift("", "hubspot", "create_task", Apart.UNREADABLE, ("http_500",)),
        Drift("", "stripe", strange, Apart.UNRECORDED, (STRANGE,)),
    ]
