"""The run API through the real gateway: starts, lists, pages, versions, decisions; refusals name field and way on."""

from __future__ import annotations

import json
import re
import secrets
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from engine_view import EngineView
from eventually import eventually
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from world import MANAGER, PORTAL, World

from business_store.actors import link, revoke_token

JSON = {"Content-Type": "application/json"}
SAFE_ID = re.compile(r"[A-Za-z0-9._-]{1,199}\Z")


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def operator(shared: World) -> dict[str, str]:
    return bearer(shared.actor("otto", "operator"))


def supervisor(shared: World) -> dict[str, str]:
    return bearer(shared.actor("sabine", "supervisor"))


def start(shared: World, company_id: str, **more: object) -> httpx.Response:
    body = {"process": "partner-onboarding", "subject": f"hubspot:{PORTAL}:0-2:{company_id}", **more}
    return shared.http.post("/runs", content=json.dumps(body), headers={**JSON, **operator(shared)})


@pytest.fixture
def waiting(shared: World) -> str:
    """A run that waits for approval."""
    run_id = shared.submit(shared.seed().company_id)
    shared.wait_state(run_id, "awaiting_review")
    return run_id


# ── C22, C24: starts ────────────────────────────────────────────────────────────────────────────────────────────


def test_c22_parallel_starts_of_one_key_are_one_run(shared: World, engine: EngineView) -> None:
    company_id = shared.seed().company_id
    operator(shared)
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: start(shared, company_id), range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201]
    assert {answer.json()["run"] for answer in answers} == {answers[0].json()["run"]}
    assert sorted(answer.json()["outcome"] for answer in answers) == ["already_exists"] * 7 + ["started"]
    run_id = answers[0].json()["run"]
    shared.approve(run_id)
    shared.wait_state(run_id, "succeeded")
    again = start(shared, company_id)
    assert (again.status_code, again.json()["run"]) == (200, run_id)
    rehearsal = start(shared, company_id, rehearsal=True)
    assert rehearsal.status_code == 201
    rehearsed = shared.wait_state(rehearsal.json()["run"], "succeeded")
    assert (rehearsed["kind"], rehearsed["reason"], rehearsed["operations"]) == (
        "rehearsal",
        "rehearsed",
        shared.show(run_id)["operations"],
    )
    shared.agrees(run_id)
    assert len(eventually(lambda: engine.executions(run_id))) == 1


GOOD_KEYS = ["a", "Ключ-2026", "a/b c%20#?&x", "x" * 256, "Я" * 300, "k-" + "a" * 26, ".", "..", "é" * 80, "🙂" * 251]
BAD_KEYS = ["", " ", "   ", "a\nb", "a\u0000b", "x" * 1001, "a\u202eb", "\ud83d"]


@pytest.mark.parametrize("key", GOOD_KEYS, ids=ascii)
def test_c24_an_accepted_key_has_a_short_plain_workflow_id_and_a_page(
    shared: World, engine: EngineView, key: str
) -> None:
    key = f"{key}~{secrets.token_hex(3)}"
    made = start(shared, shared.seed().company_id, business_key=key)
    assert made.status_code == 201
    run_id = made.json()["run"]
    assert shared.show(run_id)["business_key"] == key
    assert SAFE_ID.match(engine.workflow_id(run_id))
    assert [run["run"] for run in shared.http.get("/runs", params={"business_key": key}).json()] == [run_id]
    shared.wait_state(run_id, "awaiting_review")
    assert engine.status(run_id) is not None


@pytest.mark.parametrize("key", BAD_KEYS, ids=ascii)
def test_c24_a_bad_key_is_refused_before_any_row_exists(shared: World, key: str) -> None:
    company_id = shared.seed().company_id
    refused = start(shared, company_id, business_key=key)
    assert refused.status_code == 422
    assert "business_key" in refused.text
    assert shared.rows("SELECT FROM subject_link WHERE object_id = %s", company_id) == []


@pytest.mark.parametrize(
    "subject", ["", "hubspot", "hubspot:1:0-2", "hubspot:1:0-2:", "elsewhere:1:0-2:7", "a\u0000:1:0-2:7", "::::"]
)
def test_a_start_about_a_record_that_nothing_can_read_is_refused(shared: World, subject: str) -> None:
    body = {"process": "partner-onboarding", "subject": subject}
    refused = shared.http.post("/runs", json=body, headers=operator(shared))
    assert refused.status_code == 422, refused.text
    assert "subject" in refused.text


# ── Lists and pages ─────────────────────────────────────────────────────────────────────────────────────────────


