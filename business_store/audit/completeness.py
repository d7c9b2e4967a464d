"""I14, I16: nothing was forgotten, and nothing from the inputs is where the engine or a log could show it."""

from __future__ import annotations

from business_store.audit.check import OPEN, Check

_EXECUTED = "run.kind IN ('original', 'rehearsal', 'repair')"
"""Revisions and reversals are queued on purpose: no workflow carries them out yet."""
_OLD = "now() - cast(:older_than AS interval)"

_STRINGS = r"""
    SELECT v.request_id, v.number, found.parts[1] AS value
    FROM input_version v,
        regexp_matches(encode(v.canonical, 'escape'), '"((?:[^"\\]|\\[0-7]{3}|\\\\(?:\\\\|[^\\]))*)"(:)?', 'g')
        AS found (parts)
    WHERE found.parts[2] IS NULL
    AND length(regexp_replace(regexp_replace(found.parts[1], '\\2[0-7]{2}', '', 'g'), '\\3[0-7]{2}', 'x', 'g')) >= 6
"""
"""String values of six characters or more as they stand in the canonical JSON, bytes above ASCII in octal. jsonb
escapes the same characters in the same way, and unlike jsonb this can hold every value, NUL included."""

COMPLETENESS = (
    Check(
        "I14",
        "request",
        "no request without a run",
        """
        SELECT r.id, 'nothing was ever started for it' FROM request r
        WHERE NOT EXISTS (SELECT FROM run WHERE run.request_id = r.id)
        """,
    ),
    Check(
        "I14",
        "decision",
        "no decision that nobody acts on",
        f"""
        SELECT d.id, 'recorded, and run ' || run.id || ' still waits for it'
        FROM run JOIN review w ON w.run_id = run.id JOIN decision d ON d.review_id = w.id
        WHERE run.state = 'awaiting_review' AND d.decided_at > run.state_since AND d.decided_at < {_OLD}
        """,
    ),
    Check(
        "I14",
        "run",
        "no run without an execution",
        f"""
        SELECT run.id, format('%s, and its execution is %s', run.state, run.engine_health) FROM run
        WHERE {OPEN} AND {_EXECUTED} AND run.engine_checked_at < {_OLD}
        AND (run.engine_health = 'not_started' OR (run.engine_health = 'lost' AND run.state <> 'needs_operator'))
        """,
    ),
    Check(
        "I14",
        "run",
        "no execution that nobody looks at",
        f"""
        SELECT run.id, format('%s, and nobody has looked at its execution since %s', run.state, run.engine_checked_at)
        FROM run WHERE {OPEN} AND {_EXECUTED} AND run.engine_health IN ('ok', 'stuck')
        AND run.engine_checked_at < least({_OLD}, now() - interval '2 hours')
        """,
    ),
    Check(
        "I14",
        "run",
        "no hint that never arrived",
        f"""
        SELECT run.id, run.nudge - run.nudge_seen || ' hints that its execution has not seen' FROM run
        WHERE run.nudge_seen < run.nudge AND {OPEN} AND {_EXECUTED} AND run.nudged_at < {_OLD}
        """,
    ),
    Check(
        "I14",
        "callback_delivery",
        "no callback that nobody acts on",
        f"""
        SELECT cast(d.id AS text), 'is evidence of ' || coalesce(k.operation_key, 'nothing') || ', and nothing followed'
        FROM callback_delivery d LEFT JOIN callback k ON k.delivery_id = d.id
        WHERE d.disposition = 'matched' AND d.received_at < {_OLD}
        """,
    ),
    Check(
        "I16",
        "event",
        "nothing from the inputs in the history",
        f"""
        WITH said AS MATERIALIZED (
            SELECT run.request_id, e.run_id, e.seq, encode(convert_to(cast(word AS text), 'UTF8'), 'escape') AS word
            FROM event e JOIN run ON run.id = e.run_id,
                jsonb_path_query(e.evidence, 'strict $.** ? (@.type() == "string")') AS word
            WHERE PART(e.run_id) AND cast(word AS text) !~ '^"[0-9a-f]{{64}}"$'
        )
        SELECT DISTINCT said.run_id || '/' || said.seq, 'holds a value of input version ' || input.number
        FROM said JOIN ({_STRINGS}) input USING (request_id) WHERE strpos(said.word, input.value) > 0
        """,
    ),
    Check(
        "I16",
        "event",
        "reasons are codes",
        """
        SELECT run_id || '/' || seq, 'its reason is not a code' FROM event WHERE reason !~ '^[a-z][a-z0-9_.:-]*$'
        """,
    ),
)
