"""Batch upsert by a unique property, and search over a lagging index."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from eventually import eventually

from sandbox.control import SandboxControl

COMPANIES = "/crm/objects/2026-09/companies"


@pytest.fixture
def keyed(sandbox: SandboxControl) -> SandboxControl:
    sandbox.add_property("companies", "onboarding_status")
    return sandbox


def upsert(client: httpx.Client, *inputs: dict[str, Any]) -> httpx.Response:
    return client.post(f"{COMPANIES}/batch/upsert", json={"inputs": inputs})


def one(key: str, trace: str | None = None, **properties: str) -> dict[str, Any]:
    trace_id = {} if trace is None else {"objectWriteTraceId": trace}
    return {"idProperty": "partner_key", "id": key, "properties": properties, **trace_id}


@pytest.mark.usefixtures("keyed")
def test_upsert_example_creates_and_then_updates(hubspot: httpx.Client, outbound: Callable[[str], str]) -> None:
    request = json.loads(outbound("hubspot_company_batch_upsert.request.json"))
    example = json.loads(outbound("hubspot_company_batch_upsert.response.json"))
    first = hubspot.post(f"{COMPANIES}/batch/upsert", json=request)
    second = hubspot.post(f"{COMPANIES}/batch/upsert", json=request)
    assert (first.status_code, second.status_code) == (200, 200)
    assert [answer.json()["results"][0]["new"] for answer in (first, second)] == [True, False]
    assert second.json().keys() == example.keys()
    assert second.json()["results"][0].keys() == example["results"][0].keys()
    assert second.json()["results"][0]["properties"].items() >= request["inputs"][0]["properties"].items()
    assert first.json()["results"][0]["id"] == second.json()["results"][0]["id"]


def test_traced_inputs_fail_one_by_one(hubspot: httpx.Client, keyed: SandboxControl) -> None:
    answer = upsert(hubspot, one("P1", "t1", name="North"), one("P2", "t2", colour="red"))
    assert answer.status_code == 207
    assert (len(answer.json()["results"]), answer.json()["numErrors"]) == (1, 1)
    assert answer.json()["errors"][0]["context"] == {"objectWriteTraceId": ["t2"]}
    assert len(keyed.records("hubspot", "companies")) == 1


def test_untraced_inputs_fail_together(hubspot: httpx.Client, keyed: SandboxControl) -> None:
    assert upsert(hubspot, one("P1", name="North"), one("P2", colour="red")).status_code == 400
    assert keyed.records("hubspot", "companies") == []


def test_upsert_needs_a_unique_property(hubspot: httpx.Client) -> None:
    given = {"idProperty": "name", "id": "North", "properties": {"name": "North"}}
    assert upsert(hubspot, given).status_code == 400


def found(client: httpx.Client, *filters: dict[str, Any], **more: object) -> list[dict[str, Any]]:
    body = {"filterGroups": [{"filters": filters}], "properties": ["name"], **more}
    answer = client.post(f"{COMPANIES}/search", json=body)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["results"])


def where(name: str, operator: str, **values: object) -> dict[str, Any]:
    return {"propertyName": name, "operator": operator, **values}


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        (where("name", "EQ", value="north"), ["North"]),
        (where("name", "NEQ", value="North"), ["South", "West"]),
        (where("name", "IN", values=["north", "west"]), ["North", "West"]),
        (where("name", "NOT_IN", values=["north", "west"]), ["South"]),
        (where("numberofemployees", "GT", value="9"), ["South"]),
        (where("numberofemployees", "LTE", value="9"), ["North"]),
        (where("numberofemployees", "BETWEEN", value="9", highValue="10"), ["North", "South"]),
        (where("numberofemployees", "HAS_PROPERTY"), ["North", "South"]),
        (where("numberofemployees", "NOT_HAS_PROPERTY"), ["West"]),
        (where("name", "CONTAINS_TOKEN", value="*est"), ["West"]),
        (where("name", "CONTAINS_TOKEN", value="est"), []),
    ],
)
def test_search_operators(hubspot: httpx.Client, condition: dict[str, Any], names: list[str]) -> None:
    for name, count in (("North", "9"), ("South", "10"), ("West", "")):
        hubspot.post(COMPANIES, json={"properties": {"name": name, "numberofemployees": count}})
    assert [hit["properties"]["name"] for hit in found(hubspot, condition)] == names


def test_groups_are_alternatives_and_pages_follow(hubspot: httpx.Client) -> None:
    for name in ("North", "South", "West"):
        hubspot.post(COMPANIES, json={"properties": {"name": name}})
    groups = [{"filters": [where("name", "EQ", value=name)]} for name in ("North", "West")]
    body = {"filterGroups": groups, "properties": ["name"], "limit": 1, "sorts": ["-name"]}
    first = hubspot.post(f"{COMPANIES}/search", json=body).json()
    second = hubspot.post(f"{COMPANIES}/search", json={**body, "after": first["paging"]["next"]["after"]}).json()
    assert (first["total"], "paging" in second) == (2, False)
    assert [page["results"][0]["properties"]["name"] for page in (first, second)] == ["West", "North"]


@pytest.mark.parametrize("condition", [where("colour", "EQ", value="red"), where("name", "LIKE", value="x")])
def test_search_refuses_what_it_does_not_know(hubspot: httpx.Client, condition: dict[str, Any]) -> None:
    body = {"filterGroups": [{"filters": [condition]}]}
    assert hubspot.post(f"{COMPANIES}/search", json=body).status_code == 400


@pytest.mark.parametrize("groups", [5, [5], [{}], [{"filters": [5]}]])
def test_unreadable_filters_are_refused(hubspot: httpx.Client, groups: object) -> None:
    assert hubspot.post(f"{COMPANIES}/search", json={"filterGroups": groups}).status_code == 400


def test_search_lags_behind_reads_by_id(hubspot: httpx.Client, sandbox: SandboxControl) -> None:
    sandbox.settings(search_lag=3600)
    made = hubspot.post(COMPANIES, json={"properties": {"name": "North"}}).json()
    by_name = where("name", "EQ", value="North")
    assert hubspot.get(f"{COMPANIES}/{made['id']}").status_code == 200
    assert found(hubspot, by_name) == []
    sandbox.settings(search_lag=0.05)
    eventually(lambda: [hit["id"] for hit in found(hubspot, by_name)] == [made["id"]])


def test_lag_holds_for_a_search_by_unique_key_too(hubspot: httpx.Client, sandbox: SandboxControl) -> None:
    sandbox.settings(search_lag=3600)
    properties = {"hs_timestamp": "2026-11-03T09:00:00.000Z", "operation_key": "op-1"}
    hubspot.post("/crm/objects/2026-09/tasks", json={"properties": properties})
    body = {"filterGroups": [{"filters": [where("operation_key", "EQ", value="op-1")]}]}
    assert hubspot.post("/crm/objects/2026-09/tasks/search", json=body).json()["total"] == 0
    sandbox.settings(search_lag=0)
    assert hubspot.post("/crm/objects/2026-09/tasks/search", json=body).json()["total"] == 1


def test_batch_read_reports_missing_ids(hubspot: httpx.Client) -> None:
    made = hubspot.post(COMPANIES, json={"properties": {"name": "North"}}).json()
    body = {"inputs": [{"id": made["id"]}, {"id": "404"}], "properties": ["name"]}
    answer = hubspot.post(f"{COMPANIES}/batch/read", json=body)
    assert (answer.status_code, answer.json()["results"][0]["id"]) == (207, made["id"])
    assert answer.json()["errors"][0]["context"] == {"ids": ["404"]}
