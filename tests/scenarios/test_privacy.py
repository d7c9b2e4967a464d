"""Nothing of a partner's details leaves the store but to CRM and provider: engine, logs and error answers hold none."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from urllib.parse import quote

import psycopg
import pytest
from engine_view import EngineView
from eventually import eventually
from inbound_samples import batch, hubspot_element
from world import SECRET, World

from gateway.signatures import sign_hubspot_v3

DETAILS = {
    "name": "Ysengrin Fellhandel KG",
    "partner_email": "kasse@ysengrin.example",
    "legal_form": "Kommanditgesellschaft",
    "bank_holder": "Ysengrin Treuhand",
    "iban": "DE02120300000000202051",
    "phone": "+49 89 5550777",
    "description": "Pelzhandel seit 1799",
}
AMENDED = {"name": "Ysengrin Leder KG", "iban": "DE02500105170137075030"}
VALUES = {*DETAILS.values(), *AMENDED.values(), "ysengrin", "Pelzhandel", "petra.kraft", "owner@example.test"}
ACCOUNTS = {"method": "POST", "path_prefix": "/v1/accounts"}


def spellings(value: str) -> set[str]:
    """How a value may hide in text: as it is, escaped for JSON or a URL, in hexadecimal."""
    raw = value.encode()
    return {value, json.dumps(value)[1:-1], quote(value), quote(value, safe=""), raw.hex(), repr(raw)[2:-1]}


def leaks(text: str) -> list[str]:
    """The details found in the text, whatever their case."""
    lowered = text.lower()
    return sorted(value for value in VALUES if any(each.lower() in lowered for each in spellings(value)))


def unpacked(value: object) -> Iterator[str]:
    """Every text in a JSON value; text that is base64 also decoded."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from (name, *unpacked(part))
    elif isinstance(value, list):
        for part in value:
            yield from unpacked(part)
    elif isinstance(value, str):
        yield from (value, decoded(value))


def decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode("utf-8", "replace")
    except binascii.Error:
        return ""


def told_by_engine(engine: EngineView, run_id: str) -> str:
    """All that Temporal keeps or shows of the run's executions."""
    return "\n".join(
        text
        for found in eventually(lambda: engine.executions(run_id))
        for text in (*unpacked(history(engine, found.id, found.run_id)), described(engine, found.id, found.run_id))
    )


def history(engine: EngineView, workflow_id: str, engine_run: str) -> object:
    handle = engine.client.get_workflow_handle(workflow_id, run_id=engine_run)
    return engine.run(handle.fetch_history()).to_json_dict()


def described(engine: EngineView, workflow_id: str, engine_run: str) -> str:
    """Search attributes, memo, summary and details; the current details are a query."""
    handle = engine.client.get_workflow_handle(workflow_id, run_id=engine_run)
    seen = engine.run(handle.describe())
    parts: list[object] = [seen.raw_description, seen.typed_search_attributes, engine.run(seen.memo())]
    parts += [engine.run(seen.static_summary()), engine.run(seen.static_details())]
    parts.append(engine.run(handle.query("__temporal_workflow_metadata")))
    return "\n".join(map(str, parts))


@pytest.fixture(scope="module")
def ended(shared: World, engine: EngineView) -> dict[str, str]:
    """Runs of every kind of course, all about the same details."""
    straight, amended, unknown, failed, broken = (shared.seed(**DETAILS).company_id for _ in range(5))
    runs = {"straight": shared.submit(straight), "amended": shared.submit(amended)}
    runs |= {"unknown": shared.submit(unknown), "failed": shared.submit(failed)}
    shared.approve(runs["straight"])
    shared.wait_state(runs["straight"], "succeeded")
    shared.wait_state(runs["amended"], "awaiting_review")
    shared.set_company(amended, **AMENDED)
    shared.wait_version(runs["amended"], 2)
    refused = shared.decide(runs["amended"], version=1)
    assert refused.status_code == 409
    shared.approve(runs["amended"])
    shared.wait_state(runs["amended"], "succeeded")
    shared.fault("commit_502_html", match=ACCOUNTS)
    shared.approve(runs["unknown"])
    shared.wait_state(runs["unknown"], "succeeded")
    shared.wait_state(runs["failed"], "awaiting_review")
    assert shared.decide(runs["failed"], "rejected").status_code == 200
    shared.wait_state(runs["failed"], "failed")
    with refusing_versions(shared, "22000"):
        runs["defect"] = shared.submit(broken)
        shared.wait_state(runs["defect"], "needs_operator", reason="own_defect")
    return runs


