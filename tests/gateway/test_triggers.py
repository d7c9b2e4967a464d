"""Triggers through the real gateway: what is answered, what the store holds, and that one key has one run."""

from __future__ import annotations

import gzip
import json
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import Any

import httpx
import pytest
from engine_view import EngineView
from eventually import ANSWER_SECONDS, eventually
from inbound_samples import ODD_BODIES, batch
from senders import Sender, changed, now_ms, submitted
from world import PARTNER, PORTAL, SECRET, TOKEN, World

from gateway.signatures import sign_hubspot_v3


@pytest.fixture(scope="module")
def sender(shared: World) -> Sender:
    return Sender(shared)


def runs_of(shared: World, company_id: str) -> list[dict[str, Any]]:
    key = f"{PORTAL}-0-2-{company_id}"
    return list(shared.http.get("/runs", params={"business_key": key}).json())


def deliveries_of(shared: World, *elements: dict[str, Any]) -> list[dict[str, Any]]:
    """The delivery rows of these HubSpot elements."""
    names = ("portalId", "subscriptionType", "objectId", "eventId", "occurredAt")
    keys = [":".join(str(element[name]) for name in names) for element in elements]
    return shared.rows(
        "SELECT change, disposition, reason, run_id FROM delivery WHERE dedupe_key = ANY(%s) ORDER BY id", keys
    )


def became(shared: World, element: dict[str, Any], disposition: str) -> None:
    """Wait until the delivery was settled, and as this."""
    eventually(lambda: [row["disposition"] for row in deliveries_of(shared, element)] != ["pending_read"])
    assert [row["disposition"] for row in deliveries_of(shared, element)] == [disposition]


def inputs(shared: World, run_id: str, number: int) -> dict[str, Any]:
    """The stored inputs of a version, read as a reviewer."""
    headers = {"Authorization": f"Bearer {shared.actor('sabine', 'supervisor')}"}
    answer = shared.http.get(f"/runs/{run_id}/versions/{number}", headers=headers)
    return dict(answer.raise_for_status().json()["inputs"])


def read_up(shared: World, company_id: str) -> bool:
    """Whether no change of this record is still to be read."""
    return not shared.rows("SELECT FROM delivery WHERE object_id = %s AND disposition = 'pending_read'", company_id)


# ── C01 ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_c01_one_delivery_many_times_is_one_run(shared: World, sender: Sender, engine: EngineView) -> None:
    company_id = shared.seed().company_id
    shared.sandbox.wait_until_delivered()
    element = submitted(company_id)
    body, barrier = batch(element), Barrier(8)

    def together(_: int) -> httpx.Response:
        barrier.wait()
        return sender.post(body)

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(together, range(8)))
    answers += [sender.post(body) for _ in range(46)]
    assert {answer.status_code for answer in answers} == {202}
    told = [answer.json()["elements"][0]["disposition"] for answer in answers]
    assert sorted(set(told)) == ["duplicate", "started"]
    assert told.count("started") == 1
    (run,) = runs_of(shared, company_id)
    assert len(deliveries_of(shared, element)) == 1
    assert len(shared.rows("SELECT FROM receipt WHERE body = %s", body)) == 1

    shared.wait_state(run["run"], "awaiting_review")
    assert shared.decide(run["run"], "rejected").status_code == 200
    ended = shared.wait_state(run["run"], "failed")
    assert sender.send(*json.loads(body))[0]["disposition"] == "duplicate"
    assert sender.send(submitted(company_id))[0] == {
        "index": 0,
        "disposition": "pending_read",
        "reason": "already_exists",
        "run": run["run"],
    }
    assert [each["run"] for each in runs_of(shared, company_id)] == [run["run"]]
    after = shared.show(run["run"])
    assert (after["state"], after["seq"]) == (ended["state"], ended["seq"])
    assert len(eventually(lambda: engine.executions(run["run"]))) == 1


# ── C04, C06: order ─────────────────────────────────────────────────────────────────────────────────────────────


