"""I3, where contents may be gone: by a recorded erasure alone, of what was over, by a role that can do nothing else."""

from __future__ import annotations

from business_store.audit.check import OPEN, Check
from business_store.audit.immutability import ERASABLE

_ERASED = """
    SELECT {whose}, max(x.cutoff) AS cutoff FROM {table} e JOIN erasure x ON x.id = e.erasure_id GROUP BY {whose}
"""
_COLUMNS = ", ".join(f"('{payload.table}', '{payload.column}')" for payload in ERASABLE)
_MAY_INSERT = "('erasure', 'erased_request', 'erased_receipt')"


def _recorded(table: str) -> Check:
    query = f"""
        SELECT p.key, CASE WHEN p.gone THEN 'its content is gone and no erasure says so'
            ELSE 'its content is there although its erasure was recorded' END
        FROM payload p
        LEFT JOIN ({_ERASED.format(whose="request_id", table="erased_request")}) q ON q.request_id = p.request_id
        LEFT JOIN ({_ERASED.format(whose="receipt_id", table="erased_receipt")}) r ON r.receipt_id = p.receipt_id
        WHERE p.held_in = '{table}' AND p.gone <> coalesce(p.at < q.cutoff, p.at < r.cutoff, false)
    """
    return Check("I3", table, "contents go by recorded erasure alone", query)


RETENTION = (
    *(_recorded(table) for table in sorted({payload.table for payload in ERASABLE})),
    Check(
        "I3",
        "erasure",
        "one role erases",
        "SELECT cast(id AS text), 'was recorded by ' || role FROM erasure WHERE role <> 'counterfoil_retention'",
    ),
    Check(
        "I3",
        "erased_request",
        "what is erased was over",
        f"""
        SELECT e.request_id, format('erased by %s, and run %s was not over at its cutoff', x.id, run.id)
        FROM erased_request e JOIN erasure x ON x.id = e.erasure_id JOIN run ON run.request_id = e.request_id
        WHERE run.created_at < x.cutoff AND ({OPEN} OR run.state_since >= x.cutoff)
        UNION ALL
        SELECT e.request_id, format('erased by %s, and operation %s is unknown', x.id, o.key)
        FROM erased_request e JOIN erasure x ON x.id = e.erasure_id JOIN operation o ON o.request_id = e.request_id
        WHERE o.created_at < x.cutoff AND o.outcome = 'unknown'
        """,
    ),
    Check(
        "I3",
        "pg_class",
        "the retention role may only record and empty",
        f"""
        SELECT c.relname, 'the retention role may ' || lower(asked.privilege) || ' more than contents'
        FROM pg_roles r, pg_class c, (VALUES ('INSERT'), ('UPDATE'), ('DELETE'), ('TRUNCATE'), ('TRIGGER'))
            AS asked (privilege)
        WHERE r.rolname = 'counterfoil_retention' AND c.relnamespace = 'public'::regnamespace
        AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND has_table_privilege(r.oid, c.oid, asked.privilege)
        AND NOT (asked.privilege = 'INSERT' AND c.relname IN {_MAY_INSERT})
        UNION ALL
        SELECT c.relname || '.' || a.attname, 'the retention role may ' || lower(asked.privilege) || ' this column'
        FROM pg_roles r, pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped,
            (VALUES ('INSERT'), ('UPDATE'), ('SELECT')) AS asked (privilege)
        WHERE r.rolname = 'counterfoil_retention' AND c.relnamespace = 'public'::regnamespace
        AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND has_column_privilege(r.oid, c.oid, a.attnum, asked.privilege)
        AND CASE asked.privilege WHEN 'INSERT' THEN c.relname NOT IN {_MAY_INSERT}
            ELSE ((c.relname, a.attname) IN ({_COLUMNS})) = (asked.privilege = 'SELECT') END
        """,
    ),
    Check(
        "I3",
        "pg_roles",
        "application and retention are nobody else",
        """
        SELECT r.rolname, 'may act as somebody with more rights' FROM pg_roles r
        WHERE r.rolname IN ('counterfoil_app', 'counterfoil_retention') AND (
            r.rolsuper OR r.rolcreaterole OR r.rolcreatedb OR r.rolbypassrls OR r.rolreplication
            OR EXISTS (SELECT FROM pg_auth_members m WHERE m.member = r.oid))
        """,
    ),
)