def test_runs_are_listed_newest_first_and_by_page(shared: World, waiting: str) -> None:
    listed = shared.http.get("/runs", params={"limit": 200}).json()
    assert listed[0]["run"] == waiting
    moments = [run["created_at"] for run in listed]
    assert moments == sorted(moments, reverse=True)
    paged: list[str] = []
    page = shared.http.get("/runs", params={"limit": 2}).json()
    while page and len(paged) < 6:
        paged += [run["run"] for run in page]
        page = shared.http.get("/runs", params={"limit": 2, "before": paged[-1]}).json()
    assert paged == [run["run"] for run in listed][: len(paged)]


def test_runs_are_filtered_by_state_process_key_and_owner(shared: World, waiting: str) -> None:
    def found(**wanted: str) -> list[dict[str, Any]]:
        return list(shared.http.get("/runs", params=wanted).json())

    assert {run["state"] for run in found(state="awaiting_review")} == {"awaiting_review"}
    assert waiting in {run["run"] for run in found(state="awaiting_review", owner="supervisor")}
    assert {run["next_owner"] for run in found(owner="supervisor")} == {"supervisor"}
    assert found(process="partner-onboarding") != []
    assert found(process="no-such-process") == []
    assert found(business_key="no-such-key") == []
    refused = shared.http.get("/runs", params={"state": "thinking"})
    assert (refused.status_code, refused.json()["fields"][0]["field"]) == (422, "query.state")


def test_events_come_in_pages_without_gap(shared: World, waiting: str) -> None:
    whole = shared.events(waiting)
    parts: list[dict[str, Any]] = []
    while page := shared.http.get(
        f"/runs/{waiting}/events", params={"after": parts[-1]["seq"] if parts else 0, "limit": 1}
    ).json():
        parts += page
    assert parts == whole
    assert shared.http.get("/runs/run-nowhere/events").status_code == 404
    for bad in ({"limit": 0}, {"limit": 201}, {"after": "x"}):
        assert shared.http.get(f"/runs/{waiting}/events", params=bad).status_code == 422


def test_inputs_are_shown_to_known_roles_alone(shared: World, waiting: str) -> None:
    path = f"/runs/{waiting}/versions/1"
    nobody = bearer(shared.actor("nadine"))
    assert shared.http.get(path).status_code == 401
    assert shared.http.get(path, headers=bearer("cf_wrong")).status_code == 401
    assert shared.http.get(path, headers={"Authorization": "Basic eDp5"}).status_code == 401
    assert shared.http.get(path, headers=nobody).status_code == 403
    seen = shared.http.get(path, headers=supervisor(shared)).json()
    assert (seen["version"], seen["fingerprint"]) == (1, shared.show(waiting)["fingerprint"])
    assert seen["inputs"]["iban"]
    assert shared.http.get(f"/runs/{waiting}/versions/9", headers=supervisor(shared)).status_code == 404


# ── Decisions ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_decision_is_about_the_version_and_fingerprint_that_were_seen(shared: World, waiting: str) -> None:
    shown = shared.show(waiting)
    body = {"outcome": "approved", "version": 1, "fingerprint": shown["fingerprint"]}
    bad: dict[str, object] = {"version": 0, "fingerprint": "abc", "outcome": "maybe", "extra": 1}
    for name, value in bad.items():
        refused = shared.http.post(f"/runs/{waiting}/decisions", json={**body, name: value}, headers=supervisor(shared))
        assert refused.status_code == 422
        assert [each["field"] for each in refused.json()["fields"]] == [f"body.{name}"]
    for name in body:
        partial = {key: value for key, value in body.items() if key != name}
        refused = shared.http.post(f"/runs/{waiting}/decisions", json=partial, headers=supervisor(shared))
        assert (refused.status_code, refused.json()["fields"][0]["field"]) == (422, f"body.{name}")
    for other in ({"fingerprint": "0" * 64}, {"version": 2}):
        refused = shared.http.post(f"/runs/{waiting}/decisions", json={**body, **other}, headers=supervisor(shared))
        assert (refused.status_code, refused.json()["why"]) == (409, "other_content")
        assert refused.json()["fingerprint"] == shown["fingerprint"]
    assert shared.show(waiting)["decisions"] == []


