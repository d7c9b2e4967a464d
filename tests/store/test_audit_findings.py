"""Every broken promise is found, and its row named. Each is planted behind the back of every trigger and key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import psycopg
import pytest
from databases import fresh_database
from sqlalchemy import Connection, Engine, create_engine, text
from store_builder import VALUES, Book

from business_store.actors import Actor
from business_store.audit import CHECKS, SWEPT_WITHIN, check, violations
from business_store.audit.check import offending
from stack.postgres import EmbeddedPostgres

NOW = timedelta(0)


@dataclass(frozen=True)
class Plant:
    """`forgery` is done to a straight run; `row` is what the audit must name. Both may name {run} and the like."""

    invariant: str
    table: str
    row: str
    forgery: str
    within: timedelta = SWEPT_WITHIN

    def __str__(self) -> str:
        return f"{self.invariant}-{self.table}-{self.forgery[:40]}"


def _copied(table: str, **changes: str) -> str:
    """A second row like the first one but for these columns, past every key."""
    values = ", ".join(f"'{name}', {value}" for name, value in changes.items())
    return (
        f"INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT (jsonb_populate_record(t, jsonb_build_object({values}))).*"
        f" FROM {table} t LIMIT 1;"
    )


ACCOUNT = "key = '{account}'"
FIRST = "operation_key = '{account}'"
SEND = "{account}/1"
ERASURE = (
    "INSERT INTO erasure (id, asked_by, reason, cutoff, requests, receipts) OVERRIDING SYSTEM VALUE"
    " VALUES (7, 'x', 'x', now(), 1, 1);"
)
CALLBACK = """
    INSERT INTO callback_delivery (id, source, dedupe_key, receipt_id, element, system, disposition, received_at)
    OVERRIDING SYSTEM VALUE VALUES (7, 'callback/forged', 'evt-1', 1, 0, 'stripe', '{}', 'epoch');
    INSERT INTO callback (id, delivery_id, operation_key, reference, ours, code, record_sha256)
    SELECT 'cbk-1', 7, key, 'ext-create-account', {}, 'forged', 'x' FROM operation WHERE step = 'create-account';
