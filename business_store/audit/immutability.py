"""I3: what was recorded stays as it was, and proves it."""

from __future__ import annotations

from dataclasses import dataclass

from business_store.audit.check import Check

INSERT_ONLY = (
    *("answer", "attempt", "callback", "carry_over", "decision", "dispatch", "engine_execution", "erased_receipt"),
    *("erased_request", "erasure", "event", "input_version", "notification", "permitted_move", "policy_version"),
    *("probe", "reading", "receipt", "refused_decision", "resolution", "revocation", "version_maker"),
)
"""Tables whose rows never go and never change, but for contents that a recorded erasure empties."""

GUARDS = (
    *(("event", "event_chain"), ("event", "event_moves_run"), ("event", "event_notifies"), ("run", "run_last_event")),
    *(("run", "run_guard"), ("operation", "operation_guard"), ("attempt", "attempt_guard")),
    *(("attempt", "dispatch_guard"), ("decision", "decision_four_eyes"), ("revocation", "revocation_proves")),
    *(("delivery", "contents_kept"), ("operation", "contents_kept")),
    *(("erased_request", "erasure_guard"), ("erased_receipt", "erasure_guard")),
    ("actor", "actor_guard"),
)
"""Triggers without which a promise would rest on code alone."""


@dataclass(frozen=True, slots=True)
class Payload:
    """A column with contents, what proves it, and what names its row. `encoded` are the bytes that were hashed."""

    table: str
    column: str
    digest: str
    key: str
    encoded: str = ""

    def check(self) -> Check:
        """Its bytes are what they were; those that are gone cannot be others."""
        key, taken = f"cast({self.key} AS text)", self.encoded or self.column
        query = (
            f"SELECT {key}, '{self.column} has another hash' FROM {self.table} WHERE sha256({taken}) <> {self.digest}"
        )
        return Check("I3", self.table, f"{self.column} is what it was", query)


PAYLOADS = (
    Payload("receipt", "body", "body_sha256", "id"),
    Payload("policy_version", "document", "sha256", "process || ' ' || version"),
    Payload("input_version", "canonical", "decode(fingerprint, 'hex')", "request_id || '/' || number"),
    Payload("delivery", "inputs", "inputs_sha256", "id"),
    Payload("decision", "comment", "comment_sha256", "id"),
    Payload("revocation", "reason", "reason_sha256", "decision_id", "convert_to(reason, 'UTF8')"),
    Payload("operation", "content", "content_sha256", "key"),
    Payload("reading", "content", "sha256", "id"),
    Payload("resolution", "reason", "reason_sha256", "id"),
    Payload("resolution", "evidence", "evidence_sha256", "id"),
)
"""Every column that holds payload."""

ERASABLE = tuple(payload for payload in PAYLOADS if payload.table != "policy_version")
"""Those that a recorded erasure empties; policy versions are no personal data and stay."""


def _rows(pairs: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"('{table}', '{trigger}')" for table, trigger in pairs)


_TRIGGERS = tuple((table, trigger) for table in INSERT_ONLY for trigger in ("insert_only", "no_truncate")) + GUARDS
_TABLES = ", ".join(f"('{table}')" for table in INSERT_ONLY)

IMMUTABILITY = (
    *(payload.check() for payload in PAYLOADS),
    Check(
        "I3",
        "event",
        "an event is what it was",
        """
        SELECT e.run_id || '/' || e.seq, 'has another hash' FROM event e WHERE PART(e.run_id)
        AND e.hash <> sha256(e.previous_hash || convert_to(event_text(e), 'UTF8')) AND e.hash <> event_hash(e)
        """,
    ),
    Check(
        "I3",
        "event",
        "the chain of hashes holds",
        """
        SELECT e.run_id || '/' || e.seq, 'the hash chain is broken' FROM event e
        LEFT JOIN event former ON former.run_id = e.run_id AND former.seq = e.seq - 1 AND PART(former.run_id)
        WHERE PART(e.run_id) AND e.previous_hash <> coalesce(former.hash, sha256(convert_to(e.run_id, 'UTF8')))
        """,
    ),
    Check(
        "I3",
        "event",
        "a permit names the bytes that it permits",
        """
        SELECT e.run_id || '/' || e.seq, 'names other bytes than ' || coalesce(o.key, 'any operation')
        FROM event e LEFT JOIN operation o ON o.key = e.evidence ->> 'operation'
        WHERE PART(e.run_id) AND e.reason = 'permitted'
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
