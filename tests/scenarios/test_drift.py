"""`counterfoil audit --deep`: what no longer is outside as the store says it is, found by reading it back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from commands import Counterfoil
from databases import fresh_database
from eventually import ANSWER_SECONDS, eventually
from sandboxes import sandbox_process
from world import MANAGER, TOKEN, World, world

from domain.drift import Apart
from stack.postgres import EmbeddedPostgres

STRIPE = {"Authorization": "Bearer sk_test_sandbox"}
HUBSPOT = {"Authorization": f"Bearer {TOKEN}", "X-Sandbox-Actor": f"userId:{MANAGER}"}


@pytest.fixture(scope="module")
def alone(
    migrated: EmbeddedPostgres, temporal_server: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """A world in which nothing is but what these tests make."""
    folder = tmp_path_factory.mktemp("drift")
    with (
        fresh_database(migrated) as database,
        sandbox_process(folder / "sandbox.db") as outside,
        world(database, temporal_server, outside, folder) as running,
    ):
        yield running


def _onboarded(place: World) -> dict[str, Any]:
    run_id = place.submit(place.seed().company_id)
    place.approve(run_id)
    place.wait_state(run_id, "succeeded")
    shown = "SELECT 1 FROM run WHERE id = %s AND projected_seq = seq"
    eventually(lambda: place.rows(shown, run_id), within=15)
    return place.show(run_id)


def _drift(place: World, run_id: str) -> list[dict[str, Any]]:
    """What is found of this run; any drift at all ends the command with 1."""
    patient = {**place.environment, "COUNTERFOIL_READ_TIMEOUT": "60"}
    said = Counterfoil(patient)("audit", "--deep", "--json")
    found = said.document["drift"]
    assert (said.document["violations"], said.code) == ([], 1 if found else 0)
    return [each for each in found if each["run"] == run_id]


def _references(shown: dict[str, Any]) -> dict[str, str]:
    return {each["step"]: each["reference"] for each in shown["operations"]}


def _call(place: World, method: str, path: str, headers: dict[str, str], **body: Any) -> None:  # noqa: ANN401
    httpx.request(
        method, place.sandbox.base_url + path, headers=headers, timeout=ANSWER_SECONDS, **body
    ).raise_for_status()


def test_drift_is_found_where_people_changed_what_was_made(alone: World) -> None:
    shown = _onboarded(alone)
    run_id, made = shown["run"], _references(shown)
    company_id = shown["subject"].rpartition(":")[2]
    assert _drift(alone, run_id) == []
    account = {"email": "somebody.else@example.test"}
    _call(alone, "POST", f"/v1/accounts/{made['create-account']}", STRIPE, data=account)
    _call(alone, "DELETE", f"/crm/v3/objects/tasks/{made['verification-task']}", HUBSPOT)
    alone.set_company(company_id, counterfoil_state="failed")
    drift = _drift(alone, run_id)
    assert {(each["system"], each["record"], each["apart"], *each["fields"]) for each in drift} == {
        ("stripe", made["create-account"], Apart.CHANGED, "email"),
        ("hubspot", made["verification-task"], Apart.GONE, "absent"),
        ("hubspot", shown["subject"], Apart.NOT_SHOWN, "counterfoil_state"),
    }
    told = Counterfoil(alone.environment)("audit", "--deep")
    assert (told.code, "somebody.else" in told.out) == (1, False)


def test_drift_is_a_second_record_under_the_key_of_one_operation(alone: World) -> None:
    shown = _onboarded(alone)
    (account,) = alone.accounts(shown["run"])
    copied = {f"metadata[{name}]": value for name, value in account["metadata"].items()}
    form = {"type": "custom", "country": "DE", "email": "copy@example.test", **copied}
    _call(alone, "POST", "/v1/accounts", STRIPE, data=form)
    (found,) = _drift(alone, shown["run"])
    key = next(each["operation"] for each in shown["operations"] if each["step"] == "create-account")
    assert (found["record"], found["apart"]) == (key, Apart.SEVERAL)


def test_drift_is_a_record_of_an_operation_that_nobody_knows(alone: World) -> None:
    strange = "op-" + "z" * 26
    _onboarded(alone)
    assert _drift(alone, "") == []
    _call(alone, "POST", "/v1/accounts", STRIPE, data={"country": "DE", "metadata[operation_key]": strange})
    (found,) = _drift(alone, "")
    assert (found["system"], found["apart"], found["fields"]) == ("stripe", Apart.UNRECORDED, [strange])
    later = Counterfoil(alone.environment)("audit", "--deep", "--since", "2099-01-01", "--json")
    assert [each for each in later.document["drift"] if not each["run"]] == []
    _call(alone, "DELETE", f"/v1/accounts/{found['record']}", STRIPE)


def test_drift_is_a_record_of_an_operation_that_was_refused(alone: World) -> None:
    """Our rule for e-mail addresses is laxer than Stripe's."""
    run_id = alone.submit(alone.seed(partner_email="konto@partner..example").company_id)
    alone.approve(run_id)
    (operation,) = alone.wait_state(run_id, "needs_operator", reason="provider_rejected")["operations"]
    assert (operation["outcome"], _drift(alone, run_id)) == ("rejected", [])
    form = {"type": "custom", "country": "DE", "metadata[operation_key]": operation["operation"]}
    _call(alone, "POST", "/v1/accounts", STRIPE, data=form)
    (found,) = _drift(alone, run_id)
    assert (found["record"], found["apart"]) == (operation["operation"], Apart.EXISTS)


def test_what_cannot_be_read_is_no_agreement(alone: World) -> None:
    run_id = _onboarded(alone)["run"]
    alone.fault("error_500_before", match={"method": "GET", "path_prefix": "/v1/accounts"}, times=50)
    drift = _drift(alone, run_id)
    assert {(each["system"], each["apart"], *each["fields"]) for each in drift} == {
        ("stripe", Apart.UNREADABLE, "http_500")
    }
