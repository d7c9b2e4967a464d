"""HubSpot's records: properties on request, history, unique values, associations, merges."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from eventually import ANSWER_SECONDS

from sandbox.control import SandboxControl

V3, DATED = "/crm/v3/objects", "/crm/objects/2026-09"
TASK = {"hs_timestamp": "2026-11-03T09:00:00.000Z", "hs_task_subject": "Verify"}


def created(client: httpx.Client, kind: str, properties: dict[str, Any], **headers: str) -> dict[str, Any]:
    answer = client.post(f"{V3}/{kind}", json={"properties": properties}, headers=headers)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


@pytest.mark.parametrize("prefix", [V3, DATED, "/crm/objects/2025-09"])
def test_only_properties_asked_for_are_answered(hubspot: httpx.Client, prefix: str) -> None:
    made = created(hubspot, "companies", {"name": "North", "iban": "X1"})
    read = hubspot.get(f"{prefix}/companies/{made['id']}", params={"properties": "name,legal_form,no_such"}).json()
    assert read["properties"]["name"] == "North"
    assert read["properties"]["legal_form"] is None
    assert set(read["properties"]) == {"name", "legal_form", "hs_object_id", "createdate", "hs_lastmodifieddate"}
    assert read["properties"]["hs_lastmodifieddate"] == read["updatedAt"]


def test_repeated_properties_and_type_ids_are_understood(hubspot: httpx.Client) -> None:
    made = created(hubspot, "0-2", {"name": "North", "iban": "X1"})
    read = hubspot.get(f"{DATED}/0-2/{made['id']}", params={"properties": ["name", "iban"]}).json()
    assert (read["properties"]["name"], read["properties"]["iban"]) == ("North", "X1")


def test_history_names_who_changed_a_property(hubspot: httpx.Client) -> None:
    made = created(hubspot, "companies", {"name": "North"}, **{"X-Sandbox-Actor": "userId:61000001"})
    hubspot.patch(f"{V3}/companies/{made['id']}", json={"properties": {"name": "South"}})
    read = hubspot.get(f"{V3}/companies/{made['id']}", params={"propertiesWithHistory": "name"}).json()
    newest, oldest = read["propertiesWithHistory"]["name"]
    assert (newest["value"], newest["sourceType"], newest["sourceId"]) == ("South", "INTEGRATION", "7700123")
    assert "updatedByUserId" not in newest
    assert (oldest["value"], oldest["sourceType"], oldest["sourceId"]) == ("North", "CRM_UI", "userId:61000001")
    assert oldest["updatedByUserId"] == 61000001


def test_writing_equal_values_changes_nothing(hubspot: httpx.Client) -> None:
    made = created(hubspot, "companies", {"name": "North"})
    same = hubspot.patch(f"{V3}/companies/{made['id']}", json={"properties": {"name": "North"}}).json()
    assert same["updatedAt"] == made["updatedAt"]


def test_empty_text_clears_a_property(hubspot: httpx.Client) -> None:
    made = created(hubspot, "companies", {"name": "North"})
    cleared = hubspot.patch(f"{V3}/companies/{made['id']}", json={"properties": {"name": ""}}).json()
    assert cleared["properties"]["name"] is None


def test_unknown_property_refuses_the_whole_write(hubspot: httpx.Client, sandbox: SandboxControl) -> None:
    answer = hubspot.post(f"{V3}/companies", json={"properties": {"name": "North", "colour": "red"}})
    assert answer.status_code == 400
    assert answer.json()["category"] == "VALIDATION_ERROR"
    assert "PROPERTY_DOESNT_EXIST" in answer.json()["message"]
    assert sandbox.records("hubspot", "companies") == []
    sandbox.add_property("companies", "colour")
    assert created(hubspot, "companies", {"colour": "red"})["properties"]["colour"] == "red"


def test_read_only_and_required_properties(hubspot: httpx.Client) -> None:
    answer = hubspot.post(f"{V3}/companies", json={"properties": {"hs_object_id": "1"}})
    assert (answer.status_code, "READ_ONLY_VALUE" in answer.text) == (400, True)
    answer = hubspot.post(f"{V3}/tasks", json={"properties": {"hs_task_subject": "no due time"}})
    assert (answer.status_code, answer.json()["context"]) == (400, {"properties": ["hs_timestamp"]})


def test_task_example_is_accepted_with_its_association(
    hubspot: httpx.Client, sandbox: SandboxControl, outbound: Callable[[str], str]
) -> None:
    sandbox.settings(next_object_id=30100200300)
    created(hubspot, "companies", {"name": "North"})
    request = json.loads(outbound("hubspot_task_create.request.json"))
    answer = hubspot.post(f"{DATED}/tasks", json=request)
    assert answer.status_code == 201
    read = hubspot.get(f"{DATED}/tasks/{answer.json()['id']}", params={"associations": "companies"}).json()
    assert read["associations"] == {"companies": {"results": [{"id": "30100200300", "type": "task_to_company"}]}}
    by_key = hubspot.get(
        f"{DATED}/tasks/{request['properties']['operation_key']}", params={"idProperty": "operation_key"}
    )
    assert by_key.json()["id"] == answer.json()["id"]


def test_association_needs_both_ends(hubspot: httpx.Client) -> None:
    link = {"to": {"id": "404"}, "types": [{"associationCategory": "HUBSPOT_DEFINED", "associationTypeId": 192}]}
    answer = hubspot.post(f"{V3}/tasks", json={"properties": TASK, "associations": [link]})
    assert answer.status_code == 400


def test_seeded_contact_is_the_primary_one(hubspot: httpx.Client, sandbox: SandboxControl) -> None:
    seeded = sandbox.seed(
        {"name": "North"}, contact={"email": "A@example.test"}, owner={"id": "61000002"}, actor="userId:61000001"
    )
    read = hubspot.get(
        f"{V3}/companies/{seeded.company_id}", params={"associations": "contacts", "properties": "hubspot_owner_id"}
    ).json()
    assert read["associations"]["contacts"]["results"] == [
        {"id": seeded.contact_id, "type": "company_to_contact"},
        {"id": seeded.contact_id, "type": "company_to_contact_unlabeled"},
    ]
    assert read["properties"]["hubspot_owner_id"] == "61000002"
    assert hubspot.get("/crm/v3/owners/61000002").json()["userId"] == 61000002
    labels = hubspot.get(f"/crm/v4/objects/companies/{seeded.company_id}/associations/contacts").json()["results"]
    assert [kind["label"] for kind in labels[0]["associationTypes"]] == ["Primary", None]


def test_c51_duplicate_e_mail_names_the_existing_id_in_the_message_only(
    hubspot: httpx.Client, outbound: Callable[[str], str]
) -> None:
    example = json.loads(outbound("hubspot_409_conflict.response.json"))
    first = created(hubspot, "contacts", {"email": "same@example.test"})
    answer = hubspot.post(f"{V3}/contacts", json={"properties": {"email": "SAME@example.test"}})
    assert answer.status_code == 409
    assert answer.json().keys() == example.keys()
    assert answer.json()["category"] == example["category"]
    assert answer.json()["message"] == f"Contact already exists. Existing ID: {first['id']}"


def test_duplicate_unique_value_is_a_validation_error(hubspot: httpx.Client) -> None:
    created(hubspot, "tasks", {**TASK, "operation_key": "op-1"})
    answer = hubspot.post(f"{V3}/tasks", json={"properties": {**TASK, "operation_key": "op-1"}})
    assert (answer.status_code, answer.json()["category"]) == (400, "VALIDATION_ERROR")
    other = created(hubspot, "tasks", {**TASK, "operation_key": "op-2"})
    moved = hubspot.patch(f"{V3}/tasks/{other['id']}", json={"properties": {"operation_key": "op-1"}})
    assert moved.status_code == 400


def test_archived_records_are_gone_and_free_their_unique_values(hubspot: httpx.Client, sandbox: SandboxControl) -> None:
    first = created(hubspot, "tasks", {**TASK, "operation_key": "op-1"})
    assert hubspot.delete(f"{V3}/tasks/{first['id']}").status_code == 204
    gone = hubspot.get(f"{V3}/tasks/{first['id']}")
    assert (gone.status_code, gone.json()["category"]) == (404, "OBJECT_NOT_FOUND")
    created(hubspot, "tasks", {**TASK, "operation_key": "op-1"})
    assert [task["archived"] for task in sandbox.records("hubspot", "tasks")] == [True, False]


def test_eight_creates_with_one_unique_value_make_one_record(hubspot: httpx.Client, sandbox: SandboxControl) -> None:
    def create(number: int) -> int:
        properties = {**TASK, "operation_key": "op-1", "hs_task_body": str(number)}
        return hubspot.post(f"{V3}/tasks", json={"properties": properties}).status_code

    with ThreadPoolExecutor(8) as pool:
        statuses = sorted(pool.map(create, range(8)))
    assert statuses == [201] + [400] * 7
    assert len(sandbox.records("hubspot", "tasks")) == 1


def test_ids_above_two_to_the_53_survive(hubspot: httpx.Client, sandbox: SandboxControl) -> None:
    sandbox.settings(next_object_id=2**53 + 1)
    assert created(hubspot, "companies", {"name": "North"})["id"] == "9007199254740993"
    assert hubspot.get(f"{V3}/companies/9007199254740993").status_code == 200


def test_merge_gives_the_survivor_a_new_id(hubspot: httpx.Client, sandbox: SandboxControl) -> None:
    seeded = sandbox.seed({"name": "North"}, contact={"email": "a@example.test"})
    other = created(hubspot, "companies", {"name": "Nord", "iban": "X1"})
    body = {"primaryObjectId": seeded.company_id, "objectIdToMerge": other["id"]}
    merged = hubspot.post(f"{V3}/companies/merge", json=body).json()
    assert merged["id"] not in (seeded.company_id, other["id"])
    assert (merged["properties"]["name"], merged["properties"]["iban"]) == ("North", "X1")
    query = {"propertyName": "hs_merged_object_ids", "operator": "CONTAINS_TOKEN", "value": other["id"]}
    found = hubspot.post(f"{DATED}/companies/search", json={"filterGroups": [{"filters": [query]}]}).json()
    assert [hit["id"] for hit in found["results"]] == [merged["id"]]
    old = [hubspot.get(f"{V3}/companies/{one}").status_code for one in (seeded.company_id, other["id"])]
    assert old == [404, 404]
    read = hubspot.get(f"{V3}/companies/{merged['id']}", params={"associations": "contacts"}).json()
    assert {link["id"] for link in read["associations"]["contacts"]["results"]} == {seeded.contact_id}


def test_merge_may_keep_the_primary_id(hubspot: httpx.Client, sandbox: SandboxControl) -> None:
    sandbox.settings(merge_new_id=False)
    first, second = (created(hubspot, "companies", {"name": name}) for name in ("North", "Nord"))
    body = {"primaryObjectId": first["id"], "objectIdToMerge": second["id"]}
    assert hubspot.post(f"{V3}/companies/merge", json=body).json()["id"] == first["id"]
    assert hubspot.get(f"{V3}/companies/{second['id']}").status_code == 404


@pytest.mark.parametrize("token", ["", "Bearer wrong", "Basic pat-sandbox-token"])
def test_wrong_token_is_refused_with_hubspots_body(sandbox: SandboxControl, token: str) -> None:
    answer = httpx.get(
        f"{sandbox.base_url}/account-info/v3/details", headers={"authorization": token}, timeout=ANSWER_SECONDS
    )
    assert (answer.status_code, answer.json()["category"]) == (401, "INVALID_AUTHENTICATION")


def test_account_details_name_the_portal(hubspot: httpx.Client) -> None:
    assert hubspot.get("/account-info/v3/details").json()["portalId"] == 90210001


def test_property_definitions_tell_unique_ones(hubspot: httpx.Client) -> None:
    assert hubspot.get("/crm/v3/properties/tasks/operation_key").json()["hasUniqueValue"] is True
    assert hubspot.get("/crm/v3/properties/companies/operation_key").json()["hasUniqueValue"] is False
    assert hubspot.get("/crm/v3/properties/companies/no_such").status_code == 404


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"properties": []}', b'{"properties": {}, "associations": 5}'])
def test_unreadable_bodies_are_refused(hubspot: httpx.Client, body: bytes) -> None:
    answer = hubspot.post(f"{V3}/companies", content=body)
    assert (answer.status_code, answer.json()["category"]) == (400, "VALIDATION_ERROR")


@pytest.mark.parametrize(("text", "kept"), [("a\x00b", "a\x00b"), ("a\ud800b", "a?b"), ("Ω☂", "Ω☂")])
def test_c16_odd_text_is_kept_as_far_as_utf_8_can(hubspot: httpx.Client, text: str, kept: str) -> None:
    body = json.dumps({"properties": {**TASK, "operation_key": text}}).encode()
    made = hubspot.post(f"{V3}/tasks", content=body)
    assert (made.status_code, made.json()["properties"]["operation_key"]) == (201, kept)