def test_c04_an_event_that_arrives_late_withdraws_nothing(shared: World, sender: Sender) -> None:
    company_id = shared.seed().company_id
    run_id = shared.submit(company_id)
    shared.wait_state(run_id, "awaiting_review")
    shared.set_company(company_id, name="Nordwind Neu GmbH")
    waiting = shared.wait_version(run_id, 2)
    late = changed(company_id, "name", "Nordwind Alt GmbH", occurredAt=now_ms() - 180_000)
    assert sender.send(late)[0]["disposition"] == "pending_read"
    became(shared, late, "echo")
    assert shared.show(run_id)["input_version"] == 2
    assert shared.show(run_id)["seq"] == waiting["seq"]
    shared.approve(run_id)
    done = shared.wait_state(run_id, "succeeded")
    later = changed(company_id, "name", "Nordwind Alt GmbH", occurredAt=now_ms() - 360_000)
    sender.send(later)
    became(shared, later, "echo")
    assert shared.show(run_id)["seq"] == done["seq"]
    assert len(runs_of(shared, company_id)) == 1


def test_c04_inputs_sent_along_are_ordered_by_their_own_time(shared: World, sender: Sender) -> None:
    given = {name: text for name, text in PARTNER.items() if name != "description"}
    request_id, noon = f"preq-{secrets.token_hex(4)}", datetime.now(UTC) - timedelta(hours=1)
    assert sender.request("submitted", request_id, given, noon) == "pending_read"
    key = f"default-request-{request_id}"
    run_id = eventually(lambda: shared.http.get("/runs", params={"business_key": key}).json())[0]["run"]
    shared.wait_state(run_id, "awaiting_review")
    sender.request("amended", request_id, {**given, "name": "Third"}, noon + timedelta(minutes=9))
    shared.wait_version(run_id, 2)
    sender.request("amended", request_id, {**given, "name": "Second"}, noon + timedelta(minutes=3))
    statement = "SELECT FROM delivery WHERE object_id = %s AND disposition = 'stale'"
    assert len(eventually(lambda: shared.rows(statement, request_id))) == 1
    assert shared.show(run_id)["input_version"] == 2
    assert inputs(shared, run_id, 2)["name"] == "Third"


def test_c19_an_inline_amendment_changes_what_it_names_and_nothing_else(shared: World, sender: Sender) -> None:
    request_id, noon = f"preq-{secrets.token_hex(4)}", datetime.now(UTC) - timedelta(hours=1)
    sender.request("submitted", request_id, PARTNER, noon)
    key = f"default-request-{request_id}"
    run_id = eventually(lambda: shared.http.get("/runs", params={"business_key": key}).json())[0]["run"]
    shared.wait_state(run_id, "awaiting_review")
    sender.request("amended", request_id, {"name": "Nordwind Neu GmbH"}, noon + timedelta(minutes=1))
    shared.wait_version(run_id, 2)
    assert inputs(shared, run_id, 2) == {**inputs(shared, run_id, 1), "name": "Nordwind Neu GmbH"}
    sender.request("amended", request_id, {"iban": None}, noon + timedelta(minutes=2))
    cleared = shared.wait_state(run_id, "waiting", reason="inputs_incomplete")
    assert (cleared["input_version"], inputs(shared, run_id, 3)["iban"]) == (3, None)


@pytest.mark.parametrize("order", ["change first", "submission first", "together"])
def test_c06_a_change_before_the_submission_is_neither_lost_nor_a_second_run(
    shared: World, sender: Sender, order: str
) -> None:
    company_id = shared.seed(name="Before GmbH").company_id
    shared.sandbox.settings(webhook_hold=True)
    shared.set_company(company_id, name="After GmbH")
    change, submission = changed(company_id, "name", "After GmbH"), submitted(company_id)
    if order == "together":
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(sender.send, (change, submission)))
    else:
        for element in (change, submission) if order == "change first" else (submission, change):
            sender.send(element)
    shared.sandbox.settings(webhook_hold=False)
    (run,) = runs_of(shared, company_id)
    shown = shared.wait_state(run["run"], "awaiting_review")
    shared.sandbox.wait_until_delivered()
    eventually(lambda: read_up(shared, company_id))
    assert shared.show(run["run"])["input_version"] == shown["input_version"] == 1
    assert inputs(shared, run["run"], 1)["name"] == "After GmbH"
    assert len(runs_of(shared, company_id)) == 1


# ── C07 ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def without(element: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in element.items() if key != name}