def test_a_decision_is_given_once_repeated_alike_and_refused_to_others(shared: World, waiting: str) -> None:
    shown = shared.show(waiting)
    seen = {"version": shown["input_version"], "fingerprint": shown["fingerprint"]}
    first = shared.decide(waiting, **seen)
    shared.wait_state(waiting, "succeeded")
    repeated = shared.decide(waiting, **seen)
    assert repeated.status_code == 200
    assert repeated.json() == {**first.json(), "repeated": True}
    for by, outcome in (("sven", "approved"), ("sabine", "rejected")):
        other = shared.decide(waiting, outcome, by=by, **seen)
        assert (other.status_code, other.json()["why"], other.json()["decided_by"]) == (
            409,
            "already_decided",
            "sabine",
        )
    logged = shared.rows("SELECT actor_id, code FROM refused_decision WHERE run_id = %s ORDER BY id", waiting)
    assert [(row["actor_id"], row["code"]) for row in logged] == [
        ("sven", "already_decided"),
        ("sabine", "already_decided"),
    ]
    assert len(shared.accounts(waiting)) == 1


@pytest.mark.parametrize("roles", [(), ("operator",), ("reviewer",), ("admin",)], ids=str)
def test_only_the_role_that_the_policy_asks_decides(shared: World, waiting: str, roles: tuple[str, ...]) -> None:
    shown = shared.show(waiting)
    body = {"outcome": "approved", "version": 1, "fingerprint": shown["fingerprint"]}
    token = shared.actor("-".join(("who", *roles)), *roles)
    refused = shared.http.post(f"/runs/{waiting}/decisions", json=body, headers=bearer(token))
    assert (refused.status_code, refused.json()["role"]) == (403, "supervisor")
    assert shared.http.post(f"/runs/{waiting}/decisions", json=body).status_code == 401
    assert shared.show(waiting)["state"] == "awaiting_review"


def test_a_revoked_token_decides_nothing(shared: World, waiting: str) -> None:
    shared.actor("ruth", "supervisor")
    rows = shared.rows("SELECT id FROM api_token WHERE actor_id = 'ruth'")
    shared.store.write(lambda connection: revoke_token(connection, rows[0]["id"]))
    assert shared.decide(waiting, by="ruth").status_code == 401


def test_four_eyes_also_when_the_crm_user_is_found_out_to_be_the_approver_later(shared: World) -> None:
    """Requester and maker are placeholders for a CRM user until somebody says who that is."""
    user = str(int(MANAGER) + secrets.randbelow(10**6) + 10)
    company_id = shared.seed().company_id
    shared.set_company(company_id, user=user, name="Eigenhandel GmbH", onboarding_stage="submitted")
    run_id = eventually(lambda: shared.run_of(company_id), within=15)
    shared.wait_state(run_id, "awaiting_review")
    shared.actor("maria", "supervisor")
    shared.store.write(lambda connection: link(connection, "maria", f"hubspot:{user}"))
    own = shared.decide(run_id, by="maria")
    assert (own.status_code, own.json()["why"]) == (403, "own_work")
    assert shared.show(run_id)["state"] == "awaiting_review"
    assert shared.decide(run_id).status_code == 200
    shared.wait_state(run_id, "succeeded")


def test_a_recorded_approval_does_not_cover_what_its_author_turns_out_to_have_made(shared: World) -> None:
    """The link comes between decision and send: no permit rests on the approval any more."""
    user = str(int(MANAGER) + secrets.randbelow(10**6) + 10)
    company_id = shared.seed().company_id
    shared.set_company(company_id, user=user, name="Eigenhandel GmbH", onboarding_stage="submitted")
    run_id = eventually(lambda: shared.run_of(company_id), within=15)
    shared.wait_state(run_id, "awaiting_review")
    shared.actor("mona", "supervisor")
    shared.worker.kill()
    try:
        assert shared.decide(run_id, by="mona").status_code == 200
        shared.store.write(lambda connection: link(connection, "mona", f"hubspot:{user}"))
    finally:
        shared.worker.start()
    shared.wait_state(run_id, "awaiting_review", reason="approver_made_version", within=60)
    assert shared.accounts(run_id) == []
    assert shared.decide(run_id).status_code == 200
    shared.wait_state(run_id, "succeeded")


def test_a_decision_after_the_deadline_is_refused_and_noted(shared: World, engine: EngineView, waiting: str) -> None:
    """The deadline is moved into the past behind the worker's back: it has not looked yet."""
    shared.worker.kill()
    try:
        passed = datetime.now(UTC) - timedelta(seconds=1)
        shared.rows(
            "UPDATE review SET opened_at = opened_at - interval '4 days', deadline = %s WHERE run_id = %s RETURNING id",
            *(passed, waiting),
        )
        late = shared.decide(waiting)
        assert (late.status_code, late.json()["why"]) == (409, "expired")
    finally:
        shared.worker.start()
    engine.send(waiting, "nudge")
    shared.wait_state(waiting, "expired", reason="review_expired", within=60)
    logged = shared.rows("SELECT actor_id, code FROM refused_decision WHERE run_id = %s", waiting)
    assert [(row["actor_id"], row["code"]) for row in logged] == [("sabine", "expired")]


