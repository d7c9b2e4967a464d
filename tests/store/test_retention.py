"""What was over long ago loses its contents, as recorded beforehand, and nothing of what it proves."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from eventually import eventually
from keeping import YEAR, age, erased, retention, still_there
from store_builder import STEPS, Book, changed
from told import heard, made, swept, told

from business_store.actors import Actor
from business_store.audit.immutability import ERASABLE, Payload
from business_store.decisions import revoke_decision
from business_store.erasing import erasable
from business_store.inbox import keep_receipts
from business_store.requests import insert_run, open_repair
from business_store.views import run_view, version_inputs
from domain.approvals import Outcome
from domain.deliveries import Change, Receipt, ReceiptVerdict
from domain.errors import ContentErased
from domain.resolutions import Action
from domain.signals import Answer, Doubt, Found, Signal
from domain.states import RunKind

ROOT = Path(__file__).parents[2]
LOST = Answer(Signal.UNKNOWN, "timed_out", doubt=Doubt.NO_ANSWER)
NOW = timedelta(0)
TABLES = sorted({payload.table for payload in ERASABLE})


def _failed(book: Book, reviewer: Actor, object_id: str = "701") -> str:
    """A run that a reviewer turned down; its id."""
    run_id = book.accept_trigger(object_id)
    book.snapshot(run_id)
    book.decide(run_id, reviewer, Outcome.REJECTED)
    assert book.look(run_id).run.state == "failed"
    return run_id


def _everything(book: Book, reviewer: Actor, operator: Actor) -> str:
    """One run, over, with contents of every kind; its id."""
    run_id = book.accept_trigger(inputs={"name": "Inline"})
    book.approved(run_id, reviewer)
    book.store.write(lambda connection: revoke_decision(connection, reviewer, run_id, "too hasty"))
    book.look(run_id)
    book.decide(run_id, reviewer)
    book.look(run_id)
    granted = book.permit(run_id)
    book.answer(run_id, granted, Answer(Signal.MISMATCH, "mismatch"))
    book.resolve(run_id, operator, Action.CONFIRM, "ext-confirmed")
    book.accepted(run_id, book.permit(run_id, "verification-task"))
    assert book.agree(run_id).run.state == "succeeded"
    return run_id


def test_c97_every_content_goes_and_every_proof_stays(book: Book, reviewer: Actor, operator: Actor) -> None:
    run_id = _everything(book, reviewer, operator)
    assert sorted(still_there(book)) == TABLES
    before = book.rows("SELECT seq, hash FROM event ORDER BY seq"), book.rows("SELECT * FROM attempt ORDER BY number")
    age(book)
    done = erased(book)
    assert (done.requests, done.receipts, sorted(done.contents)) == (1, 1, TABLES)
    assert still_there(book) == {}
    assert book.audit() == []
    kept = book.rows("SELECT seq, hash FROM event ORDER BY seq"), book.rows("SELECT * FROM attempt ORDER BY number")
    assert kept[0] == before[0]
    assert len(kept[1]) == len(before[1])
    assert book.rows("SELECT 1 FROM policy_version WHERE document IS NULL") == []
    hashes = [f"SELECT 1 FROM {each.table} WHERE {each.digest} IS NULL" for each in ERASABLE]
    assert [query for query in hashes if book.rows(query)] == []
    assert book.run(run_id).state == "succeeded"


def test_c97_who_approved_what_is_answered_after_the_erasure(book: Book, reviewer: Actor) -> None:
    run_id = book.straight(reviewer)
    fingerprint = book.facts(run_id).versions[0].version.fingerprint
    age(book)
    erased(book)
    asked = "SELECT actor_id, outcome, version, fingerprint FROM decision"
    assert [tuple(row) for row in book.rows(asked)] == [("sonja", "approved", 1, fingerprint)]
    with book.store.reading() as connection:
        view = run_view(connection, run_id, {})
        with pytest.raises(ContentErased):
            version_inputs(connection, run_id, 1)
    assert view["decisions"][0]["by"] == "sonja"
    assert (view["versions"][0]["erased"], view["versions"][0]["fingerprint"]) == (True, fingerprint)
    assert view["erased_at"] is not None
    assert {operation["outcome"] for operation in view["operations"]} == {"accepted"}


def test_c97_the_erasure_says_who_when_why_and_what(book: Book, reviewer: Actor) -> None:
    run_id = book.straight(reviewer)
    age(book)
    done = erased(book)
    row = book.rows("SELECT * FROM erasure")[0]
    assert (row.asked_by, row.role, row.reason) == ("renate", "counterfoil_retention", "retention")
    assert (row.id, row.cutoff, row.requests, row.receipts) == (done.id, done.cutoff, 1, 1)
    assert row.recorded_at - row.cutoff >= YEAR
    named = [tuple(each) for each in book.rows("SELECT request_id, erasure_id FROM erased_request")]
    assert named == [(book.run(run_id).request_id, done.id)]


# ── what stays ────────────────────────────────────────────────────────────────────────────────────────────────────


def _waiting(book: Book, reviewer: Actor) -> None:
    book.snapshot(book.accept_trigger())


def _unknown(book: Book, reviewer: Actor) -> None:
    run_id = book.accept_trigger()
    book.approved(run_id, reviewer)
    book.answer(run_id, book.permit(run_id), LOST)


def _unknown_of_an_ended_run(book: Book, reviewer: Actor) -> None:
    book.straight(reviewer)
    with book.forged() as connection:
        connection.execute("UPDATE operation SET outcome = 'unknown' WHERE step = 'create-account'")


def _contradicted(book: Book, reviewer: Actor) -> None:
    book.straight(reviewer)
    with book.forged() as connection:
        connection.execute("UPDATE operation SET outcome = 'not_sent' WHERE step = 'create-account'")


def _repaired(book: Book, reviewer: Actor) -> None:
    run_id = _failed(book, reviewer)
    book.store.write(lambda connection: open_repair(connection, run_id, book.process, RunKind.REPAIR))


def _revised(book: Book, reviewer: Actor) -> None:
    run = book.run(book.straight(reviewer))
    named = (run.request_id, book.process, RunKind.REVISION, run.correlation_id, run.id)
    book.store.write(lambda connection: insert_run(connection, *named))


def _linked_from_another_request(book: Book, reviewer: Actor) -> None:
    first, second = _failed(book, reviewer), book.accept_trigger("702")
    with book.forged() as connection:
        connection.execute("UPDATE run SET kind = 'repair', from_run = %s WHERE id = %s", [first, second])


def _changed_in_the_crm(book: Book, reviewer: Actor) -> None:
    _failed(book, reviewer)
    book.deliver(changed("701", dedupe_key="evt-later", property_name="iban", property_value="x"))


def _called_back(book: Book, reviewer: Actor, reference: str = "ext-create-account") -> None:
    """The provider told of an account after the run had ended."""
    line = book.facts(book.straight(reviewer)).line(STEPS[0])
    assert line is not None
    event = made(line.key, reference)
    heard(book, told(event), events=[event])


@pytest.mark.parametrize(
    "kept",
    [
        *(_waiting, _unknown, _unknown_of_an_ended_run, _contradicted, _repaired, _revised),
        *(_linked_from_another_request, _changed_in_the_crm, _called_back),
    ],
)
def test_c97_what_is_open_unknown_or_linked_is_kept(
    book: Book, reviewer: Actor, kept: Callable[[Book, Actor], None]
) -> None:
    kept(book, reviewer)
    age(book)
    before = still_there(book)
    done = erased(book)
    assert (done.id, done.requests, done.receipts, still_there(book)) == (None, 0, 0, before)


def test_c97_a_refusal_that_a_callback_contradicts_is_kept(book: Book, reviewer: Actor) -> None:
    _called_back(book, reviewer)
    with book.forged() as connection:
        connection.execute("UPDATE callback_delivery SET disposition = 'agrees'")
        connection.execute("UPDATE operation SET outcome = 'rejected' WHERE step = %s", [STEPS[0]])
    age(book)
    assert erased(book).id is None


def test_a_callbacks_body_goes_with_its_request_and_not_before(book: Book, reviewer: Actor) -> None:
    _called_back(book, reviewer)
    swept(book)
    age(book)
    with book.forged() as connection:
        connection.execute("UPDATE run SET state_since = clock_timestamp()")
    before = still_there(book)
    assert (erased(book).receipts, still_there(book)) == (0, before)
    age(book)
    assert erased(book).receipts == 2
    assert still_there(book) == {}
    assert book.audit() == []


def test_c97_nothing_is_erased_before_its_time(book: Book, reviewer: Actor) -> None:
    book.straight(reviewer)
    age(book, YEAR - timedelta(days=1))
    before = still_there(book)
    assert erased(book).id is None
    assert still_there(book) == before


def test_what_came_after_the_cutoff_stays_until_its_own_time(book: Book, reviewer: Actor) -> None:
    run_id = _failed(book, reviewer)
    age(book)
    with book.forged() as connection:
        connection.execute("UPDATE input_version SET recorded_at = clock_timestamp()")
    assert "input_version" not in erased(book).contents
    assert still_there(book) == {"input_version": 1}
    assert book.audit() == []
    assert erased(book).id is None
    age(book)
    assert erased(book).contents == {"input_version": 1}
    assert book.facts(run_id).versions[0].canonical is None
    assert book.audit() == []


def test_noise_goes_and_what_a_kept_request_came_with_stays(book: Book, reviewer: Actor) -> None:
    """A body with two elements belongs to both requests."""
    noise = Receipt("hubspot", b"noise", ReceiptVerdict.BAD_SIGNATURE)
    book.store.write(lambda connection: keep_receipts(connection, [noise]))
    nobodys = changed("999", change=Change.PROPERTY, property_name="iban", dedupe_key="n", inputs={"name": "Nobody"})
    book.deliver(nobodys, body=b"nobody's")
    book.deliver(changed("801"), changed("802"), body=b"both")
    over, still_open = (row.id for row in book.rows("SELECT id FROM run ORDER BY request_id"))
    book.snapshot(over)
    book.decide(over, reviewer, Outcome.REJECTED)
    book.look(over)
    age(book)
    assert erased(book).receipts == 2
    assert [bytes(row.body) for row in book.rows("SELECT body FROM receipt WHERE body IS NOT NULL")] == [b"both"]
    assert book.rows("SELECT 1 FROM delivery WHERE inputs IS NOT NULL") == []
    book.snapshot(still_open)
    book.decide(still_open, reviewer, Outcome.REJECTED)
    book.look(still_open)
    age(book)
    assert erased(book).receipts == 1
    assert still_there(book) == {}
    assert book.audit() == []


def test_a_dry_run_counts_what_an_erasure_then_erases(book: Book, reviewer: Actor, operator: Actor) -> None:
    _everything(book, reviewer, operator)
    _failed(book, reviewer)
    age(book)
    before = still_there(book)
    with retention(book) as store:
        counted = store.read(lambda connection: erasable(connection, YEAR))
    assert (still_there(book), book.count("erasure")) == (before, 0)
    done = erased(book)
    assert (done.requests, done.receipts, done.contents) == (counted.requests, counted.receipts, counted.contents)
    assert counted.contents == before


# ── interrupted ───────────────────────────────────────────────────────────────────────────────────────────────────

ERASING = """
import sys
from datetime import timedelta
from business_store.database import Store
from business_store.erasing import ErasureAsked, erase
erase(Store(sys.argv[1], 1), ErasureAsked("renate", "retention", timedelta(days=365)), page=1)
"""


def test_c97_a_killed_erasure_was_recorded_first_and_is_resumed(book: Book, reviewer: Actor) -> None:
    """It is killed while it waits for the third of three requests, which somebody else holds."""
    for number in ("701", "702", "703"):
        _failed(book, reviewer, number)
    age(book)
    with psycopg.connect(book.database.superuser_dsn) as holder:
        holder.execute("SELECT FROM request ORDER BY id DESC LIMIT 1 FOR UPDATE")
        command = [sys.executable, "-c", ERASING, book.database.retention_url]
        with subprocess.Popen(command, cwd=ROOT) as process:
            try:
                eventually(lambda: book.count("erased_request") == 2, within=60)
            finally:
                process.kill()
        assert (book.count("erasure"), still_there(book)["input_version"]) == (1, 1)
        assert book.audit() == []
    eventually(lambda: not book.rows("SELECT 1 FROM pg_stat_activity WHERE usename = 'counterfoil_retention'"))
    assert erased(book).requests == 1
    assert still_there(book) == {}
    assert [row.erasure_id for row in book.rows("SELECT erasure_id FROM erased_request ORDER BY request_id")] == [
        1,
        1,
        2,
    ]
    assert book.audit() == []


WAITING = "SELECT 1 FROM pg_stat_activity WHERE usename = 'counterfoil_retention' AND wait_event_type = 'Lock'"


def test_a_request_that_comes_to_life_meanwhile_is_left_out(book: Book, reviewer: Actor) -> None:
    """Its repair commits while the erasure waits for the lock: the erasure's own look was before that."""
    run_id = _failed(book, reviewer)
    age(book)
    with psycopg.connect(book.database.superuser_dsn) as holder, ThreadPoolExecutor(1) as pool:
        holder.execute("SELECT FROM request FOR UPDATE")
        erasing = pool.submit(erased, book)
        with psycopg.connect(book.database.superuser_dsn, autocommit=True) as watching:
            eventually(lambda: watching.execute(WAITING).fetchone(), within=60)
        with book.forged() as repairing:
            repairing.execute("UPDATE run SET state = 'queued' WHERE id = %s", [run_id])
        holder.rollback()
        assert erasing.result(60).requests == 0
    assert book.count("erased_request") == 0
    assert still_there(book)["input_version"] == 1