BAD_THIRD = {
    "no object id": lambda good: without(good, "objectId"),
    "an unknown kind": lambda good: {**good, "subscriptionType": "object.teleported"},
    "a number": lambda good: good["eventId"],
    "null": lambda good: None,
}


@pytest.mark.parametrize("bend", BAD_THIRD.values(), ids=BAD_THIRD.keys())
def test_c07_one_bad_element_is_quarantined_alone(shared: World, sender: Sender, bend: Any) -> None:  # noqa: ANN401
    companies = [str(secrets.randbelow(10**12) + 10**12) for _ in range(5)]
    elements: list[Any] = [changed(company, "name", "x") for company in companies]
    elements[2] = bend(elements[2])
    first, again = sender.send(*elements), sender.send(*elements)
    good = [each for each in first if each["index"] != 2]
    assert [each["disposition"] for each in good] == ["no_request"] * 4
    assert first[2]["disposition"] == "quarantined"
    assert first[2]["reason"]
    assert all("reason" not in each for each in good)
    assert {each["disposition"] for each in again} == {"duplicate"}


# ── C08, C10: signatures and times ──────────────────────────────────────────────────────────────────────────────


def test_c08_the_signature_covers_the_bytes_as_they_came(shared: World, sender: Sender) -> None:
    odd = b'[{ "amount": 1.10, "n":"J\\u00f6rg" , "e":1E2}]'
    stamp = now_ms()
    signed = sign_hubspot_v3(SECRET, shared.settings.hubspot_public_url, stamp, odd)
    accepted = sender.post(odd, signed)
    assert (accepted.status_code, accepted.json()["elements"][0]["disposition"]) == (202, "quarantined")
    respaced = json.dumps(json.loads(odd)).encode()
    refused = sender.post(respaced, signed)
    assert (refused.status_code, refused.json()["error"]) == (401, "bad_signature")
    kept = shared.rows("SELECT verdict, body FROM receipt WHERE body = %s OR body = %s ORDER BY id", odd, respaced)
    assert [(row["verdict"], bytes(row["body"])) for row in kept] == [("genuine", odd), ("bad_signature", respaced)]


@pytest.mark.parametrize(("age", "status"), [(0, 202), (299, 202), (301, 401), (-600, 401), (-290, 202)])
def test_c10_the_time_may_be_five_minutes_off_either_way(sender: Sender, age: int, status: int) -> None:
    assert sender.post(batch(changed(1, "name", "x")), stamp=now_ms() - age * 1000).status_code == status


@pytest.mark.parametrize("text", ["", "12e12", "-1", "1707926838792.0", "9" * 400, "0x10", "nan"])
def test_c10_a_time_that_is_no_number_is_refused(sender: Sender, text: str) -> None:
    assert sender.post(b"[]", {"X-HubSpot-Request-Timestamp": text}).status_code == 401


