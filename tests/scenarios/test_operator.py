"""What an operator may do about a run that needs one, and amendments around the moment of sending."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, LiteralString

import httpx
import psycopg
import pytest
from eventually import ANSWER_SECONDS, eventually
from world import AMENDER, STRIPE_KEY, World

ACCOUNTS = {"method": "POST", "path_prefix": "/v1/accounts"}
IN_DOUBT = ["confirm", "not_executed", "write_off"]


@dataclass(frozen=True)
class Subject:
    """One company with its run; the e-mail address is in every send of its account."""

    company_id: str
    email: str
    run_id: str


def _submitted(world: World, count: int = 1, **changes: str) -> list[Subject]:
    emails = [f"{secrets.token_hex(4)}@partner.example" for _ in range(count)]
    companies = [world.seed(**{"partner_email": email, **changes}).company_id for email in emails]
    return [Subject(*each) for each in zip(companies, emails, world.submit_all(companies), strict=True)]


def _operations(shown: dict[str, Any], step: str = "create-account") -> list[tuple[int, str, int]]:
    return [(o["generation"], o["outcome"], o["input_version"]) for o in shown["operations"] if o["step"] == step]


# ── Contracts exhausted: did it happen? ─────────────────────────────────────────────────────────────────────────────

NAMES = ("confirmed", "confirmed wrongly", "not executed", "written off", "refused", "in flight", "raced")


@pytest.fixture(scope="module")
def exhausted(shared: World) -> dict[str, Subject]:
    """Runs whose account request met a server error that Stripe stored, although nothing was made."""
    subjects = dict(zip(NAMES, _submitted(shared, len(NAMES)), strict=True))
    for subject in subjects.values():
        shared.fault("error_500_before", match={**ACCOUNTS, "key": subject.email}, stored=True)
        shared.approve(subject.run_id)
    for subject in subjects.values():
        shared.wait_state(subject.run_id, "needs_operator", reason="contracts_exhausted", within=40)
    return subjects


def _made_by_hand(world: World, run_id: str) -> str:
    """What the first send asked for, made outside without us; its id."""
    (operation,) = world.rows("SELECT content FROM operation WHERE run_id = %s", run_id)
    headers = {"Authorization": f"Bearer {STRIPE_KEY}", "Content-Type": "application/x-www-form-urlencoded"}
    made = httpx.post(
        f"{world.sandbox.base_url}/v1/accounts", content=operation["content"], headers=headers, timeout=ANSWER_SECONDS
    )
    assert made.status_code == 200, made.text
    return str(made.json()["id"])


def test_a_confirmed_effect_is_accepted_and_the_run_goes_on(shared: World, exhausted: dict[str, Subject]) -> None:
    run_id = exhausted["confirmed"].run_id
    account = _made_by_hand(shared, run_id)
    unnamed = shared.resolve(run_id, "confirm")
    assert (unnamed.status_code, unnamed.json()["field"]) == (422, "reference")
    confirmed = shared.resolve(run_id, "confirm", reference=account)
    assert (confirmed.status_code, confirmed.json()["state"]) == (200, "running"), confirmed.text
    shared.wait_state(run_id, "succeeded")
    shown = shared.agrees(run_id)
    assert _operations(shown) == [(1, "accepted", 1)]


def test_a_wrongly_confirmed_effect_is_found_out_before_the_end(shared: World, exhausted: dict[str, Subject]) -> None:
    run_id = exhausted["confirmed wrongly"].run_id
    headers = {"Authorization": f"Bearer {STRIPE_KEY}"}
    other = {"country": "DE", "email": "other@partner.example", "controller[stripe_dashboard][type]": "none"}
    foreign = httpx.post(
        f"{shared.sandbox.base_url}/v1/accounts", data=other, headers=headers, timeout=ANSWER_SECONDS
    ).json()["id"]
    assert shared.resolve(run_id, "confirm", reference=foreign).status_code == 200
    shown = shared.wait_state(run_id, "needs_operator", reason="records_disagree")
    assert [action.split()[3] for action in shown["next_actions"]] == ["retry", "fail"]
    differing = shared.events(run_id)[-1]["evidence"]["differing"]
    assert "stripe.email" in differing
    assert shared.resolve(run_id, "fail").json()["state"] == "failed"
    shared.keeps_its_word()


def test_a_declared_absence_opens_a_new_generation(shared: World, exhausted: dict[str, Subject]) -> None:
    run_id = exhausted["not executed"].run_id
    first = shared.show(run_id)["operations"][0]["operation"]
    assert shared.resolve(run_id, "not_executed").status_code == 200
    shared.wait_state(run_id, "succeeded")
    shown = shared.agrees(run_id)
    assert _operations(shown) == [(1, "not_sent", 1), (2, "accepted", 1)]
    assert first not in [o["operation"] for o in shown["operations"] if o["generation"] == 2]


def test_writing_off_needs_two_persons_and_ends_the_run(shared: World, exhausted: dict[str, Subject]) -> None:
    run_id = exhausted["written off"].run_id
    for _ in range(2):
        proposed = shared.resolve(run_id, "write_off", by="otto")
        assert (proposed.json()["proposed"], proposed.json()["state"]) == (True, "needs_operator")
    assert shared.resolve(run_id, "write_off", by="olga").json()["state"] == "failed"
    shown = shared.agrees(run_id, "failed", accounts=0, tasks=0)
    assert (shown["reason"], _operations(shown)) == ("operator_write_off", [(1, "written_off", 1)])


def test_what_is_not_permitted_is_refused_with_what_is(shared: World, exhausted: dict[str, Subject]) -> None:
    run_id = exhausted["refused"].run_id
    before = shared.show(run_id)
    for action in ("retry", "fail"):
        refused = shared.resolve(run_id, action)
        assert (refused.status_code, refused.json()["next_actions"]) == (409, IN_DOUBT)
    stranger = shared.actor("sabine", "supervisor")
    body = {"action": "not_executed", "reason": "r", "evidence": "e"}
    asked = shared.http.post(f"/runs/{run_id}/resolutions", json=body, headers={"Authorization": f"Bearer {stranger}"})
    assert (asked.status_code, asked.json()["role"]) == (403, "operator")
    assert shared.show(run_id) == before
    shared.agrees(run_id, "needs_operator", accounts=0, tasks=0)


def test_nothing_is_resolved_while_a_send_may_be_in_flight(shared: World, exhausted: dict[str, Subject]) -> None:
    """The lease of a send is planted: by itself the run is not shown to an operator before the lease has ended."""
    run_id = exhausted["in flight"].run_id
    with psycopg.connect(shared.database.superuser_dsn) as connection:
        connection.execute(
            "UPDATE operation SET in_flight_attempt = 1, in_flight_until = clock_timestamp() + interval '5 seconds' "
            "WHERE run_id = %s",
            (run_id,),
        )
    refused = shared.resolve(run_id, "not_executed")
    assert (refused.status_code, refused.json()["next_actions"]) == (409, ["wait"])
    eventually(lambda: shared.resolve(run_id, "not_executed").is_success)
    shared.wait_state(run_id, "succeeded")
    shared.agrees(run_id)


def test_of_several_operators_at_once_one_is_heard(shared: World, exhausted: dict[str, Subject]) -> None:
    run_id = exhausted["raced"].run_id
    account = _made_by_hand(shared, run_id)
    operators = [f"operator-{number}" for number in range(8)]
    for operator in operators:
        shared.actor(operator, "operator")
    with ThreadPoolExecutor(len(operators)) as pool:
        answers = list(pool.map(lambda by: shared.resolve(run_id, "confirm", by=by, reference=account), operators))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 7
    assert len(shared.rows("SELECT id FROM resolution WHERE run_id = %s", run_id)) == 1
    shared.wait_state(run_id, "succeeded")
    shared.agrees(run_id)


# ── Records that do not agree ───────────────────────────────────────────────────────────────────────────────────────


def _changed_outside(world: World, account: str, email: str) -> None:
    headers = {"Authorization": f"Bearer {STRIPE_KEY}"}
    changed = httpx.post(
        f"{world.sandbox.base_url}/v1/accounts/{account}",
        data={"email": email},
        headers=headers,
        timeout=ANSWER_SECONDS,
    )
    assert changed.status_code == 200, changed.text


def test_a_record_changed_outside_keeps_the_run_from_its_end_until_it_is_mended(shared: World) -> None:
    (subject,) = _submitted(shared)
    tasks = {"method": "POST", "path_prefix": "/crm/objects/2026-09/tasks", "key": subject.run_id}
    shared.fault("throttle_429", match=tasks, times=1000, retry_after="1")
    shared.approve(subject.run_id)
    account = eventually(lambda: shared.accounts(subject.run_id))[0]["id"]
    _changed_outside(shared, account, "somebody@else.example")
    shared.sandbox.clear_faults()
    shared.wait_state(subject.run_id, "needs_operator", reason="records_disagree")
    shared.agrees(subject.run_id, "needs_operator")
    assert shared.events(subject.run_id)[-1]["evidence"]["differing"] == ["stripe.email"]
    _changed_outside(shared, account, subject.email)
    assert shared.resolve(subject.run_id, "retry").status_code == 200
    shared.wait_state(subject.run_id, "succeeded")
    shared.agrees(subject.run_id)


# ── Rejected for good: mend the inputs ──────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def rejected(shared: World) -> Subject:
    """A run whose account Stripe refuses: our rule for e-mail addresses is laxer than Stripe's."""
    (subject,) = _submitted(shared, partner_email="konto@partner..example")
    shared.approve(subject.run_id)
    shown = shared.wait_state(subject.run_id, "needs_operator", reason="provider_rejected")
    assert [action.split()[3] for action in shown["next_actions"]] == ["retry", "fail"]
    return subject


