"""Answers that come broken, late, or not at all: one account, one task, and never a guess about what happened.

The runs of a table are carried out side by side, so that the table takes as long as its slowest row.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import cycle
from typing import Any

import httpx
import pytest
from eventually import ANSWER_SECONDS, eventually
from world import PORTAL, STRIPE_KEY, TOKEN, World

from business_store.limits import limit_hit
from domain.credentials import Account
from domain.identity import OperationIdentity, operation_key
from sandbox.control import Seeded

CRM = {"Authorization": f"Bearer {TOKEN}"}
ACCOUNTS = {"method": "POST", "path_prefix": "/v1/accounts"}
TASKS = {"method": "POST", "path_prefix": "/crm/objects/2026-09/tasks"}
SENDS = {"create-account": ACCOUNTS, "verification-task": TASKS}


@dataclass(frozen=True)
class Row:
    """What the other side does to one send, and where that leaves the run."""

    step: str
    fault: str
    params: Mapping[str, Any] = field(default_factory=dict)
    reason: str = "records_agree"

    @property
    def name(self) -> str:
        return f"{self.step}: {self.fault}" + (f" {dict(self.params)}" if self.params else "")


def _account(fault: str, reason: str = "records_agree", **params: object) -> Row:
    return Row("create-account", fault, params, reason)


def _task(fault: str, reason: str = "records_agree", **params: object) -> Row:
    return Row("verification-task", fault, params, reason)


LOST = ("drop_before", "drop_after_commit", "commit_cut_body", "commit_redirect")
BROKEN = ("commit_500", "commit_502_html", "commit_503_retry_after", "commit_504_empty")
INSIDE = ("body_status_error", "empty_object", "id_null", "id_empty", "wrong_record")
PAGES = ("html_200", "json_content_type_with_html")
ROWS = (
    *(make(fault) for make in (_account, _task) for fault in (*LOST, *BROKEN, *INSIDE, *PAGES)),
    _account("slow_after", seconds=3),
    _account("slow_before", seconds=3),
    _account("drop_then_commit", seconds=1),
    _account("drop_then_commit", seconds=6),
    _account("busy_409"),
    _account("commit_500", stored=False),
    _account("error_500_before", "contracts_exhausted"),
    _account("error_500_empty", "contracts_exhausted"),
    _account("html_403", "contracts_exhausted"),
    _task("slow_after", seconds=3),
    _task("slow_before", seconds=3),
    _task("drop_then_commit", seconds=1),
    _task("drop_then_commit", seconds=6),
    _task("error_500_before"),
    _task("error_500_empty"),
    _task("html_403"),
    _task("busy_409", "contracts_exhausted"),
)


@pytest.fixture(scope="module")
def carried(shared: World) -> dict[str, str]:
    """The run of every row, approved, with its fault waiting for its send."""
    return _carried(shared, ROWS)


def _carried(world: World, rows: Sequence[Row]) -> dict[str, str]:
    emails = [f"{secrets.token_hex(4)}@partner.example" for _ in rows]
    companies = [world.seed(partner_email=email).company_id for email in emails]
    runs = world.submit_all(companies)
    for row, email, run_id in zip(rows, emails, runs, strict=True):
        text = email if row.step == "create-account" else run_id
        world.fault(row.fault, match={**SENDS[row.step], "key": text}, **row.params)
        world.approve(run_id)
    return {row.name: run_id for row, run_id in zip(rows, runs, strict=True)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_broken_answer_leaves_one_record_or_a_question_to_an_operator(
    shared: World, carried: dict[str, str], row: Row
) -> None:
    run_id = carried[row.name]
    asked = row.reason != "records_agree"
    state = "needs_operator" if asked else "succeeded"
    shared.wait_state(run_id, state, reason=row.reason, within=60)
    account_only = asked and row.step == "create-account"
    shown = shared.agrees(run_id, state, accounts=not account_only, tasks=not asked, audited=False)
    assert len({(o["step"], o["generation"]) for o in shown["operations"]}) == len(shown["operations"])
    _never_said_failed(shared, run_id)
    _said_unknown(shared, run_id, row.step)


def _never_said_failed(world: World, run_id: str) -> None:
    states = [event["next"] for event in world.events(run_id)]
    assert "failed" not in states
    assert "awaiting_review" not in states[states.index("outcome_unknown") :]


def _said_unknown(world: World, run_id: str, step: str) -> None:
    """Every doubt is shown with the next look, and with the end of the resend window where the provider has one."""
    doubts = [event for event in world.events(run_id) if event["next"] == "outcome_unknown"]
    assert doubts
    assert {event["step"] for event in doubts} == {step}
    assert all(event["evidence"]["next_look"] for event in doubts)
    assert all((event["deadline"] is not None) == (step == "create-account") for event in doubts)


def test_all_of_them_together_break_no_promise_of_the_store(shared: World, carried: dict[str, str]) -> None:
    for run_id in carried.values():
        shared.wait_state(run_id, "succeeded", "needs_operator", within=60)
    shared.keeps_its_word()


def test_an_unknown_outcome_is_shown_as_nothing_else(shared: World) -> None:
    company = shared.seed(partner_email="unknown@partner.example")
    run_id = shared.submit(company.company_id)
    shared.fault("drop_after_commit", match={**ACCOUNTS, "key": "unknown@partner.example"}, times=3)
    shared.approve(run_id)
    shown = shared.wait_state(run_id, "outcome_unknown")
    assert (shown["shown_as"], shown["next_actions"]) == ("Provider outcome unknown", [])
    assert shown["next_look"] < shown["resend_window_ends"] == shown["deadline"]
    assert shown["operations"][0]["outcome"] == "unknown"
    shared.agrees(run_id, "outcome_unknown", tasks=0)
    fields = shared.company(company.company_id)["properties"]
    assert fields["counterfoil_reason"].startswith("Provider outcome unknown: ")
    refused = shared.resolve(run_id, "not_executed")
    assert (refused.status_code, refused.json()["state"]) == (409, "outcome_unknown")
    shared.wait_state(run_id, "succeeded", within=40)
    shared.agrees(run_id)


def test_a_question_to_an_operator_names_what_is_permitted(shared: World) -> None:
    company = shared.seed(partner_email="asked@partner.example")
    run_id = shared.submit(company.company_id)
    shared.fault("error_500_before", match={**ACCOUNTS, "key": "asked@partner.example"})
    shared.approve(run_id)
    shown = shared.wait_state(run_id, "needs_operator", within=40)
    assert (shown["shown_as"], shown["next_owner"]) == ("Needs operator review", "operator")
    assert [action.split()[3] for action in shown["next_actions"]] == ["confirm", "not_executed", "write_off"]
    shared.agrees(run_id, "needs_operator", accounts=0, tasks=0)
    fields = shared.company(company.company_id)["properties"]
    assert fields["counterfoil_reason"] == "Needs operator review: contracts_exhausted"


def test_c54_a_look_up_that_shows_nothing_proves_nothing(shared: World) -> None:
    """The accounts exist; as many look-ups as there are pages meet one of them instead of the list."""
    pages = ("html_200", "json_content_type_with_html", "html_403", "error_500_empty")
    for page in pages:
        shared.fault(page, match={"method": "GET", "path_prefix": "/v1/accounts"})
    runs = _carried(shared, [Row("create-account", "commit_502_html", {"n": n}) for n in range(len(pages))]).values()
    found = []
    for run_id in runs:
        shared.wait_state(run_id, "succeeded", within=60)
        shared.agrees(run_id)
        found.append(_looks(shared, run_id))
    assert [looks[-1] for looks in found] == ["one"] * len(pages)
    assert sorted(look for looks in found for look in looks[:-1]) == ["failed"] * len(pages)


def _looks(world: World, run_id: str) -> list[str]:
    rows = world.rows(
        "SELECT p.found FROM probe p JOIN operation o ON o.key = p.operation_key WHERE o.run_id = %s "
        "AND o.step = 'create-account' ORDER BY p.began_at",
        run_id,
    )
    return [row["found"] for row in rows]


# ── Our key is taken, or is used for something else ─────────────────────────────────────────────────────────────────


def _key(world: World, run_id: str, step: str) -> str:
    return operation_key(OperationIdentity(world.show(run_id)["request"], step))


def _plant_task(world: World, run_id: str, company: Seeded, **changes: str) -> str:
    """A task that holds our key before we send it; its id."""
    account = eventually(lambda: world.accounts(run_id))[0]["id"]
    properties = {
        "operation_key": _key(world, run_id, "verification-task"),
        "hs_timestamp": "2026-12-24T12:00:00.000Z",
        "hs_task_subject": "Verify partner account",
        "hs_task_body": f"Run {run_id}: check provider account {account}",
        "hubspot_owner_id": company.owner_id,
        **changes,
    }
    link = {"associationCategory": "HUBSPOT_DEFINED", "associationTypeId": 192}
    body = {"properties": properties, "associations": [{"to": {"id": company.company_id}, "types": [link]}]}
    made = httpx.post(f"{world.sandbox.base_url}/crm/v3/objects/tasks", json=body, headers=CRM, timeout=ANSWER_SECONDS)
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


@pytest.mark.parametrize(
    ("changes", "state", "reason"),
    [
        ({}, "succeeded", "records_agree"),
        ({"hs_task_subject": "Something of somebody else"}, "needs_operator", "foreign_record"),
    ],
    ids=["our own content", "other content"],
)
def test_c51_a_taken_key_is_read_and_compared(shared: World, changes: dict[str, str], state: str, reason: str) -> None:
    company = shared.seed()
    run_id = shared.submit(company.company_id)
    held_back = {**TASKS, "key": _key(shared, run_id, "verification-task")}
    shared.fault("throttle_429", match=held_back, times=1000, retry_after="1")
    shared.approve(run_id)
    planted = _plant_task(shared, run_id, company, **changes)
    shared.sandbox.clear_faults()
    shared.wait_state(run_id, state, reason=reason, within=40)
    shown = shared.agrees(run_id, state)
    found = {o["step"]: o["reference"] for o in shown["operations"]}
    assert found["verification-task"] == (planted if state == "succeeded" else None)


def test_c59_our_key_under_other_content_is_held_and_never_replaced(shared: World) -> None:
    run_id = shared.submit(shared.seed().company_id)
    shared.wait_state(run_id, "awaiting_review")
    headers = {"Authorization": f"Bearer {STRIPE_KEY}", "Idempotency-Key": _key(shared, run_id, "create-account")}
    other = {"country": "DE", "email": "other@partner.example", "controller[stripe_dashboard][type]": "none"}
    planted = httpx.post(f"{shared.sandbox.base_url}/v1/accounts", data=other, headers=headers, timeout=ANSWER_SECONDS)
    assert planted.status_code == 200, planted.text
    shared.approve(run_id)
    shared.wait_state(run_id, "needs_operator", reason="content_mismatch")
    shown = shared.agrees(run_id, "needs_operator", accounts=0, tasks=0)
    assert [(o["generation"], o["attempts"], o["outcome"]) for o in shown["operations"]] == [(1, 1, "unknown")]


# ── Being asked to wait ─────────────────────────────────────────────────────────────────────────────────────────────

HTTP_DATE = "%a, %d %b %Y %H:%M:%S"
FORMS: dict[str, object] = {
    "seconds": "1",
    "a fraction": "0.493",
    "a past date": "Wed, 21 Oct 2015 07:28:00 GMT",
    "a date without a zone": "Wed, 21 Oct 2015 07:28:00 -0000",
    "negative": "-1",
    "no number": "abc",
    "absent": [],
    "two of them": ["1", "2"],
}


def test_c62_every_form_of_retry_after_is_waited_out(shared: World) -> None:
    forms = zip(cycle(SENDS), FORMS.values(), strict=False)
    rows = [Row(step, "throttle_429", {"retry_after": text}) for step, text in forms]
    rows += [Row("verification-task", "lock_423"), Row("verification-task", "migration_477", {"retry_after": "1"})]
    for run_id in _carried(shared, rows).values():
        shared.wait_state(run_id, "succeeded", within=60)
        shown = shared.agrees(run_id, audited=False)
        assert sorted(o["attempts"] for o in shown["operations"]) == [1, 2]
        assert "outcome_unknown" not in [event["next"] for event in shared.events(run_id)]
    shared.keeps_its_word()


def test_c62_a_look_up_waits_for_its_turn(shared: World) -> None:
    """The doubt arises while every run is to wait: nothing is looked up before the limit is over."""
    (run_id,) = _carried(shared, [_task("slow_after", seconds=3)]).values()
    flying = "SELECT FROM operation WHERE run_id = %s AND kind = 'create_task' AND in_flight_until IS NOT NULL"
    eventually(lambda: shared.rows(flying, run_id), within=30)
    shared.store.write(lambda connection: limit_hit(connection, Account("hubspot", PORTAL), timedelta(seconds=8)))
    opens = shared.rows("SELECT opens_at FROM shared_limit WHERE system = 'hubspot'")[0]["opens_at"]
    shared.wait_state(run_id, "succeeded", within=60)
    looked = "SELECT began_at FROM probe JOIN operation o ON o.key = operation_key WHERE o.run_id = %s"
    began = [row["began_at"] for row in shared.rows(looked, run_id)]
    assert began
    assert min(began) >= opens
    shared.agrees(run_id)


def test_c62_one_throttled_run_slows_the_others_and_hides_no_doubt(shared: World) -> None:
    """A run in doubt stays shown as unknown while its resend waits for the provider to be free again."""
    emails = [f"{name}-{secrets.token_hex(4)}@partner.example" for name in ("throttled", "behind", "doubted")]
    runs = shared.submit_all([shared.seed(partner_email=email).company_id for email in emails])
    for run_id in runs:
        shared.wait_state(run_id, "awaiting_review")
    throttled, behind, doubted = runs
    shared.fault("throttle_429", match={**ACCOUNTS, "key": emails[0]}, retry_after="6")
    shared.fault("drop_after_commit", match={**ACCOUNTS, "key": emails[2]})
    shared.approve(doubted)
    shared.wait_state(doubted, "outcome_unknown")
    shared.approve(throttled)
    waiting = shared.wait_state(throttled, "retrying", reason="not_sent")
    shared.approve(behind)
    slowed = shared.wait_state(behind, "retrying", reason="throttled")
    assert (slowed["deadline"] is None, waiting["deadline"] is None) == (False, False)
    assert slowed["operations"] == []
    for run_id in runs:
        shared.wait_state(run_id, "succeeded", within=40)
        shared.agrees(run_id)
    about_account = [event["next"] for event in shared.events(doubted) if event["step"] == "create-account"]
    assert ("outcome_unknown" in about_account, "retrying" in about_account) == (True, False)