# ── who may not, and what shows ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def over(book: Book, reviewer: Actor, operator: Actor) -> Book:
    """A store whose one run may be erased."""
    _everything(book, reviewer, operator)
    age(book)
    return book


def _as(url: str) -> psycopg.Connection:
    return psycopg.connect(url.replace("postgresql+psycopg", "postgresql"))


RECORDED = """
    INSERT INTO erasure (asked_by, reason, cutoff, requests, receipts)
    VALUES ('x', 'x', clock_timestamp() - interval '365 days', 1, 1);
    INSERT INTO erased_request SELECT r.id, x.id FROM request r, erasure x;
    INSERT INTO erased_receipt SELECT r.id, x.id FROM receipt r, erasure x;
"""


@pytest.mark.parametrize("payload", ERASABLE, ids=lambda payload: f"{payload.table}.{payload.column}")
def test_nobody_else_empties_a_content_even_once_its_erasure_is_recorded(over: Book, payload: Payload) -> None:
    table, column = payload.table, payload.column
    with _as(over.database.retention_url) as connection:
        connection.execute(RECORDED)
    emptying = f"UPDATE {table} SET {column} = NULL".encode()
    for url in (over.database.url, over.database.owner_url):
        with _as(url) as connection, pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.IntegrityError)):
            connection.execute(emptying)
    with psycopg.connect(over.database.superuser_dsn) as posing:
        posing.execute("SET ROLE counterfoil_retention")
        with pytest.raises(psycopg.IntegrityError) as refused:
            posing.execute(emptying)
    assert refused.value.diag.constraint_name in ("insert_only", "operation_fixed")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE input_version SET canonical = NULL",
        "UPDATE receipt SET body = NULL",
        "UPDATE decision SET comment = NULL",
        "CREATE TEMP TABLE erased_request AS SELECT id AS request_id, 1 AS erasure_id FROM request;"
        "CREATE TEMP TABLE erasure AS SELECT 1 AS id, now() AS cutoff;"
        "UPDATE input_version SET canonical = NULL",
    ],
)
def test_it_empties_nothing_that_no_erasure_names(over: Book, statement: str) -> None:
    with _as(over.database.retention_url) as connection, pytest.raises(psycopg.IntegrityError) as refused:
        connection.execute(statement)
    assert refused.value.diag.constraint_name == "insert_only"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE input_version SET canonical = '{}'",
        "UPDATE input_version SET canonical = NULL, problems = '{}'",
        "UPDATE input_version SET fingerprint = ''",
        "UPDATE resolution SET reason = NULL",
        "UPDATE operation SET outcome = 'rejected'",
        "UPDATE policy_version SET document = NULL",
        "UPDATE event SET evidence = '{}'",
        "DELETE FROM input_version",
        "TRUNCATE input_version CASCADE",
        "SELECT canonical FROM input_version",
        "SELECT body FROM receipt",
        "INSERT INTO decision SELECT * FROM decision",
        "INSERT INTO erasure (role, asked_by, reason, cutoff, requests, receipts) VALUES ('o', 'x', 'x', now(), 1, 1)",
        "UPDATE erasure SET cutoff = now()",
        "DELETE FROM erased_request",
        "ALTER TABLE input_version DISABLE TRIGGER insert_only",
        "SET session_replication_role = replica",
        "SET ROLE counterfoil_owner",
    ],
)
def test_it_does_nothing_but_empty_what_was_recorded(over: Book, statement: str) -> None:
    with _as(over.database.retention_url) as connection:
        connection.execute(RECORDED)
        with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.IntegrityError)):
            connection.execute(statement.encode())


