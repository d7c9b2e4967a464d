"""What is HubSpot's own in writing: unique values, conflicts named in sentences, batches, locks and migrations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from connector_cases import COMPANY, KEY, PORTAL, TASK, WITHIN, Made, hubspot_to
from eventually import ANSWER_SECONDS
from raw_server import json_answers, raw_server

from connectors.hubspot import HubSpot
from connectors.hubspot_answers import classified
from connectors.hubspot_records import HubSpotSchema
from connectors.transport import Reply
from domain.errors import InvalidInput, ReadFailed
from domain.ports import Send, Sought
from domain.signals import Answer, Doubt, Finding, Found, Signal
from sandbox.control import SandboxControl, Seeded

NOW = datetime(2026, 12, 1, tzinfo=UTC)


@pytest.fixture
def task(sandbox: SandboxControl, hubspot: HubSpot, company: Seeded) -> Made:
    return Made(TASK, hubspot, sandbox, TASK.fields_for(company))


@pytest.fixture
def partner(sandbox: SandboxControl, hubspot: HubSpot) -> Made:
    return Made(COMPANY, hubspot, sandbox, dict(COMPANY.fields))


@pytest.fixture
def outside(sandbox: SandboxControl) -> Iterator[httpx.Client]:
    """Another integration of the same portal."""
    headers = {"authorization": "Bearer pat-sandbox-token"}
    url = f"{sandbox.base_url}/crm/objects/2026-09"
    with httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=ANSWER_SECONDS) as client:
        yield client


def never(reply: Reply, value: object) -> Answer:
    raise AssertionError("not a success")


def answered(status: int, body: object, *headers: tuple[str, str]) -> Answer:
    return classified(Reply(status, headers, json.dumps(body).encode()), NOW, never)


def error(category: str, message: str = "example") -> dict[str, str]:
    return {"status": "error", "message": message, "correlationId": "x", "category": category}


def test_task_body_is_the_documented_one(task: Made, company: Seeded) -> None:
    body = json.loads(task.content)
    assert body["properties"]["operation_key"] == KEY
    assert body["properties"]["hs_task_body"] == "Check ä < & 'quotes'\nRun run_0042"
    (link,) = body["associations"]
    assert link["to"] == {"id": company.company_id}
    assert link["types"] == [{"associationCategory": "HUBSPOT_DEFINED", "associationTypeId": 192}]


def test_task_that_names_its_run_is_not_made_to_name_it_twice(task: Made) -> None:
    task.fields["body"] = "Run run_0042: look"
    assert json.loads(task.content)["properties"]["hs_task_body"] == "Run run_0042: look"


def test_task_without_due_time_company_and_owner_is_due_today(task: Made) -> None:
    task.fields |= {"due_at": None, "subject_id": None, "owner": None, "body": None, "run_id": None}
    content = task.content
    assert task.send(content=content).signal is Signal.ACCEPTED
    assert json.loads(content)["properties"]["hs_timestamp"].endswith("T23:59:00.000Z")
    assert task.probe(content=content).found is Found.ONE


def test_c51_repeat_names_the_task_that_is_ours(task: Made) -> None:
    first = task.send()
    again = task.send()
    assert (again.signal, again.reference, again.http_status) == (Signal.EXISTS, first.reference, 400)
    assert task.probe(again.reference) == Finding(Found.ONE, "found", first.reference)


def test_c51_named_task_without_our_key_is_foreign(task: Made, outside: httpx.Client) -> None:
    plain = {"properties": {"hs_timestamp": "2026-11-03T09:00:00.000Z", "hs_task_subject": "Verify partner account"}}
    theirs = outside.post("/tasks", json=plain).json()["id"]
    assert task.probe(theirs) == Finding(Found.FOREIGN, "other_key", theirs)


@pytest.mark.parametrize(
    ("change", "code"),
    [({"hs_task_subject": "Something else"}, "other_title"), ({"hs_task_body": "Something else"}, "other_body")],
)
def test_c51_task_with_our_key_and_other_content_is_foreign(
    task: Made, outside: httpx.Client, change: dict[str, str], code: str
) -> None:
    reference = task.send().reference
    outside.patch(f"/tasks/{reference}", json={"properties": change}).raise_for_status()
    assert task.probe() == Finding(Found.FOREIGN, code, reference)


def test_c51_task_of_another_company_is_foreign(task: Made, sandbox: SandboxControl) -> None:
    task.send()
    task.fields["subject_id"] = sandbox.seed({"name": "Another"}).company_id
    assert task.probe().code == "other_subject"


def test_people_may_reassign_complete_and_postpone_our_task(task: Made, outside: httpx.Client) -> None:
    reference = task.send().reference
    worked_on = {"hubspot_owner_id": "", "hs_task_status": "COMPLETED", "hs_timestamp": "2026-12-24T09:00:00.000Z"}
    outside.patch(f"/tasks/{reference}", json={"properties": worked_on}).raise_for_status()
    assert task.probe() == Finding(Found.ONE, "found", reference)
    assert task.connector.read_back("create_task", str(reference))["status"] == "COMPLETED"


def test_c51_conflict_without_an_id_is_looked_up_by_key(task: Made) -> None:
    task.fault("busy_409")
    answer = task.send()
    assert (answer.signal, answer.reference) == (Signal.EXISTS, None)
    assert task.probe(answer.reference).found is Found.NONE


def test_c51_named_task_that_is_gone_is_looked_up_by_key(task: Made) -> None:
    reference = task.send().reference
    assert task.probe("30100299999") == Finding(Found.ONE, "found", reference)


def test_fresh_task_is_found_by_its_key_although_the_index_lags(task: Made, sandbox: SandboxControl) -> None:
    sandbox.settings(search_lag=3600)
    task.send()
    assert task.probe().found is Found.ONE


def test_key_property_that_is_not_unique_makes_look_ups_fail(task: Made, sandbox: SandboxControl) -> None:
    """Without uniqueness a resend would duplicate: no look-up may say absent then."""
    sandbox.add_property("tasks", "operation_key", unique=False)
    assert task.probe() == Finding(Found.FAILED, "http_400")


def test_two_tasks_in_the_index_are_many(task: Made) -> None:
    hits = [{"id": str(number), "properties": {"operation_key": KEY}} for number in (1, 2)]
    answers = [(404, error("OBJECT_NOT_FOUND")), {"total": 2, "results": hits}]
    with raw_server(json_answers(answers)) as server, closing(hubspot_to(server.url)) as connector:
        finding = connector.probe(Sought("create_task", KEY, task.content, task.since))
    assert finding == Finding(Found.MANY, "several_tasks")


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ({"results": [{"id": "2", "properties": {"operation_key": KEY}}]}, Finding(Found.MANY, "several_tasks")),
        ((500, {}), Finding(Found.FAILED, "http_500")),
    ],
    ids=["ours_on_the_second_page", "second_page_unread"],
)
def test_every_page_of_the_index_is_read(task: Made, second: object, expected: Finding) -> None:
    first = {"results": [{"id": "1", "properties": {"operation_key": KEY}}], "paging": {"next": {"after": "100"}}}
    answers = [(404, error("OBJECT_NOT_FOUND")), first, second]
    with raw_server(json_answers(answers)) as server, closing(hubspot_to(server.url)) as connector:
        finding = connector.probe(Sought("create_task", KEY, task.content, task.since))
        assert b'"after":"100"' in server.requests[-1]
    assert finding == expected


def test_refused_properties_are_a_rejection_with_code_and_name(sandbox: SandboxControl) -> None:
    schema = HubSpotSchema(operation_key="no_such_property")
    connector = HubSpot(sandbox.base_url, "pat-sandbox-token", portal_id=PORTAL, app_id="1", schema=schema)
    with closing(connector):
        answer = Made(TASK, connector, sandbox, dict(TASK.fields)).send()
    assert answer.signal is Signal.REJECTED
    assert answer.code == "validation_error:property_doesnt_exist:no_such_property"
    assert sandbox.records("hubspot", "tasks") == []


def test_association_with_a_missing_company_is_a_rejection(task: Made) -> None:
    task.fields["subject_id"] = "999"
    assert (task.send().signal, task.ours()) == (Signal.REJECTED, [])


@pytest.mark.parametrize(("fault", "wait"), [("lock_423", None), ("migration_477", timedelta(hours=24))])
def test_c62_lock_and_migration_refuse_before_execution(task: Made, fault: str, wait: timedelta | None) -> None:
    task.fault(fault, **({"retry_after": "999999"} if wait else {}))
    answer = task.send()
    assert (answer.signal, answer.refused, answer.retry_after) == (Signal.THROTTLED, True, wait)
    assert task.ours() == []


def test_c62_rate_limit_of_something_in_between_is_not_documented_as_refusal() -> None:
    page = Reply(429, (("content-type", "text/html"), ("retry-after", "7")), b"<html><title>Too Many Requests</title>")
    answer = classified(page, NOW, never)
    assert (answer.signal, answer.refused, answer.retry_after) == (Signal.THROTTLED, False, timedelta(seconds=7))


def test_c51_conflict_of_a_built_in_unique_value_names_the_holder() -> None:
    body = error("CONFLICT", "Contact already exists. Existing ID: 6001")
    assert answered(409, body) == Answer(Signal.EXISTS, "exists", reference="6001", http_status=409)


def test_c51_taken_custom_value_names_the_holder_in_a_validation_error() -> None:
    problem = {
        "isValid": False,
        "message": "Cannot set partner_key. 7002 already has that value.",
        "error": "CONFLICTING_UNIQUE_VALUE",
        "name": "partner_key",
    }
    inner = json.dumps([problem])
    answer = answered(400, error("VALIDATION_ERROR", f"Property values were not valid: {inner}"))
    assert (answer.signal, answer.reference) == (Signal.EXISTS, "7002")


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, error("RATE_LIMITS_BUT_400")),
        (400, {"message": "no envelope", "category": "VALIDATION_ERROR"}),
        (400, ["VALIDATION_ERROR"]),
        (403, error("MISSING_SCOPES")),
        (404, error("OBJECT_NOT_FOUND")),
        (409, "CONFLICT"),
        (401, "who are you"),
        (418, error("VALIDATION_ERROR")),
    ],
)
def test_refusals_that_are_not_documented_leave_doubt(status: int, body: object) -> None:
    answer = answered(status, body)
    assert (answer.signal, answer.doubt, answer.http_status) == (Signal.UNKNOWN, Doubt.CLIENT_ERROR, status)


@pytest.mark.parametrize("status", [500, 502, 503, 504, 521, 522, 523, 524])
def test_c49_every_server_error_leaves_doubt(status: int) -> None:
    assert answered(status, error("VALIDATION_ERROR")).doubt is Doubt.SERVER_ERROR


def test_rejection_code_never_repeats_a_value() -> None:
    message = 'Property values were not valid: [{"error":"INVALID_EMAIL","name":"email","message":"Hans DE89 3704"}]'
    assert answered(400, error("VALIDATION_ERROR", message)).code == "validation_error:invalid_email:email"
    listed = {**error("VALIDATION_ERROR"), "errors": [{"code": "Hans Meier, DE89 3704", "message": "x"}]}
    assert answered(400, listed).code == "validation_error:unlisted"


RESULT = {"id": "501", "properties": {"partner_key": "PRT-000731", "operation_key": KEY}}
OTHER = {"id": "502", "properties": {"partner_key": "PRT-000732", "operation_key": "op-other"}}
FAILED = {**error("VALIDATION_ERROR"), "context": {"objectWriteTraceId": [KEY]}}


@pytest.mark.parametrize(
    ("answer", "signal", "code"),
    [
        ({"results": [OTHER, RESULT]}, Signal.ACCEPTED, "accepted"),
        ({"results": [RESULT, RESULT]}, Signal.ACCEPTED, "accepted"),
        ({"results": [RESULT, {**RESULT, "id": "503"}]}, Signal.UNKNOWN, "contradictory_answer"),
        ({"results": [OTHER]}, Signal.UNKNOWN, "not_in_answer"),
        ({"results": []}, Signal.UNKNOWN, "not_in_answer"),
        ({"results": [{**RESULT, "id": ""}]}, Signal.UNKNOWN, "contradictory_answer"),
        ({"results": [OTHER], "errors": [FAILED]}, Signal.REJECTED, "validation_error"),
        ({"results": [RESULT], "errors": [FAILED]}, Signal.UNKNOWN, "contradictory_answer"),
        ({"errors": [{**FAILED, "category": "CONFLICT"}]}, Signal.EXISTS, "exists"),
        ({"errors": [{**FAILED, "category": "INTERNAL"}]}, Signal.UNKNOWN, "internal"),
        ({"errors": [{**FAILED, "context": {"objectWriteTraceId": ["op-other"]}}]}, Signal.UNKNOWN, "not_in_answer"),
    ],
)
def test_c61_batch_answer_is_matched_by_key(answer: object, signal: Signal, code: str) -> None:
    with raw_server(json_answers([answer])) as server, closing(hubspot_to(server.url)) as connector:
        content = connector.render("upsert_company", KEY, COMPANY.fields)
        given = connector.send(Send("upsert_company", KEY, content, WITHIN))
    assert (given.signal, given.code) == (signal, code)
    assert given.reference == ("501" if signal is Signal.ACCEPTED else None)


def test_upsert_updates_the_company_that_has_the_key(partner: Made, outside: httpx.Client) -> None:
    existing = outside.post("/companies", json={"properties": {"partner_key": "PRT-000731", "phone": "1"}}).json()["id"]
    assert partner.probe().found is Found.NONE
    answer = partner.send()
    assert (answer.signal, answer.reference) == (Signal.ACCEPTED, existing)
    assert partner.connector.read_back("upsert_company", existing)["phone"] is None


def test_upsert_overwritten_by_somebody_since_is_foreign(partner: Made, outside: httpx.Client) -> None:
    reference = partner.send().reference
    outside.patch(f"/companies/{reference}", json={"properties": {"name": "Renamed"}}).raise_for_status()
    assert partner.probe() == Finding(Found.FOREIGN, "other_name", reference)


def test_upsert_that_another_operation_followed_did_happen(partner: Made) -> None:
    reference = partner.send().reference
    later = Made(partner.case, partner.connector, partner.sandbox, {**partner.fields, "name": "Newer name"})
    partner.connector.send(Send("upsert_company", "op-later", later.content.replace(KEY.encode(), b"op-later"), WITHIN))
    assert partner.probe() == Finding(Found.FOREIGN, "other_operation_key", reference)


def test_upsert_is_not_repeated_over_a_newer_write(partner: Made) -> None:
    partner.connector.send(
        Send("upsert_company", "op-later", partner.content.replace(KEY.encode(), b"op-later"), WITHIN)
    )
    assert partner.probe().code == "newer_write"
    partner.since += timedelta(hours=1)
    assert partner.probe().found is Found.NONE


def test_upsert_refuses_properties_that_could_not_be_read_back(partner: Made) -> None:
    partner.fields["favourite_colour"] = "red"
    with pytest.raises(InvalidInput, match="favourite_colour"):
        _ = partner.content


def test_c51_named_company_with_another_key_is_foreign(partner: Made, company: Seeded) -> None:
    assert partner.probe(company.company_id) == Finding(Found.FOREIGN, "other_key", company.company_id)


def test_check_tells_portal_and_whether_keys_are_unique(hubspot: HubSpot, sandbox: SandboxControl) -> None:
    assert hubspot.check() == (
        "hubspot: portal 90210001",
        "hubspot: property tasks.operation_key is unique",
        "hubspot: property companies.partner_key is unique",
    )
    sandbox.add_property("companies", "partner_key", unique=False)
    assert "companies.partner_key is NOT unique" in hubspot.check()[2]


def test_check_with_the_token_of_another_portal_fails(sandbox: SandboxControl) -> None:
    connector = HubSpot(sandbox.base_url, "pat-sandbox-token", portal_id="1", app_id="1")
    with closing(connector), pytest.raises(ReadFailed) as failed:
        connector.check()
    assert failed.value.fields["reason"] == "other_account"
