"""Callbacks through the real gateway: what is answered, what the store holds, and what becomes of the run."""

from __future__ import annotations

import gzip
import json
import secrets
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import httpx
import pytest
from callers import StripeCaller, about, account_with
from eventually import ANSWER_SECONDS, eventually
from inbound_samples import ODD_BODIES
from world import STRIPE_WEBHOOK_SECRET, World

from gateway.signatures import sign_stripe

ACCOUNTS = {"method": "POST", "path_prefix": "/v1/accounts"}


@pytest.fixture(scope="module")
def caller(shared: World) -> StripeCaller:
    return StripeCaller(shared)


@pytest.fixture
def in_doubt(shared: World) -> Iterator[tuple[str, dict[str, Any]]]:
    """A run whose account was made, and whose every answer is lost; and that account, as the provider has it."""
    email = f"{secrets.token_hex(6)}@partner.example"
    run_id = shared.submit(shared.seed(partner_email=email).company_id)
    shared.fault("drop_after_commit", match={**ACCOUNTS, "key": email}, times=100)
    shared.approve(run_id)
    shared.wait_state(run_id, "outcome_unknown")
    yield run_id, shared.accounts(run_id)[0]
    shared.sandbox.clear_faults()


def key_of(account: dict[str, Any]) -> str:
    return str(account["metadata"]["operation_key"])


def callbacks_of(shared: World, event: dict[str, Any]) -> list[dict[str, Any]]:
    return shared.rows("SELECT disposition, run_id FROM callback_delivery WHERE dedupe_key = %s", event["id"])


# ── What becomes of the run ─────────────────────────────────────────────────────────────────────────────────────────


def test_c48_a_callback_settles_a_lost_answer(
    shared: World, caller: StripeCaller, in_doubt: tuple[str, dict[str, Any]]
) -> None:
    run_id, account = in_doubt
    event = about(account)
    [told] = caller.send(event)
    assert (told["disposition"], told["run"]) == ("taken_up", run_id)
    shared.wait_state(run_id, "succeeded")
    shown = shared.agrees(run_id)
    assert shown["operations"][0]["reference"] == account["id"]
    assert shared.rows("SELECT FROM probe WHERE operation_key = %s", key_of(account)) == []
    assert callbacks_of(shared, event) == [{"disposition": "taken_up", "run_id": run_id}]


def test_c01_one_callback_many_times_settles_once(
    shared: World, caller: StripeCaller, in_doubt: tuple[str, dict[str, Any]]
) -> None:
    run_id, account = in_doubt
    event, barrier = about(account), Barrier(8)
    body = json.dumps(event).encode()

    def together(_: int) -> httpx.Response:
        barrier.wait()
        return caller.post(body)

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(together, range(8)))
    answers += [caller.post(body) for _ in range(10)]
    assert {answer.status_code for answer in answers} == {202}
    told = [answer.json()["elements"][0]["disposition"] for answer in answers]
    assert sorted(told) == ["duplicate"] * 17 + ["taken_up"]
    done = shared.wait_state(run_id, "succeeded")
    assert len(callbacks_of(shared, event)) == 1
    assert len(shared.rows("SELECT FROM receipt WHERE body = %s", body)) == 1
    assert caller.send(event)[0]["disposition"] == "duplicate"
    assert caller.send(about(account))[0]["disposition"] == "noted"
    assert shared.show(run_id)["seq"] == done["seq"]
    accepted = [e for e in shared.events(run_id) if (e["reason"], e["step"]) == ("accepted", "create-account")]
    assert len(accepted) == 1
    shared.agrees(run_id)


def test_c51_our_key_in_another_content_is_foreign(
    shared: World, caller: StripeCaller, in_doubt: tuple[str, dict[str, Any]]
) -> None:
    run_id, account = in_doubt
    other = {**account, "id": "acct_1Foreign", "company": {"name": "Somebody Else GmbH"}}
    assert caller.send(about(other))[0]["disposition"] == "taken_up"
    shown = shared.wait_state(run_id, "needs_operator", reason="foreign_record")
    assert shown["next_actions"]
    eventually(lambda: shared.resolve(run_id, "confirm", reference=account["id"]).status_code == 200, within=30)
    shared.wait_state(run_id, "succeeded")
    shared.agrees(run_id)


def test_a_contradiction_after_success_is_followed_up(shared: World, caller: StripeCaller) -> None:
    run_id = shared.submit(shared.seed().company_id)
    shared.approve(run_id)
    done = shared.wait_state(run_id, "succeeded")
    [account] = shared.accounts(run_id)
    [told] = caller.send(about({**account, "id": "acct_1Twin"}))
    assert told["disposition"] == "contradicts"
    assert told["run"] != run_id
    opened = shared.wait_state(told["run"], "needs_operator", reason="contradicting_evidence")
    assert (opened["kind"], opened["next_owner"], opened["business_key"]) == (
        "repair",
        "operator",
        done["business_key"],
    )
    assert shared.show(run_id)["seq"] == done["seq"]
    assert shared.show(run_id)["state"] == "succeeded"
    eventually(lambda: shared.show(told["run"])["engine"]["health"] == "ok", 30)
    assert shared.resolve(told["run"], "retry").status_code == 200
    shared.approve(told["run"])
    shared.wait_state(told["run"], "succeeded")
    assert len(shared.accounts(run_id)) == 1
    shared.keeps_its_word()


def test_a_callback_about_an_account_of_somebody_else_is_kept_and_changes_nothing(
    shared: World, caller: StripeCaller
) -> None:
    event = about(account_with("op-of-nobody"))
    assert caller.send(event) == [{"index": 0, "disposition": "unmatched"}]
    assert callbacks_of(shared, event) == [{"disposition": "unmatched", "run_id": None}]
    assert caller.send(about(account_with("x"), type="payout.paid"))[0]["disposition"] == "irrelevant"