def test_a_decision_on_a_run_that_is_over_changes_nothing(shared: World, waiting: str) -> None:
    shared.decide(waiting, "rejected")
    ended = shared.wait_state(waiting, "failed")
    for outcome in ("approved", "changes_requested"):
        refused = shared.decide(waiting, outcome)
        assert (refused.status_code, refused.json()["why"]) == (409, "already_decided")
    assert shared.show(waiting)["seq"] == ended["seq"]


# ── Never 5xx ───────────────────────────────────────────────────────────────────────────────────────────────────

TEXTS = st.text(st.characters(codec="utf-8"), max_size=30) | st.sampled_from(
    ["\u0000", "a\u0000b", "%00", "../..", "\ud800"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
FIELDS: dict[str, dict[str, object]] = {
    "decisions": {"outcome": "approved", "version": 1, "fingerprint": "0" * 64, "comment": "c"},
    "resolutions": {"action": "retry", "reason": "r", "evidence": "e", "reference": "acct_1", "operation": "op-1"},
    "revocations": {"reason": "r"},
    "": {"process": "partner-onboarding", "subject": "hubspot:1:0-2:7", "business_key": "k", "rehearsal": False},
}


@pytest.fixture(scope="module")
def everybody(shared: World) -> dict[str, str]:
    """Somebody with every role, so that no refusal comes before the body is looked at."""
    return bearer(shared.actor("erika", "operator", "reviewer", "supervisor", "admin"))


@pytest.fixture(scope="module")
def target(shared: World) -> str:
    run_id = shared.submit(shared.seed().company_id)
    shared.wait_state(run_id, "awaiting_review")
    return run_id


@pytest.mark.parametrize("door", FIELDS, ids=lambda door: door or "start")
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_body_makes_the_gateway_fail(
    shared: World, everybody: dict[str, str], target: str, door: str, data: st.DataObject
) -> None:
    field = data.draw(st.sampled_from(sorted(FIELDS[door])))
    body = data.draw(st.just({**FIELDS[door], field: data.draw(VALUES)}) | VALUES)
    path = f"/runs/{target}/{door}" if door else "/runs"
    content = json.dumps(body)
    answer = shared.http.post(path, content=content, headers={**everybody, **JSON})
    assert answer.status_code < 500, (content, answer.text)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(name=st.sampled_from(["state", "process", "business_key", "owner", "before", "limit"]), value=TEXTS)
def test_no_filter_makes_the_gateway_fail(shared: World, name: str, value: str) -> None:
    text = value.encode("utf-8", "replace").decode()
    assert shared.http.get("/runs", params={name: text}).status_code < 500


@pytest.mark.parametrize("ident", ["%00", "a%00b", "%ff", "..%2f..", "x" * 3000, "run-x'; --", "%F0%9F%99%82"])
def test_no_address_makes_the_gateway_fail(shared: World, everybody: dict[str, str], ident: str) -> None:
    for path in (f"/runs/{ident}", f"/runs/{ident}/events", f"/runs/{ident}/versions/1"):
        assert shared.http.get(path, headers=everybody).status_code in (404, 422)
    for name, body in FIELDS.items():
        if name:
            answer = shared.http.post(f"/runs/{ident}/{name}", json=body, headers=everybody)
            assert answer.status_code in (404, 422)


@pytest.mark.parametrize("number", ["0", "-1", str(2**31), str(2**63), str(2**200), "1.5", "x"])
def test_no_version_number_makes_the_gateway_fail(
    shared: World, everybody: dict[str, str], target: str, number: str
) -> None:
    assert shared.http.get(f"/runs/{target}/versions/{number}", headers=everybody).status_code in (404, 422)
    events = shared.http.get(f"/runs/{target}/events", params={"after": number})
    assert events.status_code in (200, 422)


@pytest.mark.parametrize("token", ["\u00e9", "x" * 5000, "cf_"])
def test_no_token_makes_the_gateway_fail(shared: World, target: str, token: str) -> None:
    headers = {b"Authorization": f"Bearer {token}".encode("latin-1")}
    assert shared.http.get(f"/runs/{target}/versions/1", headers=headers).status_code == 401