def test_c10_digits_of_another_script_are_refused(shared: World) -> None:
    url = shared.settings.hubspot_public_url
    stamp = str(now_ms()).translate(str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")).encode()
    signed = sign_hubspot_v3(SECRET, url, now_ms(), b"[]")
    headers = {**{k.encode(): v.encode() for k, v in signed.items()}, b"X-HubSpot-Request-Timestamp": stamp}
    assert httpx.post(url, content=b"[]", headers=headers, timeout=ANSWER_SECONDS).status_code == 401


# ── C13, C14: bodies ────────────────────────────────────────────────────────────────────────────────────────────


STARTED_BY = """
    SELECT FROM delivery JOIN receipt ON receipt.id = delivery.receipt_id
    WHERE receipt.body = %s AND delivery.run_id IS NOT NULL
"""


@pytest.mark.parametrize(("body", "status"), ODD_BODIES.items(), ids=[repr(body[:12]) for body in ODD_BODIES])
def test_c13_an_odd_body_is_answered_and_starts_nothing(
    shared: World, sender: Sender, body: bytes, status: int
) -> None:
    answer = sender.post(body)
    assert answer.status_code == status
    if body in (b"[]", b"\xef\xbb\xbf[]"):
        assert answer.json() == {"elements": []}
    elif status == 202:
        assert [each["disposition"] for each in answer.json()["elements"]] in (["quarantined"], ["duplicate"])
    assert shared.rows(STARTED_BY, body) == []


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
def test_c13_only_post_is_allowed(shared: World, method: str) -> None:
    for source in ("hubspot", "standard-webhooks"):
        assert shared.http.request(method, f"/triggers/{source}").status_code == 405


def padded(size: int, company_id: str) -> bytes:
    bare = batch(submitted(company_id, padding=""))
    return batch(submitted(company_id, padding="x" * (size - len(bare))))


def test_c14_a_large_body_below_the_cap_starts_a_run_that_can_succeed(shared: World, sender: Sender) -> None:
    company_id = shared.seed().company_id
    answer = sender.post(padded(1_900_000, company_id))
    assert (answer.status_code, answer.json()["elements"][0]["disposition"]) == (202, "started")
    shared.approve(answer.json()["elements"][0]["run"])
    shared.wait_state(answer.json()["elements"][0]["run"], "succeeded")


@pytest.mark.parametrize("size", [2_200_000, 4_400_000, 10_000_000])
def test_c14_a_body_above_the_cap_is_refused(shared: World, sender: Sender, size: int) -> None:
    body = padded(size, "1")
    answer = sender.post(body)
    assert (answer.status_code, answer.json()["error"]) == (413, "body_too_large")
    assert shared.rows("SELECT FROM receipt WHERE body = %s", body) == []


def test_c14_a_body_without_length_is_cut_off_at_the_cap(shared: World) -> None:
    url, body = shared.settings.hubspot_public_url, padded(10_000_000, "1")

    def chunks() -> Iterator[bytes]:
        yield from (body[at : at + 65_536] for at in range(0, len(body), 65_536))

    signed = sign_hubspot_v3(SECRET, url, now_ms(), body)
    assert httpx.post(url, content=chunks(), headers=signed, timeout=ANSWER_SECONDS).status_code == 413


def test_c14_a_compressed_body_is_refused_unread(shared: World, sender: Sender) -> None:
    bomb = gzip.compress(b"0" * 50_000_000)
    answer = sender.post(bomb, {"content-encoding": "gzip"})
    assert (answer.status_code, answer.json()["error"]) == (415, "encoding_refused")


# ── C15, C16, C19: values ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("big", [9007199254740993, 7615917337495251231])
def test_c15_an_id_above_2_to_the_53_keeps_every_digit(
    shared: World, sender: Sender, engine: EngineView, big: int
) -> None:
    shared.sandbox.settings(next_object_id=big)
    company_id = next_with_id(shared, big)
    first, as_text = submitted(int(company_id)), submitted(company_id)
    assert sender.send(first)[0]["disposition"] == "started"
    assert sender.send(as_text)[0]["reason"] == "already_exists"
    (run,) = runs_of(shared, company_id)
    shared.approve(run["run"])
    done = shared.wait_state(run["run"], "succeeded")
    assert done["subject"] == f"hubspot:{PORTAL}:0-2:{company_id}"
    assert company_id in engine.workflow_id(run["run"])
    shared.agrees(run["run"])


def next_with_id(shared: World, least: int) -> str:
    """A seeded company whose id is beyond what a double can hold exactly."""
    company_id = shared.seed().company_id
    assert int(company_id) >= least > 2**53
    return company_id


ODD_TEXTS = {"NUL": "Ac\u0000me", "half a pair": "x\ud83d", "the six letters": "Ac\\u0000me"}


@pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS.keys())
def test_c16_a_text_that_no_column_can_hold_loses_no_event(shared: World, sender: Sender, text: str) -> None:
    company_id = shared.seed().company_id
    run_id = shared.submit(company_id)
    shared.wait_state(run_id, "awaiting_review")
    elements = [changed(company_id, "description", each) for each in (text, "a", text, "b")]
    told = [*sender.send(elements[0]), *sender.send(*elements[1:])]
    assert [each["disposition"] for each in told] == ["pending_read"] * 4
    assert len(deliveries_of(shared, *elements)) == 4
    assert len(shared.rows("SELECT FROM receipt WHERE body = %s", batch(*elements[1:]))) == 1
    eventually(lambda: read_up(shared, company_id))


