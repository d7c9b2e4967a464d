"""C62: what is mirrored, and what is read for closed requests, keeps to the limits of all runs and tells of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest
from store_builder import ACCOUNT, COMPANY, VALUES, Book, changed

from business_store.actors import Actor
from business_store.limits import limit_hit
from connectors.hubspot import HubSpot
from domain.credentials import Account
from domain.deliveries import Change
from sandbox.control import SandboxControl
from sweep.closed_requests import ClosedRequests
from sweep.projections import Projector

HUBSPOT = Account("hubspot", ACCOUNT)


def hubspot_with(sandbox: SandboxControl, token: str) -> HubSpot:
    return HubSpot(sandbox.base_url, token, portal_id=ACCOUNT, app_id="7700123")


@pytest.fixture
def hubspot(sandbox: SandboxControl) -> Iterator[HubSpot]:
    with closing(hubspot_with(sandbox, "pat-sandbox-token")) as made:
        yield made


def projected(book: Book, hubspot: HubSpot) -> int:
    """One pass of the projector."""
    return Projector(book.store, {"hubspot": hubspot}, {book.process.name: book.process}).once()


def due(book: Book) -> None:
    """What was put off is due now."""
    with book.forged() as superuser:
        superuser.execute("UPDATE run SET projection_due = now()")
        superuser.execute("UPDATE limit_turn SET turn = now()")


def in_crm(sandbox: SandboxControl) -> str:
    named = {name: value for name in ("name", "country") if (value := VALUES[name])}
    return sandbox.seed(named).company_id


def asked(sandbox: SandboxControl) -> int:
    return len(sandbox.requests(path_prefix=f"/crm/objects/2026-09/{COMPANY}"))


def limited(book: Book) -> None:
    book.store.write(lambda connection: limit_hit(connection, HUBSPOT, timedelta(hours=1)))


def test_a_limit_that_is_met_while_mirroring_is_every_runs(
    book: Book, sandbox: SandboxControl, hubspot: HubSpot
) -> None:
    first, second = (book.accept_trigger(in_crm(sandbox)) for _ in range(2))
    sandbox.fault("throttle_429", match={"method": "PATCH"}, retry_after="600")
    assert (projected(book, hubspot), asked(sandbox)) == (0, 1)
    (limit,) = book.rows("SELECT system, scope, opens_at > now() + interval '9 minutes' AS long FROM shared_limit")
    assert (limit.system, limit.scope, limit.long) == ("hubspot", ACCOUNT, True)
    assert (projected(book, hubspot), asked(sandbox)) == (0, 1)
    assert {row.run_id for row in book.rows("SELECT run_id FROM limit_turn")} == {first, second}
    assert book.count("run WHERE projection_due > now() + interval '9 minutes'") == 2
    due(book)
    assert (projected(book, hubspot), asked(sandbox)) == (2, 3)


def test_an_open_run_keeps_its_turn_and_a_closed_one_uses_it_up(
    book: Book, reviewer: Actor, sandbox: SandboxControl, hubspot: HubSpot
) -> None:
    closed, opened = book.straight(reviewer, in_crm(sandbox)), book.accept_trigger(in_crm(sandbox))
    limited(book)
    assert (projected(book, hubspot), asked(sandbox)) == (0, 0)
    due(book)
    assert projected(book, hubspot) == 2
    assert [row.run_id for row in book.rows("SELECT run_id FROM limit_turn")] == [opened]
    assert closed != opened


def test_a_credential_refused_while_mirroring_holds_all_runs_and_is_not_asked_with_again(
    book: Book, sandbox: SandboxControl
) -> None:
    book.accept_trigger(in_crm(sandbox))
    with closing(hubspot_with(sandbox, "pat-revoked")) as stranger:
        for _ in range(2):
            assert (projected(book, stranger), asked(sandbox)) == (0, 1)
            due(book)
        (limit,) = book.rows("SELECT held, refused FROM shared_limit")
        assert (limit.held, limit.refused) == ("credential_refused", [stranger.credential_mark()])


def changed_after_its_end(book: Book, reviewer: Actor, sandbox: SandboxControl) -> str:
    """A request without an open run, whose record was changed in the CRM."""
    record = in_crm(sandbox)
    run_id = book.straight(reviewer, record)
    book.deliver(
        changed(record, dedupe_key="evt-later", change=Change.PROPERTY, property_name="name", property_value="x")
    )
    assert book.count("delivery WHERE disposition = 'pending_read'") == 1
    return book.run(run_id).request_id


def read(book: Book, hubspot: HubSpot, request_id: str) -> None:
    ClosedRequests(book.store, {"hubspot": hubspot}, {book.process.name: book.process}).read(request_id)


def test_a_closed_request_is_read_in_its_turn(
    book: Book, reviewer: Actor, sandbox: SandboxControl, hubspot: HubSpot
) -> None:
    request_id = changed_after_its_end(book, reviewer, sandbox)
    limited(book)
    for _ in range(2):
        read(book, hubspot, request_id)
    assert (asked(sandbox), book.count("limit_turn")) == (0, 1)
    due(book)
    read(book, hubspot, request_id)
    assert asked(sandbox) > 0
    assert book.count("delivery WHERE disposition = 'pending_read'") == 0
    assert book.audit() == []


def test_a_limit_met_by_the_read_of_a_closed_request_is_every_runs(
    book: Book, reviewer: Actor, sandbox: SandboxControl, hubspot: HubSpot
) -> None:
    request_id = changed_after_its_end(book, reviewer, sandbox)
    sandbox.fault("throttle_429", match={"method": "GET"})
    read(book, hubspot, request_id)
    (limit,) = book.rows("SELECT opens_at > now() + interval '5 seconds' AS rolling FROM shared_limit")
    assert limit.rolling
    read(book, hubspot, request_id)
    assert asked(sandbox) == 1