@contextmanager
def refusing_versions(shared: World, sqlstate: str) -> Iterator[None]:
    """The database refuses to store new versions, and quotes the row as it does so."""
    with psycopg.connect(shared.database.superuser_dsn, autocommit=True) as connection:
        connection.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " RAISE EXCEPTION 'row %', convert_from(NEW.canonical, 'UTF8')"
            f" USING ERRCODE = '{sqlstate}', DETAIL = convert_from(NEW.canonical, 'UTF8'); END $$"
        )
        connection.execute(
            "CREATE TRIGGER refusing BEFORE INSERT ON input_version FOR EACH ROW EXECUTE FUNCTION refuse()"
        )
        try:
            yield
        finally:
            connection.execute("DROP TRIGGER refusing ON input_version")
            connection.execute("DROP FUNCTION refuse")


def test_the_search_finds_what_is_there() -> None:
    """Without this the tests below would pass on a search that finds nothing."""
    encoded = base64.b64encode(json.dumps({"iban": DETAILS["iban"]}).encode()).decode()
    assert leaks("\n".join(unpacked({"payloads": [{"data": encoded}]}))) == [DETAILS["iban"]]
    assert leaks(DETAILS["name"].encode().hex().upper()) != []


@pytest.mark.parametrize("course", ["straight", "amended", "unknown", "failed", "defect"])
def test_i16_temporal_holds_nothing_of_the_details(
    shared: World, engine: EngineView, ended: dict[str, str], course: str
) -> None:
    told = told_by_engine(engine, ended[course])
    assert ended[course] in told
    assert leaks(told) == []


def test_i16_a_store_that_is_away_and_quotes_rows_leaks_nothing(shared: World, engine: EngineView) -> None:
    company_id = shared.seed(**DETAILS).company_id
    with refusing_versions(shared, "53300"):
        run_id = shared.submit(company_id)
        pending = eventually(lambda: failing(engine, run_id), 15)
        assert leaks(pending) == []
        assert "StoreAway" in pending
    shared.approve(run_id)
    shared.wait_state(run_id, "succeeded")
    assert leaks(told_by_engine(engine, run_id)) == []


def failing(engine: EngineView, run_id: str) -> str:
    """The description of an execution whose activity failed and is tried again; empty before that."""
    text = str(engine.run(engine.handle(run_id).describe()).raw_description)
    return text if "last_failure" in text else ""


def test_i16_logs_hold_nothing_of_the_details(shared: World, ended: dict[str, str]) -> None:
    for program in (shared.gateway, shared.worker):
        text = program.log.read_text()
        assert text
        assert leaks(text) == []
    assert ended["defect"] in shared.worker.log.read_text()


def test_i16_run_views_and_event_pages_hold_nothing_of_the_details(shared: World, ended: dict[str, str]) -> None:
    for run_id in ended.values():
        assert leaks(json.dumps([shared.show(run_id), shared.events(run_id)])) == []


def test_i16_error_answers_hold_nothing_of_what_was_sent(shared: World, ended: dict[str, str]) -> None:
    token = {"Authorization": f"Bearer {shared.actor('sabine', 'supervisor')}"}
    run_id = ended["straight"]
    bodies: list[object] = [
        {"outcome": DETAILS["name"], "version": DETAILS["iban"], "fingerprint": DETAILS["phone"]},
        {"outcome": "approved", "version": 1, "fingerprint": "0" * 64, "iban": DETAILS["iban"]},
        {"outcome": "approved", "version": 1, "fingerprint": "0" * 64, "comment": DETAILS["description"]},
        [DETAILS["iban"]],
        DETAILS["iban"],
    ]
    for body in bodies:
        answer = shared.http.post(f"/runs/{run_id}/decisions", json=body, headers=token)
        assert answer.status_code in (409, 422)
        assert leaks(answer.text) == []
    raw = f'{{"iban": "{DETAILS["iban"]}"'.encode()
    answer = shared.http.post(f"/runs/{run_id}/decisions", content=raw, headers=token)
    assert answer.status_code == 422
    assert leaks(answer.text) == []


@pytest.mark.parametrize("signed", [True, False])
def test_i16_trigger_answers_hold_nothing_of_what_was_sent(shared: World, signed: bool) -> None:
    named = {"propertyName": "iban", "propertyValue": {"nested": DETAILS["iban"]}}
    for body in (
        batch(hubspot_element(**named)),
        batch(hubspot_element(objectId=DETAILS["name"]), hubspot_element(portalId=DETAILS["iban"])),
        batch(DETAILS["name"]),
        f'[{{"propertyValue": "{DETAILS["iban"]}"'.encode(),
    ):
        stamp = int(datetime.now(UTC).timestamp() * 1000)
        headers = sign_hubspot_v3(SECRET if signed else "other", shared.settings.hubspot_public_url, stamp, body)
        answer = shared.http.post("/triggers/hubspot", content=body, headers=headers)
        assert answer.status_code in ((202, 400) if signed else (401,))
        assert leaks(answer.text) == []