def test_a_rejected_run_goes_on_with_amended_and_newly_approved_inputs(shared: World, rejected: Subject) -> None:
    run_id = rejected.run_id
    shared.agrees(run_id, "needs_operator", accounts=0, tasks=0)
    shared.set_company(rejected.company_id, user=AMENDER, partner_email="konto@partner.example")
    assert shared.resolve(run_id, "retry").status_code == 200
    shared.wait_version(run_id, 2)
    shared.agrees(run_id, "awaiting_review", accounts=0, tasks=0)
    shared.approve(run_id)
    shared.wait_state(run_id, "succeeded")
    shown = shared.agrees(run_id)
    assert _operations(shown) == [(1, "rejected", 1), (2, "accepted", 2)]
    assert shown["sealed_version"] == 2
    assert "seal_lifted" in [event["reason"] for event in shared.events(run_id)]


def test_a_rejected_run_can_be_ended(shared: World, rejected: Subject) -> None:
    assert shared.resolve(rejected.run_id, "fail").json()["state"] == "failed"
    shown = shared.agrees(rejected.run_id, "failed", accounts=0, tasks=0)
    assert _operations(shown) == [(1, "rejected", 1)]
    again = shared.resolve(rejected.run_id, "retry")
    assert (again.status_code, again.json()["state"]) == (409, "failed")


