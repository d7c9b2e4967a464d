"""Every fault: what the client sees, and whether the effect happened."""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from eventually import ANSWER_SECONDS, eventually

from sandbox.control import SandboxControl
from sandbox.faults import FAULTS

FORM = {"country": "DE", "metadata[operation_key]": "op-1"}
DOCS = Path(__file__).parents[2] / "docs" / "sandbox.md"
COMPANY = {"properties": {"name": "North", "operation_key": "op-1"}}


class Expected(NamedTuple):
    """Status and start of the content type, or the transport error, and the number of records afterwards."""

    seen: tuple[int, str] | type[Exception]
    records: int


JSON, HTML = "application/json", "text/html"
EXPECTED = {
    # a reset where the body had arrived unread
    "refuse": Expected(httpx.TransportError, 0),
    "drop_before": Expected(httpx.RemoteProtocolError, 0),
    "drop_after_commit": Expected(httpx.RemoteProtocolError, 1),
    "drop_after_hidden_commit": Expected(httpx.RemoteProtocolError, 1),
    "commit_500": Expected((500, JSON), 1),
    "commit_502_html": Expected((502, HTML), 1),
    "commit_503_retry_after": Expected((503, JSON), 1),
    "commit_504_empty": Expected((504, ""), 1),
    "commit_cut_body": Expected(httpx.RemoteProtocolError, 1),
    "commit_redirect": Expected((302, ""), 1),
    "html_200": Expected((200, HTML), 0),
    "json_content_type_with_html": Expected((200, JSON), 0),
    "html_403": Expected((403, HTML), 0),
    "body_status_error": Expected((200, JSON), 0),
    "empty_object": Expected((200, JSON), 1),
    "id_null": Expected((0, JSON), 1),
    "id_empty": Expected((0, JSON), 1),
    "wrong_record": Expected((201, JSON), 1),
    "error_500_before": Expected((500, JSON), 0),
    "error_500_empty": Expected((500, ""), 0),
    "slow_before": Expected((0, JSON), 1),
    "slow_after": Expected((0, JSON), 1),
    "throttle_429": Expected((429, JSON), 0),
    "commit_429": Expected((429, JSON), 1),
    "busy_409": Expected((409, JSON), 0),
    "lock_423": Expected((423, JSON), 0),
    "migration_477": Expected((477, JSON), 0),
}
LATE = {"drop_then_commit"}


class System(NamedTuple):
    """How a record is created and listed in one of the pretended systems; `created` is the genuine status."""

    name: str
    kind: str
    path: str
    created: int
    request: dict[str, Any]
    headers: dict[str, str]


HUBSPOT = System(
    "hubspot",
    "companies",
    "/crm/objects/2026-09/companies",
    201,
    {"json": COMPANY},
    {"authorization": "Bearer pat-sandbox-token"},
)
STRIPE = System(
    "stripe",
    "accounts",
    "/v1/accounts",
    200,
    {"data": FORM},
    {"authorization": "Bearer sk_test_sandbox", "idempotency-key": "op-1"},
)
PRACTICE = System(
    "practice",
    "keyed_store_all",
    "/practice/keyed_store_all/accounts",
    201,
    {"json": {"reference": "op-1", "name": "North", "country": "DE", "email": "north@example.test"}},
    {"authorization": "Bearer practice-sandbox-token", "idempotency-key": "op-1"},
)
SYSTEMS = pytest.mark.parametrize("system", [HUBSPOT, STRIPE, PRACTICE], ids=["hubspot", "stripe", "practice"])


def create(sandbox: SandboxControl, system: System) -> httpx.Response:
    with httpx.Client(trust_env=False, verify=False, timeout=ANSWER_SECONDS) as client:
        return client.post(sandbox.base_url + system.path, headers=system.headers, **system.request)


def records(sandbox: SandboxControl, system: System) -> int:
    return len(sandbox.records(system.name, system.kind))


