"""Walking what carries an operation key, whosever it is: all pages, from a moment on, or an error."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from connector_cases import hubspot_to, stripe_to
from eventually import ANSWER_SECONDS, eventually
from raw_server import json_answers, raw_server

from connectors.hubspot import HubSpot
from connectors.stripe import Stripe
from domain.errors import InvalidInput, ReadFailed, Throttled
from domain.ports import Carrier, Lists
from sandbox.control import SandboxControl

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
TOKENS = {"stripe": "sk_test_sandbox", "hubspot": "pat-sandbox-token"}
Make = Callable[[str, str | None], str]


@pytest.fixture
def somebody(sandbox: SandboxControl) -> Iterator[Callable[[str], httpx.Client]]:
    """Who works in the same accounts without us."""
    clients: list[httpx.Client] = []

    def client(system: str) -> httpx.Client:
        headers = {"authorization": f"Bearer {TOKENS[system]}"}
        clients.append(
            httpx.Client(base_url=sandbox.base_url, headers=headers, trust_env=False, timeout=ANSWER_SECONDS)
        )
        return clients[-1]

    yield client
    for each in clients:
        each.close()


def account(client: httpx.Client, key: str | None) -> str:
    form = {"country": "DE"} | ({"metadata[operation_key]": key} if key else {})
    return str(client.post("/v1/accounts", data=form).raise_for_status().json()["id"])


def task(client: httpx.Client, key: str | None) -> str:
    given = {"hs_timestamp": "2026-12-01T09:00:00Z", "hs_task_subject": "x"} | ({"operation_key": key} if key else {})
    made = client.post("/crm/objects/2026-09/tasks", json={"properties": given, "associations": []})
    return str(made.raise_for_status().json()["id"])


@pytest.fixture(params=["stripe", "hubspot"])
def walked(
    request: pytest.FixtureRequest, stripe: Stripe, hubspot: HubSpot, somebody: Callable[[str], httpx.Client]
) -> tuple[Callable[[datetime], list[Carrier]], Callable[[str | None], str]]:
    """What is found since a moment, and how somebody else makes a record."""
    client = somebody(request.param)
    if request.param == "stripe":
        return lambda since: list(stripe.carriers("create_account", since)), lambda key: account(client, key)
    return lambda since: list(hubspot.carriers("create_task", since)), lambda key: task(client, key)


def test_all_pages_are_walked_and_what_carries_no_key_is_left_out(walked: Any) -> None:  # noqa: ANN401
    found, make = walked
    make(None)
    made = {make(f"op-{number}"): f"op-{number}" for number in range(205)}
    shown = eventually(lambda: len(now := found(LONG_AGO)) == len(made) and now)
    assert {each.reference: each.key for each in shown} == made


def test_what_was_made_before_is_not_shown(walked: Any) -> None:  # noqa: ANN401
    found, make = walked
    make("op-1")
    assert eventually(lambda: found(LONG_AGO))
    assert found(datetime.now(UTC) + timedelta(hours=1)) == []


def carriers(connector: Lists, operation: str) -> list[Carrier]:
    return list(connector.carriers(operation, LONG_AGO))


@pytest.mark.parametrize("second", [(500, {}), {"object": "list"}, (429, {"error": {"code": "rate_limit"}})])
def test_a_page_of_accounts_that_cannot_be_read_is_an_error(second: Any) -> None:  # noqa: ANN401
    first = {"id": "acct_1Other", "object": "account", "metadata": {"operation_key": "op-1"}}
    pages = [{"object": "list", "data": [first], "has_more": True}, second]
    with (
        raw_server(json_answers(pages)) as server,
        closing(stripe_to(server.url)) as connector,
        pytest.raises(ReadFailed) as failed,
    ):
        carriers(connector, "create_account")
    assert isinstance(failed.value, Throttled) == ("rate_limit" in str(second))


def test_each_page_of_tasks_begins_after_the_last_id_and_the_same_page_again_is_an_error() -> None:
    page = {"results": [{"id": "77", "properties": {"operation_key": "op-1"}}], "paging": {"next": {"after": "1"}}}
    with raw_server(json_answers([page, page])) as server, closing(hubspot_to(server.url)) as connector:
        with pytest.raises(ReadFailed, match="repeated_page"):
            carriers(connector, "create_task")
        asked = [json.loads(each.partition(b"\r\n\r\n")[2]) for each in server.requests]
    filters = [[(one["propertyName"], one["operator"]) for one in each["filterGroups"][0]["filters"]] for each in asked]
    assert [("hs_object_id", "GT") in each for each in filters] == [False, True]
    assert asked[1]["filterGroups"][0]["filters"][-1]["value"] == "77"


def test_only_what_a_connector_makes_can_be_walked(stripe: Stripe, hubspot: HubSpot) -> None:
    for connector in (stripe, hubspot):
        with pytest.raises(InvalidInput, match="operation"):
            carriers(connector, "no_such_thing")


def test_companies_are_walked_by_their_change(hubspot: HubSpot, somebody: Callable[[str], httpx.Client]) -> None:
    made = somebody("hubspot").post(
        "/crm/objects/2026-09/companies", json={"properties": {"name": "x", "operation_key": "op-9"}}
    )
    company_id = made.raise_for_status().json()["id"]
    shown = eventually(lambda: carriers(hubspot, "upsert_company"))
    assert shown == [Carrier(company_id, "op-9")]