@pytest.mark.parametrize("text", [None, ""], ids=["null", "empty"])
def test_c19_a_cleared_field_is_a_new_version_that_no_approval_covers(
    shared: World, sender: Sender, text: str | None
) -> None:
    company_id = shared.seed().company_id
    run_id = shared.submit(company_id)
    shared.wait_state(run_id, "awaiting_review")
    shared.set_company(company_id, bank_holder=text)  # type: ignore[arg-type]
    shared.wait_state(run_id, "waiting", reason="inputs_incomplete")
    assert inputs(shared, run_id, 2)["bank_holder"] is None
    assert shared.decide(run_id, version=1).json()["why"] == "superseded"
    shared.set_company(company_id, bank_holder="Nordwind Handels GmbH")
    shared.wait_version(run_id, 3)
    shared.set_company(company_id, bank_holder="Nordwind Handels GmbH")
    sender.send(changed(company_id, "phone", "+49 30 5550100"))
    eventually(lambda: read_up(shared, company_id))
    assert shared.show(run_id)["input_version"] == 3


def test_c19_writing_back_touches_only_what_is_ours(shared: World) -> None:
    company_id = shared.seed(city="Leipzig", website="nordwind.example").company_id
    shared.approve(shared.submit(company_id))
    eventually(lambda: shared.company(company_id)["properties"].get("counterfoil_state") == "succeeded", 30)
    ours = {"counterfoil_state", "counterfoil_reason", "counterfoil_run", "counterfoil_account"}
    written = [each for each in shared.sandbox.requests(method="PATCH") if each["path"].endswith(f"/{company_id}")]
    by_us = [body for body in map(body_of, written) if not {"onboarding_stage"} & set(body)]
    assert by_us
    assert all(set(body) <= ours for body in by_us)
    assert shared.company(company_id)["properties"]["city"] == "Leipzig"


def body_of(request: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(request["body"])["properties"])


# ── C20: merged records ─────────────────────────────────────────────────────────────────────────────────────────


def merge(shared: World, primary: str, other: str) -> str:
    """Merge in the CRM; the survivor's id, which is a new one."""
    answer = httpx.post(
        f"{shared.sandbox.base_url}/crm/v3/objects/companies/merge",
        json={"primaryObjectId": primary, "objectIdToMerge": other},
        headers={"Authorization": f"Bearer {TOKEN}"},
        timeout=ANSWER_SECONDS,
    )
    return str(answer.raise_for_status().json()["id"])


def test_c20_a_run_follows_its_record_into_the_one_that_survives_a_merge(shared: World, sender: Sender) -> None:
    other, mine = shared.seed(name="Other GmbH").company_id, shared.seed().company_id
    run_id = shared.submit(mine)
    shared.wait_state(run_id, "awaiting_review")
    survivor = merge(shared, other, mine)
    assert survivor not in (other, mine)
    shared.sandbox.wait_until_delivered()
    subject = f"hubspot:{PORTAL}:0-2:{survivor}"
    eventually(lambda: shared.show(run_id)["subject"] == subject)
    shown = shared.wait_version(run_id, 2)
    assert shown["business_key"] == f"{PORTAL}-0-2-{mine}"
    assert inputs(shared, run_id, 2)["name"] == "Other GmbH"
    assert sender.send(submitted(survivor))[0]["reason"] == "already_exists"
    assert runs_of(shared, survivor) == []
    shared.approve(run_id)
    shared.wait_state(run_id, "succeeded")
    shared.agrees(run_id)
    assert shared.company(survivor)["properties"]["counterfoil_run"] == run_id


def test_c20_two_open_runs_that_meet_in_one_record_go_to_an_operator(shared: World) -> None:
    first, second = (shared.seed().company_id for _ in range(2))
    runs = shared.submit_all([first, second])
    for run_id in runs:
        shared.wait_state(run_id, "awaiting_review")
    merge(shared, first, second)
    shared.sandbox.wait_until_delivered()
    eventually(lambda: len({shared.show(run_id)["subject"] for run_id in runs}) == 1)
    for run_id in runs:
        held = shared.wait_state(run_id, "needs_operator", reason="subjects_merged")
        assert held["next_owner"] == "operator"
        assert shared.accounts(run_id) == []