# ── Amendments around the send ──────────────────────────────────────────────────────────────────────────────────────


HOLD = "SELECT limit_hit('stripe', '', interval '30 seconds', interval '0.2 seconds')"
RELEASE = """
    DELETE FROM limit_turn WHERE system = 'stripe';
    DELETE FROM shared_limit WHERE system = 'stripe';
    UPDATE throttle SET until = clock_timestamp() WHERE system = 'stripe';
"""


def _at_stripe(world: World, statement: LiteralString) -> None:
    """HOLD: nobody may send to Stripe for half a minute, as after a 429 that some other run met; RELEASE ends that."""
    with psycopg.connect(world.database.superuser_dsn) as connection:
        connection.execute(statement)


@pytest.fixture
def held(shared: World) -> Subject:
    """An approved run whose account request has to wait for a moment."""
    (subject,) = _submitted(shared)
    shared.wait_state(subject.run_id, "awaiting_review")
    _at_stripe(shared, HOLD)
    shared.approve(subject.run_id)
    shared.wait_state(subject.run_id, "retrying", reason="throttled")
    return subject


def _holder(world: World, run_id: str) -> str:
    (account,) = world.accounts(run_id)
    return str(account["external_accounts"]["data"][0]["account_holder_name"])


def test_c35_amended_after_approval_the_provider_gets_nothing_before_a_new_one(shared: World, held: Subject) -> None:
    shared.set_company(held.company_id, user=AMENDER, bank_holder="Suedwind Bank")
    shared.wait_version(held.run_id, 2)
    _at_stripe(shared, RELEASE)
    shared.agrees(held.run_id, "awaiting_review", accounts=0, tasks=0)
    shared.approve(held.run_id)
    shared.wait_state(held.run_id, "succeeded")
    shown = shared.agrees(held.run_id)
    assert (_operations(shown), _holder(shared, held.run_id)) == ([(1, "accepted", 2)], "Suedwind Bank")


def test_c35_amended_and_back_needs_an_approval_of_its_own(shared: World, held: Subject) -> None:
    first = shared.show(held.run_id)["fingerprint"]
    shared.set_company(held.company_id, user=AMENDER, bank_holder="Suedwind Bank")
    shared.wait_version(held.run_id, 2)
    shared.set_company(held.company_id, user=AMENDER, bank_holder="Nordwind Handels GmbH")
    assert shared.wait_version(held.run_id, 3)["fingerprint"] == first
    _at_stripe(shared, RELEASE)
    shared.agrees(held.run_id, "awaiting_review", accounts=0, tasks=0)
    shared.approve(held.run_id)
    shared.wait_state(held.run_id, "succeeded")
    assert _operations(shared.agrees(held.run_id)) == [(1, "accepted", 3)]


def test_c35_an_immaterial_change_keeps_the_approval(shared: World, held: Subject) -> None:
    shared.set_company(held.company_id, user=AMENDER, phone="+49 30 5550199")
    _at_stripe(shared, RELEASE)
    shared.wait_state(held.run_id, "succeeded")
    shown = shared.agrees(held.run_id)
    assert (_operations(shown), len(shown["versions"])) == ([(1, "accepted", 2)], 2)
    assert [decision["carried_to"] for decision in shown["decisions"]] == [[2]]
    asked = [event for event in shared.events(held.run_id) if event["next"] == "awaiting_review"]
    assert len({event["evidence"]["review"] for event in asked}) == 1


