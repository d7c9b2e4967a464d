"""The official packages of Stripe and HubSpot, pointed at the sandbox, cannot tell."""

from typing import Any

import hubspot
import pytest
import stripe
import urllib3
from hubspot.crm import companies
from hubspot.crm.objects import tasks

from sandbox.control import SandboxControl

BANK: Any = {
    "object": "bank_account",
    "country": "DE",
    "currency": "eur",
    "account_holder_name": "North GmbH",
    "account_number": "DE89370400440532013000",
}


@pytest.fixture
def provider(sandbox: SandboxControl) -> stripe.StripeClient:
    return stripe.StripeClient("sk_test_sandbox", base_addresses={"api": sandbox.base_url}, max_network_retries=0)


@pytest.fixture
def crm(sandbox: SandboxControl) -> Any:  # noqa: ANN401 (the package is untyped)
    once = urllib3.Retry(0, respect_retry_after_header=False)
    return hubspot.HubSpot(access_token="pat-sandbox-token", host=sandbox.base_url, retry=once)


def test_stripe_creates_reads_lists_updates_and_deletes(provider: stripe.StripeClient) -> None:
    accounts = provider.v1.accounts
    metadata = {"operation_key": "op-1"}
    made = accounts.create(
        {"type": "custom", "country": "DE", "metadata": metadata, "external_account": BANK},
        {"idempotency_key": "op-1"},
    )
    assert made.metadata is not None
    assert made.metadata["operation_key"] == "op-1"
    assert accounts.retrieve(made.id).external_accounts is not None
    assert accounts.update(made.id, {"email": "a@example.test"}).email == "a@example.test"
    assert [found.id for found in accounts.list({"created": {"gte": made.created or 0}}).auto_paging_iter()] == [
        made.id
    ]
    assert accounts.delete(made.id).deleted is True


def test_stripe_pages_through_a_list(provider: stripe.StripeClient) -> None:
    made = [provider.v1.accounts.create({"country": "DE"}).id for _ in range(5)]
    assert [found.id for found in provider.v1.accounts.list({"limit": 2}).auto_paging_iter()] == made[::-1]


def test_stripe_errors_have_their_classes(provider: stripe.StripeClient, sandbox: SandboxControl) -> None:
    accounts = provider.v1.accounts
    accounts.create({"country": "DE"}, {"idempotency_key": "op-1"})
    with pytest.raises(stripe.IdempotencyError) as mismatch:
        accounts.create({"country": "FR"}, {"idempotency_key": "op-1"})
    assert mismatch.value.http_status == 400
    with pytest.raises(stripe.PermissionError):
        accounts.retrieve("acct_unknown")
    with pytest.raises(stripe.InvalidRequestError):
        accounts.create({"country": "Germany"})
    sandbox.fault("throttle_429")
    with pytest.raises(stripe.RateLimitError):
        accounts.create({"country": "DE"})
    sandbox.fault("commit_500")
    with pytest.raises(stripe.APIError):
        accounts.create({"country": "DE"})
    sandbox.fault("drop_after_commit")
    with pytest.raises(stripe.APIConnectionError):
        accounts.create({"country": "DE"})
    wrong = stripe.StripeClient("sk_test_wrong", base_addresses={"api": sandbox.base_url}, max_network_retries=0)
    with pytest.raises(stripe.AuthenticationError):
        wrong.v1.accounts.retrieve_current()
    assert len(sandbox.records("stripe", "accounts")) == 3


def test_hubspot_creates_reads_changes_and_archives(crm: Any) -> None:  # noqa: ANN401 (untyped)
    basic = crm.crm.companies.basic_api
    given = companies.SimplePublicObjectInputForCreate(properties={"name": "North"}, associations=[])
    made = basic.create(simple_public_object_input_for_create=given)
    changed = companies.SimplePublicObjectInput(properties={"name": "South"})
    basic.update(company_id=made.id, simple_public_object_input=changed)
    read = basic.get_by_id(made.id, properties=["name", "iban"], properties_with_history=["name"])
    assert (read.properties["name"], read.properties["iban"]) == ("South", None)
    assert [entry.value for entry in read.properties_with_history["name"]] == ["South", "North"]
    assert [found.id for found in basic.get_page(limit=1).results] == [made.id]
    basic.archive(made.id)
    with pytest.raises(companies.ApiException) as gone:
        basic.get_by_id(made.id)
    assert gone.value.status == 404


def test_hubspot_tasks_upsert_search_and_associations(crm: Any, sandbox: SandboxControl) -> None:  # noqa: ANN401
    company = sandbox.seed({"name": "North"}, contact={"email": "a@example.test"}, owner={})
    one = {
        "id": "op-1",
        "idProperty": "operation_key",
        "properties": {"hs_timestamp": "2026-11-03T09:00:00.000Z", "hs_task_subject": "Verify"},
    }
    upserted = crm.crm.objects.tasks.batch_api.upsert({"inputs": [one]})
    assert upserted.results[0].new is True
    query = tasks.PublicObjectSearchRequest(
        filter_groups=[{"filters": [{"propertyName": "operation_key", "operator": "EQ", "value": "op-1"}]}],
        properties=["hs_task_subject"],
        limit=10,
    )
    found = crm.crm.objects.tasks.search_api.do_search(query)
    assert (found.total, found.results[0].properties["hs_task_subject"]) == (1, "Verify")
    read = crm.crm.companies.basic_api.get_by_id(company.company_id, associations=["contacts"])
    assert read.associations["contacts"].results[0].id == company.contact_id
    assert crm.crm.owners.owners_api.get_by_id(int(str(company.owner_id))).id == company.owner_id


def test_hubspot_merges(crm: Any, sandbox: SandboxControl) -> None:  # noqa: ANN401 (untyped)
    first, second = (sandbox.seed({"name": name}).company_id for name in ("North", "Nord"))
    given = companies.PublicMergeInput(primary_object_id=first, object_id_to_merge=second)
    merged = crm.crm.companies.basic_api.merge(given)
    assert (merged.properties["name"], merged.id in (first, second)) == ("North", False)


def test_hubspot_refusals_have_their_status(crm: Any, sandbox: SandboxControl) -> None:  # noqa: ANN401 (untyped)
    basic = crm.crm.companies.basic_api
    given = companies.SimplePublicObjectInputForCreate(properties={"colour": "red"}, associations=[])
    with pytest.raises(companies.ApiException) as refused:
        basic.create(simple_public_object_input_for_create=given)
    assert refused.value.status == 400
    sandbox.fault("throttle_429", retry_after="10")
    with pytest.raises(companies.ApiException) as throttled:
        basic.get_page()
    assert (throttled.value.status, throttled.value.headers["retry-after"]) == (429, "10")