def test_it_cannot_record_what_is_not_over(book: Book, reviewer: Actor) -> None:
    book.snapshot(book.accept_trigger())
    age(book)
    with _as(book.database.retention_url) as connection, pytest.raises(psycopg.IntegrityError) as refused:
        connection.execute(RECORDED)
    assert refused.value.diag.constraint_name == "erasure_too_early"


def test_it_cannot_empty_what_came_to_life_after_it_was_recorded(over: Book) -> None:
    with _as(over.database.retention_url) as connection:
        connection.execute(RECORDED)
    with over.forged() as connection:
        connection.execute("UPDATE run SET state = 'running'")
    with _as(over.database.retention_url) as connection, pytest.raises(psycopg.IntegrityError) as refused:
        connection.execute("UPDATE input_version SET canonical = NULL")
    assert refused.value.diag.constraint_name == "insert_only"


@pytest.mark.parametrize("payload", ERASABLE, ids=lambda payload: f"{payload.table}.{payload.column}")
def test_a_content_that_is_gone_without_a_record_is_found(over: Book, payload: Payload) -> None:
    table, column = payload.table, payload.column
    assert over.audit() == []
    with over.forged() as connection:
        connection.execute(f"UPDATE {table} SET {column} = NULL".encode())
    found = over.audit()
    assert {violation.table for violation in found} == {table}
    assert {violation.detail for violation in found} == {"its content is gone and no erasure says so"}