# ── C07: neighbours ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_c07_one_bad_element_is_quarantined_alone(caller: StripeCaller) -> None:
    events: list[Any] = [about(account_with(f"op-{number}")) for number in range(3)]
    events[1] = {**events[1], "id": None}
    first, again = caller.send(*events), caller.send(*events)
    assert [each["disposition"] for each in first] == ["unmatched", "quarantined", "unmatched"]
    assert first[1]["reason"].startswith("id:")
    assert {each["disposition"] for each in again} == {"duplicate"}


# ── C08, C10: signatures and times ──────────────────────────────────────────────────────────────────────────────────


def test_c08_the_signature_covers_the_bytes_as_they_came(shared: World, caller: StripeCaller) -> None:
    odd = b'{ "amount": 1.10, "n":"J\\u00f6rg" , "e":1E2}'
    signed = sign_stripe(STRIPE_WEBHOOK_SECRET, int(time.time()), odd)
    assert caller.post(odd, signed).status_code == 202
    respaced = json.dumps(json.loads(odd)).encode()
    refused = caller.post(respaced, signed)
    assert (refused.status_code, refused.json()["error"]) == (401, "bad_signature")
    kept = shared.rows("SELECT source, verdict FROM receipt WHERE body = %s OR body = %s ORDER BY id", odd, respaced)
    assert [tuple(row.values()) for row in kept if row["source"] == "callback/stripe"] == [
        ("callback/stripe", "genuine"),
        ("callback/stripe", "bad_signature"),
    ]


@pytest.mark.parametrize(("age", "status"), [(0, 202), (290, 202), (310, 401), (-600, 401), (-290, 202)])
def test_c10_the_time_may_be_five_minutes_off_either_way(caller: StripeCaller, age: int, status: int) -> None:
    assert caller.post(b"[]", stamp=int(time.time()) - age).status_code == status


@pytest.mark.parametrize("header", ["", "t=12e12,v1=00", "t=-1,v1=00", "v1=00", "t=nan", f"t={'9' * 400},v1=00"])
def test_c10_a_time_that_is_no_number_is_refused(caller: StripeCaller, header: str) -> None:
    assert caller.post(b"[]", {"Stripe-Signature": header}).status_code == 401


def test_nothing_is_taken_without_a_signature(shared: World) -> None:
    assert shared.http.post("/callbacks/stripe", content=b"[]").status_code == 401
    assert shared.http.post("/callbacks/somebody", content=b"[]").status_code == 404


# ── C13, C14, C16: bodies ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("body", "status"), ODD_BODIES.items(), ids=[repr(body[:12]) for body in ODD_BODIES])
def test_c13_an_odd_body_is_answered_and_proves_nothing(
    shared: World, caller: StripeCaller, body: bytes, status: int
) -> None:
    before = shared.rows("SELECT count(*) AS n FROM callback")
    answer = caller.post(body)
    assert answer.status_code == status
    if status == 202:
        assert {each["disposition"] for each in answer.json()["elements"]} <= {"quarantined", "duplicate"}
    assert shared.rows("SELECT count(*) AS n FROM callback") == before


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
def test_c13_only_post_is_allowed(shared: World, method: str) -> None:
    assert shared.http.request(method, "/callbacks/stripe").status_code == 405


@pytest.mark.parametrize(("size", "status"), [(1_900_000, 202), (2_200_000, 413), (10_000_000, 413)])
def test_c14_a_body_above_the_cap_is_refused(shared: World, caller: StripeCaller, size: int, status: int) -> None:
    body = json.dumps(about(account_with("op-of-nobody", padding="x" * size))).encode()
    assert caller.post(body).status_code == status
    assert len(shared.rows("SELECT FROM receipt WHERE body = %s", body)) == (status == 202)


def test_c14_a_body_without_length_or_compressed_is_refused(shared: World, caller: StripeCaller) -> None:
    body = b" " * 10_000_000

    def chunks() -> Iterator[bytes]:
        yield from (body[at : at + 65_536] for at in range(0, len(body), 65_536))

    signed = sign_stripe(STRIPE_WEBHOOK_SECRET, int(time.time()), body)
    url = f"{shared.settings.public_url}/callbacks/stripe"
    assert httpx.post(url, content=chunks(), headers=signed, timeout=ANSWER_SECONDS).status_code == 413
    assert caller.post(gzip.compress(body), {"content-encoding": "gzip"}).status_code == 415


@pytest.mark.parametrize("text", ["Ac\u0000me", "x\ud83d", "Ac\\u0000me"], ids=["NUL", "half a pair", "six letters"])
def test_c16_a_text_that_no_column_can_hold_loses_no_event(shared: World, caller: StripeCaller, text: str) -> None:
    odd = about(account_with("op-of-nobody", company={"name": text}))
    events = [odd, about(account_with("op-of-nobody"))]
    told = caller.send(*events)
    assert told[0]["disposition"] in ("unmatched", "quarantined")
    assert told[1]["disposition"] == "unmatched"
    assert len(shared.rows("SELECT FROM receipt WHERE body = %s", json.dumps(events).encode())) == 1


# ── I16 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_nothing_of_a_callback_is_logged(shared: World, caller: StripeCaller) -> None:
    secret = f"Verschwiegen {secrets.token_hex(8)} GmbH"
    caller.send(about(account_with("op-of-nobody", company={"name": secret}, email="verschwiegen@partner.example")))
    caller.post(json.dumps({"name": secret}).encode(), {"Stripe-Signature": "t=1,v1=0"})
    logged = shared.gateway.log.read_text() + shared.worker.log.read_text()
    assert secret not in logged
    assert "verschwiegen@partner.example" not in logged
