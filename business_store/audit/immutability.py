"""I3: what was recorded stays as it was, and proves it."""

from __future__ import annotations

from business_store.audit.check import Check

INSERT_ONLY = (
    *("answer", "attempt", "carry_over", "decision", "dispatch", "engine_execution", "event", "input_version"),
    *("notification", "permitted_move", "policy_version", "probe", "reading", "receipt", "refused_decision"),
    *("resolution", "revocation", "version_maker"),
)
"""Tables whose rows never change and never go."""

GUARDS = (
    *(("event", "event_chain"), ("event", "event_moves_run"), ("event", "event_notifies"), ("run", "run_last_event")),
    *(("run", "run_guard"), ("operation", "operation_guard"), ("attempt", "attempt_guard")),
    *(("attempt", "dispatch_guard"), ("decision", "decision_four_eyes")),
)
"""Triggers without which a promise would rest on code alone."""

PAYLOADS = (
    *(("receipt", "body", "body_sha256", "id"), ("policy_version", "document", "sha256", "process || ' ' || version")),
    ("input_version", "canonical", "decode(fingerprint, 'hex')", "request_id || '/' || number"),
    *(("delivery", "inputs", "inputs_sha256", "id"), ("decision", "comment", "comment_sha256", "id")),
    *(("operation", "content", "content_sha256", "key"), ("reading", "content", "sha256", "id")),
    *(("resolution", "reason", "reason_sha256", "id"), ("resolution", "evidence", "evidence_sha256", "id")),
)
"""Every column that holds payload: table, column, what proves it, row."""


def _hash(table: str, column: str, digest: str, key: str) -> Check:
    query = f"SELECT cast({key} AS text), '{column} has another hash' FROM {table} WHERE sha256({column}) <> {digest}"
    return Check("I3", table, f"{column} is what it was", query)


def _rows(pairs: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"('{table}', '{trigger}')" for table, trigger in pairs)


_TRIGGERS = tuple((table, trigger) for table in INSERT_ONLY for trigger in ("insert_only", "no_truncate")) + GUARDS
_TABLES = ", ".join(f"('{table}')" for table in INSERT_ONLY)

IMMUTABILITY = (
    *(_hash(*payload) for payload in PAYLOADS),
    Check(
        "I3",
        "event",
        "the chain of hashes holds",
        """
        SELECT e.run_id || '/' || e.seq, 'the hash chain is broken'
        FROM event e LEFT JOIN event former ON former.run_id = e.run_id AND former.seq = e.seq - 1
        WHERE e.hash <> event_hash(e)
        OR e.previous_hash <> coalesce(former.hash, sha256(convert_to(e.run_id, 'UTF8')))
        """,
    ),
    Check(
        "I3",
        "event",
        "a permit names the bytes that it permits",
        """
        SELECT e.run_id || '/' || e.seq, 'names other bytes than ' || coalesce(o.key, 'any operation')
        FROM event e LEFT JOIN operation o ON o.key = e.evidence ->> 'operation' WHERE e.reason = 'permitted'
        AND encode(o.content_sha256, 'hex') IS DISTINCT FROM e.evidence ->> 'content_sha256'
        """,
    ),
    Check(
        "I3",
        "pg_trigger",
        "the triggers stand and are enabled",
        f"""
        SELECT wanted.relation || '.' || wanted.trigger, CASE WHEN t.oid IS NULL THEN 'missing' ELSE 'disabled' END
        FROM (VALUES {_rows(_TRIGGERS)}) AS wanted (relation, trigger)
        LEFT JOIN pg_trigger t ON t.tgrelid = to_regclass(wanted.relation) AND t.tgname = wanted.trigger
        WHERE t.oid IS NULL OR t.tgenabled NOT IN ('O', 'A')
        """,
    ),
    Check(
        "I3",
        "pg_class",
        "the application may only add",
        f"""
        SELECT relation, 'the application may change or remove rows'
        FROM (VALUES {_TABLES}) AS held (relation) JOIN pg_roles ON rolname = 'counterfoil_app'
        WHERE has_table_privilege('counterfoil_app', relation, 'UPDATE, DELETE, TRUNCATE')
        """,
    ),
)