"""
PLANTS = [
    Plant(
        "I1",
        "request",
        "req-twin {request}",
        "ALTER TABLE request DROP CONSTRAINT request_process_business_key_key;" + _copied("request", id="'req-twin'"),
    ),
    Plant("I1", "request", "{request}", "UPDATE request SET business_key = ' ' || business_key"),
    Plant("I1", "request", "{request}", "DROP INDEX run_one_original;" + _copied("run", id="'run-twin'", number="2")),
    Plant("I1", "request", "{request}", "UPDATE subject_link SET live = false"),
    Plant("I2", "run", "{run}", "UPDATE run SET state = 'failed'"),
    Plant("I2", "run", "{run}", "UPDATE run SET reason = 'other'"),
    Plant("I2", "run", "{run}", "DELETE FROM event WHERE seq = 3"),
    Plant("I2", "event", "{run}/4", "DELETE FROM event WHERE seq = 3"),
    Plant("I2", "event", "{run}/3", "UPDATE event SET previous = 'waiting' WHERE seq = 3"),
    Plant("I2", "event", "{run}/3", "UPDATE event SET actor_kind = 'intake' WHERE seq = 3"),
    Plant("I3", "event", "{run}/3", "UPDATE event SET at = at - interval '1 minute' WHERE seq = 3"),
    Plant("I3", "event", "{run}/4", "UPDATE event SET previous_hash = 'x' WHERE seq = 4"),
    Plant(
        "I3",
        "operation",
        "{account}",
        "ALTER TABLE operation DROP CONSTRAINT operation_check; UPDATE operation SET content = 'x' WHERE " + ACCOUNT,
    ),
    Plant(
        "I3",
        "input_version",
        "{request}/1",
        "ALTER TABLE input_version DROP CONSTRAINT input_version_check; UPDATE input_version SET canonical = '{{}}'",
    ),
    Plant("I3", "event", "{permitted}", "UPDATE operation SET content = 'x', content_sha256 = sha256('x')"),
    Plant("I3", "pg_trigger", "event.insert_only", "ALTER TABLE event DISABLE TRIGGER insert_only"),
    Plant("I3", "pg_trigger", "run.run_guard", "DROP TRIGGER run_guard ON run"),
    Plant("I3", "pg_class", "answer", "GRANT UPDATE ON answer TO counterfoil_app"),
    Plant("I3", "input_version", "{request}/1", "UPDATE input_version SET canonical = NULL"),
    Plant("I3", "pg_trigger", "operation.contents_kept", "ALTER TABLE operation DISABLE TRIGGER contents_kept"),
    Plant("I3", "pg_class", "event", "GRANT DELETE ON event TO counterfoil_retention"),
    Plant("I3", "pg_class", "run.state", "GRANT UPDATE (state) ON run TO counterfoil_retention"),
    Plant("I3", "pg_class", "receipt.body", "GRANT SELECT ON receipt TO counterfoil_retention"),
    Plant("I3", "pg_class", "decision.comment", "GRANT INSERT (comment) ON decision TO counterfoil_retention"),
    Plant("I3", "pg_roles", "counterfoil_app", "GRANT counterfoil_owner TO counterfoil_app"),
    Plant("I3", "erasure", "7", ERASURE),
    Plant(
        "I3",
        "erased_request",
        "{request}",
        ERASURE + "INSERT INTO erased_request SELECT '{request}', 7; UPDATE run SET state = 'running'",
    ),
    Plant("I4", "event", "{run}/3", "UPDATE event SET step = '' WHERE seq = 3"),
    Plant("I4", "event", "{run}/3", "UPDATE event SET policy_version = 'never' WHERE seq = 3"),
    Plant("I4", "event", "{run}/3", "UPDATE event SET next_owner = NULL WHERE seq = 3"),
    Plant("I5", "run", "{run}", "UPDATE operation SET outcome = 'unknown' WHERE " + ACCOUNT),
    Plant(
        "I5",
        "run",
        "{run}",
        "UPDATE operation SET in_flight_attempt = 1, in_flight_until = now(), outcome = 'unknown' WHERE " + ACCOUNT,
    ),
    Plant("I5", "event", "{run}/5", "UPDATE event SET previous = 'failed' WHERE seq = 5"),
    Plant("I5", "run", "{run}", "ALTER TABLE run DROP CONSTRAINT run_reason_check; UPDATE run SET reason = ' '"),
    Plant("I6", "decision", "{decision}", "UPDATE decision SET version = 2"),
    Plant("I6", "decision", "{decision}", "UPDATE review SET status = 'superseded'"),
    Plant("I6", "decision", "{decision}", "UPDATE review SET deadline = opened_at"),
    Plant("I6", "review", "{review}", "DELETE FROM decision"),
    Plant(
        "I7",
        "actor",
        "clerk",
        "INSERT INTO actor (id, kind, name) VALUES ('bot', 'service', 'Bot');"
        " INSERT INTO actor (id, kind, name, acts_for) VALUES ('clerk', 'service', 'Clerk', 'bot')",
    ),
    Plant("I7", "attempt", SEND, "UPDATE attempt SET decision_id = NULL WHERE " + FIRST),
    Plant("I7", "attempt", SEND, "UPDATE operation SET input_version = 2 WHERE " + ACCOUNT),
    Plant("I7", "attempt", SEND, "UPDATE decision SET decided_at = now() + interval '1 day'"),
    Plant("I7", "attempt", SEND, "UPDATE decision SET valid_until = decided_at"),
    Plant("I7", "attempt", SEND, "UPDATE decision SET outcome = 'rejected'"),
    Plant(
        "I7",
        "attempt",
        SEND,
        "INSERT INTO revocation SELECT id, actor_id, 'forged', decided_at, sha256('forged') FROM decision",
    ),
    Plant("I7", "attempt", SEND, "UPDATE decision SET actor_id = (SELECT actor_id FROM version_maker)"),
    Plant("I7", "attempt", SEND, "UPDATE request SET requester = (SELECT actor_id FROM decision)"),
    Plant("I8", "attempt", SEND, "UPDATE attempt SET content_sha256 = 'x' WHERE " + FIRST),
    Plant("I8", "attempt", "{account}/2", "DELETE FROM answer;" + _copied("attempt", number="2", token="'forged'")),
    Plant(
        "I8",
        "attempt",
        SEND,
        "INSERT INTO engine_execution SELECT run_id, epoch + 1, 'forged', permitted_at - interval '1 second' "
        "FROM attempt WHERE " + FIRST,
    ),
    Plant("I8", "operation", "{account}", "DELETE FROM attempt WHERE " + FIRST),
    Plant("I8", "dispatch", "{dispatch}", "DELETE FROM attempt WHERE " + FIRST),
    Plant("I8", "dispatch", "{dispatch}", "UPDATE attempt SET dispatch_id = '{dispatch}'"),
    Plant("I8", "answer", "{answer}", "UPDATE answer SET recorded_at = recorded_at - interval '1 day'"),
    Plant("I9", "operation", "forged", _copied("operation", key="'forged'", generation="2", step="'create-account'")),
    Plant(
        "I9",
        "attempt",
        "{account}/2",
        "UPDATE attempt SET number = 2, permitted_at = clock_timestamp(),"
        f" send_before = 'infinity', lease_until = 'infinity' WHERE {FIRST}",
    ),
    Plant("I10", "run", "{run}", "UPDATE run SET kind = 'rehearsal'"),
    Plant("I10", "operation", "{account}", "UPDATE operation SET policy_version = 'never' WHERE " + ACCOUNT),
    Plant("I10", "attempt", SEND, "UPDATE attempt SET run_id = 'another' WHERE " + FIRST),
    Plant("I11", "operation", "{account}", "DELETE FROM answer WHERE " + FIRST),
    Plant("I11", "operation", "{account}", "UPDATE operation SET settled_by = 'time' WHERE " + ACCOUNT),
    Plant("I11", "operation", "{account}", "UPDATE operation SET settled_by = 'operator:res-none' WHERE " + ACCOUNT),
    Plant(
        "I11",
        "operation",
        "{account}",
        "UPDATE operation SET outcome = 'not_sent', settled_by = 'answer' WHERE " + ACCOUNT,
    ),
    Plant(
        "I11",
        "operation",
        "{account}",
        "UPDATE operation SET outcome = 'written_off', settled_by = 'operator:x' WHERE " + ACCOUNT,
    ),
    Plant(
        "I11",
        "operation",
        "{account}",
        _copied("answer", id="'forged'", signal="'rejected'", code="'no'")
        + "UPDATE operation SET outcome = 'rejected', settled_by = 'answer:no'",
        NOW,
    ),
    Plant("I12", "run", "{run}", "DELETE FROM reading"),
    Plant("I12", "run", "{run}", "UPDATE reading SET agrees = false WHERE system = 'stripe'"),
    Plant("I13", "attempt", SEND, "UPDATE run SET cancel_requested_at = created_at"),
    Plant("I13", "run", "{run}", "UPDATE run SET state = 'canceled'"),
    Plant("I14", "request", "{request}", "DELETE FROM run"),
    Plant("I14", "run", "{run}", "UPDATE run SET state = 'queued', engine_health = 'not_started'", NOW),
    Plant("I14", "run", "{run}", "UPDATE run SET state = 'running', engine_health = 'lost'", NOW),
    Plant("I14", "run", "{run}", "UPDATE run SET state = 'running', engine_checked_at = now() - interval '3 hours'"),
    Plant("I14", "run", "{run}", "UPDATE run SET state = 'waiting', nudge = 9, nudged_at = created_at", NOW),
    Plant("I14", "decision", "{decision}", "UPDATE run SET state = 'awaiting_review', state_since = created_at", NOW),
    Plant("I14", "callback_delivery", "7", CALLBACK.format("matched", "true"), NOW),
    Plant("I9", "attempt", SEND, CALLBACK.format("noted", "true") + "UPDATE callback SET recorded_at = 'epoch'"),
    Plant(
        "I11",
        "operation",
        "{account}",
        CALLBACK.format("noted", "true")
        + "DELETE FROM answer; UPDATE operation SET outcome = 'rejected', settled_by = 'answer:no'",
        NOW,
    ),
    Plant("I11", "operation", "{account}", "DELETE FROM answer;" + CALLBACK.format("noted", "false")),
    Plant("I3", "pg_class", "callback", "GRANT DELETE ON callback TO counterfoil_app"),
    Plant("I16", "event", "{run}/3", "UPDATE event SET reason = 'Not a code!' WHERE seq = 3"),
]


Names = dict[str, str]


@pytest.fixture(scope="module")
def straight(migrated: EmbeddedPostgres) -> Iterator[tuple[Engine, Names]]:
    """A database with one straight run, seen by the superuser, and the names of its rows."""
    with fresh_database(migrated) as database:
        book = Book(database)
        book.straight(book.person("sonja", "supervisor"))
        assert book.audit() == []
        names = _names(book)
        book.close()
        superuser = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(database.superuser_dsn))
        yield superuser, names
        superuser.dispose()


def _names(book: Book) -> Names:
    row = book.rows("""
        SELECT run.id AS run, run.request_id AS request, o.key AS account, d.id AS decision, d.review_id AS review,
            (SELECT id FROM answer WHERE operation_key = o.key) AS answer,
            (SELECT dispatch_id FROM attempt WHERE operation_key = o.key) AS dispatch,
            (SELECT run_id || '/' || min(seq) FROM event WHERE reason = 'permitted' GROUP BY run_id) AS permitted
        FROM run, operation o, decision d WHERE o.step = 'create-account'
    """)[0]
    return dict(row._mapping)


@pytest.fixture
def forger(straight: tuple[Engine, Names]) -> Iterator[Connection]:
    """A transaction in which no trigger and no foreign key holds; it is rolled back."""
    with straight[0].connect() as connection:
        connection.execute(text("SET LOCAL session_replication_role = replica"))
        yield connection
        connection.rollback()


@pytest.fixture
def names(straight: tuple[Engine, Names]) -> Names:
    return straight[1]


def _found(connection: Connection, within: timedelta = SWEPT_WITHIN) -> set[tuple[str, str, str]]:
    rows = (violation for check in CHECKS for violation in offending(connection, check, within))
    return {(violation.invariant, violation.table, violation.row) for violation in rows}


@pytest.mark.parametrize("plant", PLANTS, ids=str)
def test_what_was_planted_is_found(forger: Connection, names: Names, plant: Plant) -> None:
    forger.exec_driver_sql(plant.forgery.format(**names))
    assert (plant.invariant, plant.table, plant.row.format(**names)) in _found(forger, plant.within)


def test_every_invariant_has_a_plant() -> None:
    assert {check.invariant for check in CHECKS} == {plant.invariant for plant in PLANTS}


LONG_VALUES = sorted(name for name, value in VALUES.items() if value is not None and len(value) >= 6)
TELLING = [
    "jsonb_build_object('told', cast(:value AS text))",
    "jsonb_build_array(1, jsonb_build_array(cast(:value AS text)))",
]


@pytest.mark.parametrize("name", LONG_VALUES)
@pytest.mark.parametrize("evidence", TELLING)
def test_a_value_of_the_inputs_in_the_history_is_found(
    forger: Connection, names: Names, name: str, evidence: str
) -> None:
    """However it is escaped, wherever it stands, and inside a longer text too."""
    forger.execute(text(f"UPDATE event SET evidence = {evidence} WHERE seq = 3"), {"value": f"told: {VALUES[name]}!"})
    assert ("I16", "event", f"{names['run']}/3") in _found(forger)


def test_names_of_fields_and_short_values_are_no_leak(forger: Connection) -> None:
    told = """{"problems": ["legal_form: missing", "DE"], "bank_holder": 1}"""
    forger.execute(text("UPDATE event SET evidence = cast(:told AS jsonb) WHERE seq = 3"), {"told": told})
    assert [row for row in _found(forger) if row[0] == "I16"] == []


def test_queued_revisions_wait_on_purpose(forger: Connection) -> None:
    forger.execute(
        text("UPDATE run SET state = 'queued', engine_health = 'not_started', kind = 'revision', from_run = id")
    )
    assert [row for row in _found(forger, NOW) if row[0] == "I14"] == []


def test_values_of_another_request_are_no_leak(book: Book, reviewer: Actor) -> None:
    book.straight(reviewer)
    other = book.accept_trigger("777")
    book.snapshot(other, name="Entirely Different Ltd")
    with book.forged() as connection:
        connection.execute(
            """UPDATE event SET evidence = '{"a": "Entirely Different Ltd"}' WHERE seq = 3 AND run_id <> %s""", [other]
        )
    assert [found for found in book.audit() if found.invariant == "I16"] == []


def test_an_audit_locks_nobody_out(book: Book, reviewer: Actor) -> None:
    """What commits meanwhile waits for nothing, and what was broken before is found all the same."""
    before = book.straight(reviewer)
    with book.forged() as connection:
        connection.execute("UPDATE subject_link SET live = false")
        connection.execute("UPDATE run SET reason = 'other'")
    with book.store.reading() as connection:
        found = violations(connection)
        first = next(found)
        later = book.straight(reviewer, "502")
        with book.forged() as forger:
            forger.execute("SET lock_timeout = '1s'")
            forger.execute("LOCK TABLE notification IN ACCESS EXCLUSIVE MODE")
            forger.execute("UPDATE run SET reason = 'other' WHERE id = %s", [later])
        assert {before} <= {violation.row for violation in (first, *found)}
    assert later in {violation.row for violation in book.audit()}


@pytest.mark.parametrize("rows", [1, 2, 7, 1000])
def test_in_parts_the_same_is_found_as_at_once(
    book: Book, reviewer: Actor, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """Parts end between two runs, wherever the rows are counted off."""
    monkeypatch.setattr(check, "PART", rows)
    runs = [book.straight(reviewer, object_id) for object_id in ("501", "502", "503")]
    assert book.audit() == []
    with book.forged() as connection:
        connection.execute("UPDATE event SET at = at - interval '1 minute' WHERE seq = 3")
        connection.execute("UPDATE attempt SET decision_id = NULL WHERE number = 1")
    found = sorted(violation.row for violation in book.audit())
    sends = [row[0] for row in book.rows("SELECT operation_key || '/1' FROM attempt")]
    assert found == sorted([*(f"{run}/3" for run in runs), *sends])


def test_the_text_of_an_event_is_what_its_hash_was_made_of(book: Book, reviewer: Actor, forger: Connection) -> None:
    """For every column, empty or not, and whatever its evidence holds."""
    told = """{"no": null, "text": "quote \\" back \\\\ slash \\u00e9 \\n", "deep": [{"no": null, "n": 1.50}]}"""
    forger.execute(
        text("UPDATE event SET evidence = cast(:told AS jsonb), reason = :odd, deadline = at, next_owner = 'a\"b'"),
        {"told": told, "odd": "tab\tä€😀"},
    )
    forger.execute(text("UPDATE event SET hash = event_hash(event)"))
    other = text(
        "SELECT count(*) FROM event e WHERE hash <> sha256(previous_hash || convert_to(event_text(e), 'UTF8'))"
    )
    assert forger.execute(other).scalar_one() == 0
    assert book.straight(reviewer)
    assert book.rows(str(other))[0][0] == 0


def test_the_text_of_an_event_names_every_column(forger: Connection) -> None:
    forger.execute(text("UPDATE event SET deadline = at, next_owner = 'operator' WHERE seq = 3"))
    keys = text("SELECT jsonb_object_keys(cast(event_text(e) AS jsonb)) FROM event e WHERE seq = 3")
    named = forger.execute(keys).scalars()
    columns = forger.execute(
        text("SELECT column_name FROM information_schema.columns WHERE table_name = 'event'")
    ).scalars()
    assert {*named, "hash", "previous_hash"} == set(columns)