def test_c35_refused_before_execution_the_amended_version_takes_over(shared: World) -> None:
    """A 429 of our own: the first send sealed version 1, and its refusal proves that nothing was done."""
    (subject,) = _submitted(shared)
    shared.fault("throttle_429", match={**ACCOUNTS, "key": subject.email}, retry_after="12")
    shared.approve(subject.run_id)
    shared.wait_state(subject.run_id, "retrying", reason="not_sent")
    shared.set_company(subject.company_id, user=AMENDER, bank_holder="Suedwind Bank")
    shared.wait_version(subject.run_id, 2)
    shared.agrees(subject.run_id, "awaiting_review", accounts=0, tasks=0)
    shared.approve(subject.run_id)
    shared.wait_state(subject.run_id, "succeeded")
    shown = shared.agrees(subject.run_id)
    assert (_operations(shown), _holder(shared, subject.run_id)) == (
        [(1, "not_sent", 1), (2, "accepted", 2)],
        "Suedwind Bank",
    )


def _amended_in_doubt(world: World, subject: Subject, **changes: str) -> None:
    """No answer about the account comes through before the amendment has come."""
    world.fault("drop_after_commit", match={**ACCOUNTS, "key": subject.email}, times=1000)
    world.approve(subject.run_id)
    world.wait_state(subject.run_id, "outcome_unknown")
    world.set_company(subject.company_id, user=AMENDER, **changes)
    world.sandbox.wait_until_delivered()
    world.sandbox.clear_faults()


def test_amended_in_flight_the_sealed_version_is_finished_and_a_revision_queued(shared: World) -> None:
    (subject,) = _submitted(shared)
    _amended_in_doubt(shared, subject, bank_holder="Suedwind Bank")
    shared.wait_state(subject.run_id, "succeeded", within=60)
    shown = shared.agrees(subject.run_id)
    assert (_operations(shown), shown["sealed_version"]) == ([(1, "accepted", 1)], 1)
    assert _holder(shared, subject.run_id) == "Nordwind Handels GmbH"
    assert "amendment_held" in [event["reason"] for event in shared.events(subject.run_id)]
    listed = shared.http.get("/runs", params={"business_key": shown["business_key"]}).json()
    assert [(run["kind"], run["state"]) for run in listed] == [("revision", "queued"), ("original", "succeeded")]


def test_an_immaterial_change_in_flight_opens_no_revision(shared: World) -> None:
    (subject,) = _submitted(shared)
    _amended_in_doubt(shared, subject, phone="+49 30 5550177")
    shared.wait_state(subject.run_id, "succeeded", within=60)
    shown = shared.agrees(subject.run_id)
    listed = shared.http.get("/runs", params={"business_key": shown["business_key"]}).json()
    assert [run["kind"] for run in listed] == ["original"]


def test_many_resolutions_in_one_request_are_answered_one_by_one(shared: World, bulk: list[str]) -> None:
    items = [{"run": run_id, "action": "fail", "reason": "given up", "evidence": "ticket 4711"} for run_id in bulk]
    items.insert(1, {**items[0], "run": "run-unheard-of"})
    headers = {"Authorization": f"Bearer {shared.actor('otto', 'operator')}"}
    first = shared.http.post("/resolutions", json=items, headers=headers)
    assert first.status_code == 200, first.text
    assert [(each["run"], each["status"]) for each in first.json()] == [
        (bulk[0], 200), ("run-unheard-of", 404), (bulk[1], 200)
    ]  # fmt: skip
    again = shared.http.post("/resolutions", json=items, headers=headers).json()
    assert [each.get("repeated") for each in again] == [True, None, True]
    assert [each.get("id") for each in again] == [each.get("id") for each in first.json()]
    for run_id in bulk:
        shared.wait_state(run_id, "failed")
        shared.agrees(run_id, "failed", accounts=0, tasks=0)
    stranger = {"Authorization": f"Bearer {shared.actor('sabine', 'supervisor')}"}
    assert {each["status"] for each in shared.http.post("/resolutions", json=items, headers=stranger).json()} == {403}


@pytest.fixture
def bulk(shared: World) -> list[str]:
    """Two runs whose account was refused."""
    subjects = _submitted(shared, 2, partner_email="konto@partner..example")
    for subject in subjects:
        shared.approve(subject.run_id)
        shared.wait_state(subject.run_id, "needs_operator", reason="provider_rejected")
    return [subject.run_id for subject in subjects]