def test_every_fault_is_expected_here_and_documented() -> None:
    assert EXPECTED.keys() | LATE == FAULTS.keys()
    table = DOCS.read_text().partition("## Faults")[2].splitlines()
    documented = {
        name for line in table if line.startswith("| `") for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert documented == FAULTS.keys()


@SYSTEMS
@pytest.mark.parametrize("name", EXPECTED)
def test_fault(sandbox: SandboxControl, system: System, name: str) -> None:
    expected = EXPECTED[name]
    sandbox.fault(name, seconds=0.01)
    if isinstance(expected.seen, tuple):
        answer = create(sandbox, system)
        status, content_type = expected.seen
        assert answer.status_code == (status or system.created)
        assert answer.headers.get("content-type", "").startswith(content_type)
    else:
        with pytest.raises(expected.seen):
            create(sandbox, system)
    assert records(sandbox, system) == expected.records
    [logged] = sandbox.requests(path_prefix=system.path)
    assert (logged["fault"], logged["executed"]) == (name, expected.records == 1)


@SYSTEMS
def test_effect_may_come_long_after_the_connection_is_closed(sandbox: SandboxControl, system: System) -> None:
    sandbox.fault("drop_then_commit", seconds=0.3)
    with pytest.raises(httpx.RemoteProtocolError):
        create(sandbox, system)
    eventually(lambda: records(sandbox, system) == 1)
    assert eventually(lambda: sandbox.requests(path_prefix=system.path)[0]["executed"])


def test_slow_call_takes_effect_although_the_client_gave_up(sandbox: SandboxControl) -> None:
    sandbox.fault("slow_before", seconds=2)
    impatient = httpx.Timeout(ANSWER_SECONDS, read=0.2)
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(sandbox.base_url + STRIPE.path, data=FORM, headers=STRIPE.headers, timeout=impatient)
    assert records(sandbox, STRIPE) == 0
    eventually(lambda: records(sandbox, STRIPE) == 1)


def read_into(body: bytearray, answer: httpx.Response) -> None:
    for part in answer.iter_raw():
        body += part


@SYSTEMS
def test_cut_body_begins_like_the_genuine_one(sandbox: SandboxControl, system: System) -> None:
    sandbox.fault("commit_cut_body")
    with (
        httpx.Client(trust_env=False, verify=False, timeout=ANSWER_SECONDS) as client,
        client.stream("POST", sandbox.base_url + system.path, headers=system.headers, **system.request) as answer,
    ):
        assert answer.status_code == system.created
        body = bytearray()
        with pytest.raises(httpx.RemoteProtocolError):
            read_into(body, answer)
    assert body.startswith(b'{"id":')
    assert int(answer.headers["content-length"]) > len(body)


@SYSTEMS
@pytest.mark.parametrize(("name", "value"), [("id_null", None), ("id_empty", "")])
def test_ids_can_be_missing(sandbox: SandboxControl, system: System, name: str, value: str | None) -> None:
    sandbox.fault(name)
    assert create(sandbox, system).json()["id"] == value
    assert create(sandbox, system).json()["id"]


@SYSTEMS
def test_wrong_record_names_another_partner(sandbox: SandboxControl, system: System) -> None:
    sandbox.fault("wrong_record", id="another", operation_key="op-other")
    answer = create(sandbox, system)
    assert answer.json()["id"] == "another"
    assert "op-other" in answer.text
    assert sandbox.records(system.name, system.kind)[0]["id"] != "another"


def test_records_of_a_batch_answer_are_distorted_too(sandbox: SandboxControl) -> None:
    sandbox.add_property("companies", "operation_key", unique=True)
    sandbox.fault("id_null")
    one = {"idProperty": "operation_key", "id": "op-1", "properties": {"name": "North"}}
    answer = httpx.post(
        f"{sandbox.base_url}{HUBSPOT.path}/batch/upsert",
        json={"inputs": [one]},
        headers=HUBSPOT.headers,
        timeout=ANSWER_SECONDS,
    )
    assert [result["id"] for result in answer.json()["results"]] == [None]


@SYSTEMS
def test_refusals_stay_what_they_are(sandbox: SandboxControl, system: System) -> None:
    sandbox.fault("id_null")
    bad = system._replace(request={"content": b"{"})
    assert create(sandbox, bad).status_code == 400


@pytest.mark.parametrize("text", ["", "0", "-1", "1e9999", "Wed, 21 Oct 2026 07:28:00 GMT", "soon", "1" * 400])
def test_retry_after_may_be_any_text(sandbox: SandboxControl, text: str) -> None:
    sandbox.fault("throttle_429", retry_after=text)
    assert create(sandbox, HUBSPOT).headers["retry-after"] == text


def test_throttling_can_repeat_its_header_and_can_execute(sandbox: SandboxControl) -> None:
    sandbox.fault("throttle_429", retry_after=["1", "60"], executed=True)
    answer = create(sandbox, STRIPE)
    assert answer.headers.get_list("retry-after") == ["1", "60"]
    assert (answer.status_code, records(sandbox, STRIPE)) == (429, 1)


def test_hubspots_rate_limit_has_the_body_of_the_example(sandbox: SandboxControl, outbound: Any) -> None:  # noqa: ANN401
    example = json.loads(outbound("hubspot_429.response.json"))
    sandbox.fault("throttle_429")
    answer = create(sandbox, HUBSPOT)
    assert answer.json().keys() == example.keys()
    assert {name: answer.json()[name] for name in ("status", "errorType", "policyName")} == {
        name: example[name] for name in ("status", "errorType", "policyName")
    }
    assert answer.headers["x-hubspot-ratelimit-remaining"] == "0"


def test_stripes_own_errors_carry_a_request_id_and_a_proxys_do_not(sandbox: SandboxControl) -> None:
    sandbox.fault("commit_500")
    sandbox.fault("commit_502_html")
    own, proxy = create(sandbox, STRIPE), create(sandbox, STRIPE)
    assert own.json()["error"]["type"] == "api_error"
    assert ("request-id" in own.headers, "request-id" in proxy.headers) == (True, False)


@pytest.mark.parametrize(
    ("match", "hit"),
    [
        ({}, True),
        ({"method": "GET"}, False),
        ({"method": "POST", "path_prefix": "/v1/acc", "system": "stripe", "key": "op-1"}, True),
        ({"path_prefix": "/crm"}, False),
        ({"system": "hubspot"}, False),
        ({"key": "op-2"}, False),
        ({"key": "metadata[operation_key]"}, True),
    ],
)
def test_faults_hit_what_they_match(sandbox: SandboxControl, match: dict[str, str], hit: bool) -> None:
    sandbox.fault("error_500_before", match=match)
    assert create(sandbox, STRIPE).status_code == (500 if hit else 200)


def test_a_key_is_found_in_the_body_without_a_header(sandbox: SandboxControl) -> None:
    sandbox.fault("lock_423", match={"key": "op-1"})
    assert create(sandbox, HUBSPOT).status_code == 423


def test_faults_are_used_up_in_order_and_survive_in_a_list(sandbox: SandboxControl) -> None:
    sandbox.fault("lock_423", times=2)
    sandbox.fault("busy_409")
    assert [create(sandbox, HUBSPOT).status_code for _ in range(4)] == [423, 423, 409, 201]
    assert [(fault["fault"], fault["remaining"]) for fault in sandbox.faults()] == [("lock_423", 0), ("busy_409", 0)]
    sandbox.clear_faults()
    assert sandbox.faults() == []


@pytest.mark.parametrize(
    "rule",
    [
        {"fault": "no_such"},
        {"fault": "busy_409", "times": 0},
        {"fault": "busy_409", "match": {"colour": "red"}},
        {"fault": "throttle_429", "params": {"retry_after": "1\r\nx: y"}},
        {},
        [],
    ],
)
def test_bad_faults_are_refused(sandbox: SandboxControl, rule: object) -> None:
    assert httpx.post(f"{sandbox.base_url}/sandbox/faults", json=rule, timeout=ANSWER_SECONDS).status_code == 400
    assert sandbox.faults() == []
