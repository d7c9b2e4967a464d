"""Reading a company with its contact as they stood together, and writing declared state back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import httpx
import pytest
from connector_cases import PORTAL, hubspot_to
from eventually import ANSWER_SECONDS
from raw_server import json_answers, raw_server

from connectors.hubspot import HubSpot
from domain.errors import ReadFailed, SubjectGone, Throttled
from domain.identity import SubjectRef
from domain.ports import SubjectReading, Wanted
from sandbox.control import SandboxControl, Seeded

WANTED = Wanted(("name", "country", "description", "iban"), "contacts", ("email", "phone"))
ALONE = Wanted(("name", "country"))
T1, T2, T3 = (f"2026-11-02T09:15:0{second}.101Z" for second in (1, 2, 3))


def company_ref(object_id: str, object_type: str = "companies") -> SubjectRef:
    return SubjectRef("hubspot", PORTAL, object_type, object_id)


@pytest.fixture
def portal(sandbox: SandboxControl) -> Iterator[httpx.Client]:
    """People and integrations at work in the same portal."""
    headers = {"authorization": "Bearer pat-sandbox-token"}
    url = f"{sandbox.base_url}/crm/objects/2026-09"
    with httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=ANSWER_SECONDS) as client:
        yield client


def record(object_id: object, updated: str, links: list[str] | None = None, **values: object) -> dict[str, Any]:
    """A record as HubSpot answers it."""
    linked = [{"id": link, "type": "company_to_contact_unlabeled"} for link in links or []]
    associations = {"associations": {"contacts": {"results": linked}}} if linked else {}
    return {"id": object_id, "updatedAt": updated, "properties": values, **associations}


def read_from(answers: Sequence[object], wanted: Wanted = WANTED) -> SubjectReading:
    with raw_server(json_answers(answers)) as server, closing(hubspot_to(server.url)) as connector:
        reading = connector.read_subject(company_ref("1"), wanted)
    assert len(server.requests) == len(answers)
    return reading


def made_by(**entry: object) -> dict[str, str]:
    """Makers read from one history entry of the name."""
    history = {"name": [{"value": "Old", "timestamp": T1, "sourceType": "IMPORT"}, {"timestamp": T2, **entry}]}
    return dict(read_from([{**record("1", T1, name="A"), "propertiesWithHistory": history}], ALONE).makers)


@pytest.mark.parametrize("object_type", ["companies", "0-2"])
def test_company_is_read_with_contact_owner_marker_and_makers(
    hubspot: HubSpot, company: Seeded, object_type: str
) -> None:
    reading = hubspot.read_subject(company_ref(company.company_id, object_type), WANTED)
    assert reading.live == company_ref(company.company_id, object_type)
    assert reading.values == {
        "name": "Northwind Test Partner",
        "country": "DE",
        "description": None,
        "iban": None,
        "linked.id": company.contact_id,
        "linked.email": "contact@example.test",
        "linked.phone": None,
    }
    assert reading.makers == dict.fromkeys(("name", "country", "linked.email"), "hubspot:61000001")
    assert reading.owner == company.owner_id
    assert reading.marker.endswith("Z")
    assert reading.notes == {}


def test_c15_ids_keep_every_digit(hubspot: HubSpot, sandbox: SandboxControl) -> None:
    sandbox.settings(next_object_id=9007199254740993)
    company_id = sandbox.seed({"name": "Big"}).company_id
    assert company_id == "9007199254740993"
    hubspot.project(company_ref(company_id), {"counterfoil_state": "queued"})
    assert hubspot.read_subject(company_ref(company_id), ALONE).live.object_id == company_id


def test_c15_ids_and_amounts_given_as_numbers_become_exact_text() -> None:
    raw: dict[str, Any] = json.loads('{"amount": 1.10, "big": 9007199254740993, "flag": true}')
    reading = read_from([record(7615917337495251231, T1, **raw)], Wanted(("amount", "big", "flag")))
    assert reading.live.object_id == "7615917337495251231"
    assert reading.values == {"amount": "1.1", "big": "9007199254740993", "flag": "true"}


def test_c16_unstorable_characters_are_replaced_with_a_note() -> None:
    values: dict[str, Any] = {"name": "Ac\0me", "country": "x\ud83d", "iban": "\\u0000 😀"}
    reading = read_from([record("1", T1, **values)], Wanted(("name", "country", "iban")))
    assert reading.values == {"name": "Ac\ufffdme", "country": "x\ufffd", "iban": "\\u0000 😀"}
    assert reading.notes == dict.fromkeys(("name", "country"), "unstorable_characters_replaced")


def test_c19_absent_null_and_empty_are_not_given() -> None:
    reading = read_from([record("1", T1, name=None, country="")], Wanted(("name", "country", "iban")))
    assert reading.values == {"name": None, "country": None, "iban": None}


def test_c19_projection_touches_only_the_properties_given(hubspot: HubSpot, portal: httpx.Client) -> None:
    values = {"name": "A", "country": "DE", "counterfoil_reason": "old", "counterfoil_state": "queued"}
    company_id = portal.post("/companies", json={"properties": values}).json()["id"]
    hubspot.project(company_ref(company_id), {"counterfoil_state": "running", "counterfoil_reason": None})
    read = hubspot.read_subject(company_ref(company_id), Wanted(tuple(values)))
    assert read.values == {"name": "A", "country": "DE", "counterfoil_reason": None, "counterfoil_state": "running"}


def test_empty_projection_makes_no_request(hubspot: HubSpot, sandbox: SandboxControl) -> None:
    hubspot.project(company_ref("1"), {})
    assert sandbox.requests(method="PATCH") == []


def test_c20_merge_into_a_new_id_is_gone_and_the_index_knows_the_survivor(
    hubspot: HubSpot, sandbox: SandboxControl, portal: httpx.Client
) -> None:
    sandbox.add_property("companies", "hs_merged_object_ids")
    first, second = (portal.post("/companies", json={"properties": {"name": n}}).json()["id"] for n in "AB")
    merge = {"primaryObjectId": first, "objectIdToMerge": second}
    survivor = portal.post("/companies/merge", json=merge).json()["id"]
    portal.patch(f"/companies/{survivor}", json={"properties": {"hs_merged_object_ids": f"{first};{second}"}})
    for merged in (first, second):
        with pytest.raises(SubjectGone) as gone:
            hubspot.read_subject(company_ref(merged), WANTED)
        assert gone.value.fields["subject"] == f"hubspot:{PORTAL}:companies:{merged}"
        assert hubspot.successor(company_ref(merged)) == company_ref(survivor)
    assert hubspot.successor(company_ref(survivor)) is None
    with pytest.raises(SubjectGone):
        hubspot.project(company_ref(first), {"counterfoil_state": "running"})


def test_c20_read_of_a_merged_id_that_answers_with_the_survivor_names_it() -> None:
    assert read_from([record("305", T1, name="A")], ALONE).live == company_ref("305")


def test_torn_read_is_read_again() -> None:
    torn = [record("1", T1, ["9"], name="Old"), record("9", T1, email="old@x.test"), record("1", T2, ["9"])]
    still = [record("1", T2, ["9"], name="New"), record("9", T2, email="new@x.test"), record("1", T2, ["9"])]
    reading = read_from([*torn, *still])
    assert (reading.values["name"], reading.values["linked.email"]) == ("New", "new@x.test")
    assert reading.marker == T2


def test_link_that_moved_during_the_read_is_read_again() -> None:
    torn = [record("1", T1, ["9"], name="A"), record("9", T1, email="old@x.test"), record("1", T1, ["8"])]
    still = [record("1", T1, ["8"], name="A"), record("8", T1, email="new@x.test"), record("1", T1, ["8"])]
    assert read_from([*torn, *still]).values["linked.id"] == "8"


def test_linked_record_that_vanished_during_the_read_is_read_again() -> None:
    torn = [record("1", T1, ["9"], name="A"), (404, {"status": "error"}), record("1", T1, ["9"])]
    assert read_from([*torn, record("1", T1, name="A"), record("1", T1)]).values.get("linked.id") is None


def test_record_that_never_stands_still_is_torn() -> None:
    times = iter(range(100))

    def moving(*links: str) -> dict[str, Any]:
        return record("1", f"2026-11-02T09:15:{next(times):02}.101Z", ["9"], name="A")

    tries = [part for _ in range(3) for part in (moving(), record("9", T1, email="e@x.test"), moving())]
    with pytest.raises(ReadFailed) as failed:
        read_from(tries)
    assert failed.value.fields["reason"] == "torn_read"


def test_primary_contact_is_chosen_alike_by_every_read() -> None:
    kinds = {"7": "company_to_contact_unlabeled", "101": "company_to_contact", "30": "company_to_contact"}
    results = [{"id": linked, "type": kind} for linked, kind in kinds.items()]
    company = {**record("1", T1, name="A"), "associations": {"contacts": {"results": results}}}
    assert read_from([company, record("30", T1), company]).values["linked.id"] == "30"
    plain = {**company, "associations": {"contacts": {"results": [{**one, "type": "x_unlabeled"} for one in results]}}}
    assert read_from([plain, record("7", T1), plain]).values["linked.id"] == "7"


@pytest.mark.parametrize(
    ("entry", "makers"),
    [
        ({"sourceType": "CRM_UI", "sourceId": "userId:61000001"}, {"name": "hubspot:61000001"}),
        ({"sourceType": "CRM_UI", "updatedByUserId": 61000002}, {"name": "hubspot:61000002"}),
        ({"sourceType": "INTEGRATION", "sourceId": "555"}, {"name": "hubspot:app-555"}),
        ({"sourceType": "INTEGRATION", "sourceId": "555", "updatedByUserId": 1}, {"name": "hubspot:app-555"}),
        ({"sourceType": "INTEGRATION", "sourceId": "7700123", "updatedByUserId": 1}, {}),
        ({"sourceType": "AUTOMATION_PLATFORM", "sourceId": "flow 3"}, {"name": "hubspot:source-AUTOMATION_PLATFORM"}),
        ({}, {"name": "hubspot:source-UNKNOWN"}),
    ],
)
def test_maker_is_the_author_of_the_newest_entry(entry: dict[str, object], makers: dict[str, str]) -> None:
    assert made_by(**entry) == makers


def test_another_portals_subject_is_refused_before_any_request(hubspot: HubSpot, sandbox: SandboxControl) -> None:
    stranger = SubjectRef("hubspot", "1", "companies", "1")
    for refused in (lambda: hubspot.read_subject(stranger, ALONE), lambda: hubspot.project(stranger, {"a": "b"})):
        with pytest.raises(ReadFailed) as failed:
            refused()
        assert failed.value.fields["reason"] == "other_account"
    assert sandbox.requests(path_prefix="/crm") == []


@pytest.mark.parametrize("fault", ["html_200", "html_403", "error_500_before", "drop_before", "body_status_error"])
def test_c54_unreadable_subject_is_a_failed_read_not_a_gone_one(
    hubspot: HubSpot, sandbox: SandboxControl, company: Seeded, fault: str
) -> None:
    sandbox.fault(fault, match={"system": "hubspot"})
    with pytest.raises(ReadFailed):
        hubspot.read_subject(company_ref(company.company_id), WANTED)
    assert hubspot.read_subject(company_ref(company.company_id), WANTED).values["country"] == "DE"


@pytest.mark.parametrize("fault", ["drop_after_commit", "commit_500", "html_403"])
def test_projection_without_a_clear_answer_is_a_failed_write(
    hubspot: HubSpot, sandbox: SandboxControl, company: Seeded, fault: str
) -> None:
    sandbox.fault(fault, match={"method": "PATCH"})
    with pytest.raises(ReadFailed):
        hubspot.project(company_ref(company.company_id), {"counterfoil_state": "running"})
    assert len(sandbox.requests(method="PATCH")) == 1


@pytest.mark.parametrize(("fault", "wait"), [("throttle_429", 7.0), ("migration_477", 60.0), ("lock_423", None)])
def test_c62_throttled_read_carries_its_wait(
    hubspot: HubSpot, sandbox: SandboxControl, company: Seeded, fault: str, wait: float | None
) -> None:
    sandbox.fault(fault, retry_after="7" if fault == "throttle_429" else "60", match={"system": "hubspot"})
    with pytest.raises(Throttled) as throttled:
        hubspot.read_subject(company_ref(company.company_id), WANTED)
    assert throttled.value.fields["retry_after"] == wait