def test_a_content_that_is_there_although_it_was_erased_is_found(over: Book) -> None:
    with _as(over.database.retention_url) as connection:
        connection.execute(RECORDED)
    found = over.audit()
    assert {violation.table for violation in found} == set(TABLES)
    assert {violation.detail for violation in found} == {"its content is there although its erasure was recorded"}


def test_every_payload_is_in_the_view_and_can_be_emptied(book: Book) -> None:
    query = "SELECT table_name || '.' || column_name FROM information_schema.column_privileges WHERE"
    with psycopg.connect(book.database.superuser_dsn) as superuser:
        may = superuser.execute(f"{query} grantee = 'counterfoil_retention' AND privilege_type = 'UPDATE'").fetchall()
        definition = superuser.execute("SELECT pg_get_viewdef('payload'::regclass)").fetchone()
    assert {name for (name,) in may} == {f"{payload.table}.{payload.column}" for payload in ERASABLE}
    assert definition is not None
    assert [table for table in TABLES if f"'{table}'" not in definition[0]] == []


def test_what_is_in_doubt_is_kept_and_goes_once_settled(book: Book, reviewer: Actor) -> None:
    run_id = book.accept_trigger()
    book.approved(run_id, reviewer)
    granted = book.permit(run_id)
    book.answer(run_id, granted, LOST)
    assert erased(book, NOW).id is None
    book.probe(run_id, granted, Found.ONE, "ext-found")
    book.accepted(run_id, book.permit(run_id, "verification-task"))
    assert book.agree(run_id).run.state == "succeeded"
    assert erased(book, NOW).requests == 1
    assert book.audit() == []
