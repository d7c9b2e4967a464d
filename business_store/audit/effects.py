"""I8 to I13: what was sent, once, for whom, how it ended, and what was never sent."""

from __future__ import annotations

from business_store.audit.check import Check

_SIGHTINGS = """
    SELECT n.operation_key, n.reference, n.recorded_at FROM answer n WHERE n.signal = 'accepted'
    UNION ALL
    SELECT p.operation_key, p.reference, p.recorded_at FROM probe p WHERE p.found = 'one'
    UNION ALL
    SELECT k.operation_key, k.reference, k.recorded_at FROM callback k WHERE k.ours
"""
"""Everything that says an effect exists outside."""

_PROVES_NOTHING_DONE = "(n.signal IN ('not_sent', 'rejected') OR (n.signal = 'throttled' AND n.refused))"

_RESOLVED = """
    EXISTS (SELECT FROM resolution s WHERE o.settled_by = 'operator:' || s.id AND s.operation_key = o.key
    AND s.action = '{action}')
"""

EFFECTS = (
    Check(
        "I8",
        "attempt",
        "the same bytes every time",
        """
        SELECT a.operation_key || '/' || a.number, 'sent other bytes than its operation has'
        FROM attempt a JOIN operation o ON o.key = a.operation_key WHERE a.content_sha256 <> o.content_sha256
        """,
    ),
    Check(
        "I8",
        "attempt",
        "one attempt in flight at a time",
        """
        SELECT later.operation_key || '/' || later.number, 'sent while the former attempt was in flight'
        FROM attempt a JOIN attempt later ON later.operation_key = a.operation_key AND later.number = a.number + 1
        WHERE later.permitted_at < a.lease_until AND NOT EXISTS (SELECT FROM answer n
            WHERE n.operation_key = a.operation_key AND n.attempt = a.number AND n.recorded_at <= later.permitted_at)
        """,
    ),
    Check(
        "I8",
        "operation",
        "no operation without its permits",
        """
        SELECT o.key, format('%s attempts, the last %s, in flight %s', count(a.number), max(a.number),
            o.in_flight_attempt)
        FROM operation o LEFT JOIN attempt a ON a.operation_key = o.key GROUP BY o.key
        HAVING count(a.number) = 0 OR count(a.number) <> max(a.number) OR o.in_flight_attempt <> max(a.number)
        """,
    ),
    Check(
        "I8",
        "dispatch",
        "one request carries attempts of one kind",
        """
        SELECT d.id, format('is of %s.%s and carries %s', d.system, d.kind, coalesce(string_agg(DISTINCT
            format('%s.%s', o.system, o.kind), ', '), 'nothing'))
        FROM dispatch d LEFT JOIN attempt a ON a.dispatch_id = d.id LEFT JOIN operation o ON o.key = a.operation_key
        GROUP BY d.id HAVING bool_and((o.system, o.kind) = (d.system, d.kind)) IS NOT TRUE
        """,
    ),
    Check(
        "I8",
        "answer",
        "the permit came first",
        """
        SELECT n.id, 'was recorded before its attempt was permitted'
        FROM answer n JOIN attempt a ON a.operation_key = n.operation_key AND a.number = n.attempt
        WHERE n.recorded_at < a.permitted_at
        """,
    ),
    Check(
        "I8",
        "attempt",
        "no permit for a superseded execution",
        """
        SELECT a.operation_key || '/' || a.number, format('permitted to epoch %s after epoch %s had taken the run over',
            a.epoch, newer.epoch)
        FROM attempt a JOIN engine_execution newer ON newer.run_id = a.run_id AND newer.epoch > a.epoch
        AND newer.seen_at < a.permitted_at
        """,
    ),
    Check(
        "I9",
        "operation",
        "a new generation only after proof",
        """
        SELECT o.key, 'generation ' || o.generation || ' after one that is ' || coalesce(former.outcome, 'missing')
        FROM operation o LEFT JOIN operation former ON former.request_id = o.request_id AND former.step = o.step
        AND former.item = o.item AND former.generation = o.generation - 1
        WHERE o.generation > 1 AND coalesce(former.outcome, '') NOT IN ('rejected', 'not_sent')
        """,
    ),
    Check(
        "I9",
        "attempt",
        "nothing is sent for what exists",
        f"""
        SELECT DISTINCT a.operation_key || '/' || a.number, 'sent although ' || seen.operation_key || ' exists'
        FROM ({_SIGHTINGS}) seen JOIN operation known ON known.key = seen.operation_key
        JOIN operation o ON (o.request_id, o.step, o.item) = (known.request_id, known.step, known.item)
        AND o.updates_version IS NOT DISTINCT FROM known.updates_version
        JOIN attempt a ON a.operation_key = o.key AND a.permitted_at >= seen.recorded_at
        """,
    ),
    Check(
        "I10",
        "run",
        "nothing leaves a rehearsal",
        """
        SELECT run.id, 'a rehearsal with an operation, an attempt, a review, a notification or a projection' FROM run
        WHERE run.kind = 'rehearsal' AND (run.projected_seq > 0
            OR EXISTS (SELECT FROM operation WHERE run_id = run.id)
            OR EXISTS (SELECT FROM attempt WHERE run_id = run.id)
            OR EXISTS (SELECT FROM review WHERE run_id = run.id)
            OR EXISTS (SELECT FROM notification WHERE run_id = run.id))
        """,
    ),
    Check(
        "I10",
        "operation",
        "every effect has its run and policy version",
        """
        SELECT o.key, 'belongs to another request than its run, or to a policy version that nobody recorded'
        FROM operation o LEFT JOIN run ON run.id = o.run_id
        LEFT JOIN policy_version p ON p.process = run.process AND p.version = o.policy_version
        WHERE run.request_id IS DISTINCT FROM o.request_id OR p.version IS NULL
        """,
    ),
    Check(
        "I10",
        "attempt",
        "every send has its run",
        """
        SELECT a.operation_key || '/' || a.number, 'sent by a run of another request'
        FROM attempt a JOIN operation o ON o.key = a.operation_key LEFT JOIN run ON run.id = a.run_id
        WHERE run.request_id IS DISTINCT FROM o.request_id
        """,
    ),
    Check(
        "I11",
        "operation",
        "only evidence or a resolution settles",
        f"""
        SELECT o.key, format('%s by %s, which nothing recorded bears out', o.outcome, coalesce(nullif(o.settled_by, ''),
            'nobody')) FROM operation o
        WHERE CASE o.outcome
            WHEN 'accepted' THEN NOT {_RESOLVED.format(action="confirm")} AND (o.settled_by <> 'evidence'
                OR NOT EXISTS (SELECT FROM answer n WHERE n.operation_key = o.key AND n.signal = 'accepted'
                    AND n.reference = o.reference)
                AND NOT EXISTS (SELECT FROM probe p WHERE p.operation_key = o.key AND p.found = 'one'
                    AND p.reference = o.reference)
                AND NOT EXISTS (SELECT FROM callback k WHERE k.operation_key = o.key AND k.ours
                    AND k.reference = o.reference))
            WHEN 'rejected' THEN NOT EXISTS (SELECT FROM answer n WHERE n.operation_key = o.key
                AND n.signal = 'rejected' AND o.settled_by = left('answer:' || n.code, 200))
            WHEN 'not_sent' THEN NOT {_RESOLVED.format(action="not_executed")} AND (o.settled_by <> 'answer'
                OR EXISTS (SELECT FROM attempt a WHERE a.operation_key = o.key AND NOT EXISTS (SELECT FROM answer n
                    WHERE n.operation_key = o.key AND n.attempt = a.number AND {_PROVES_NOTHING_DONE})))
            WHEN 'written_off' THEN NOT {_RESOLVED.format(action="write_off")} OR NOT EXISTS (
                SELECT FROM resolution s JOIN resolution proposed ON proposed.operation_key = s.operation_key
                WHERE o.settled_by = 'operator:' || s.id AND proposed.action = 'propose_write_off'
                AND person_behind(proposed.actor_id) <> person_behind(s.actor_id))
            ELSE false END
        """,
    ),
    Check(
        "I11",
        "operation",
        "contradicting evidence is before a person",
        f"""
        SELECT DISTINCT o.key, format('%s although it was seen outside', o.outcome)
        FROM ({_SIGHTINGS}) seen JOIN operation o ON o.key = seen.operation_key
        WHERE o.outcome IN ('rejected', 'not_sent') AND seen.recorded_at < now() - cast(:older_than AS interval)
        AND NOT EXISTS (SELECT FROM run WHERE run.request_id = o.request_id
            AND run.state IN ('needs_operator', 'canceling'))
        AND NOT EXISTS (SELECT FROM run JOIN event e ON e.run_id = run.id WHERE run.request_id = o.request_id
            AND e.reason = 'contradicting_evidence' AND e.at >= seen.recorded_at)
        """,
    ),
    Check(
        "I12",
        "run",
        "success was read back",
        """
        SELECT run.id, 'succeeded without an agreeing reading of ' || o.key
        FROM run JOIN event e ON e.run_id = run.id AND e.seq = run.seq
        JOIN operation o ON o.request_id = run.request_id AND o.outcome = 'accepted' AND o.created_at <= e.at
        WHERE PART(run.id) AND run.state = 'succeeded' AND run.kind <> 'rehearsal' AND coalesce((
            SELECT g.agrees FROM reading g WHERE g.run_id = run.id AND g.purpose = 'agreement'
            AND (g.system, g.reference) = (o.system, o.reference) ORDER BY g.id DESC LIMIT 1), false) = false
        """,
    ),
    Check(
        "I13",
        "attempt",
        "nothing is permitted after a cancel",
        """
        SELECT a.operation_key || '/' || a.number, 'permitted after the run was asked to stop'
        FROM attempt a JOIN run ON run.id = a.run_id WHERE a.permitted_at >= run.cancel_requested_at
        """,
    ),
    Check(
        "I13",
        "run",
        "stopped means asked to stop",
        """
        SELECT run.id, run.state || ' although nobody asked it to stop' FROM run
        WHERE run.state IN ('canceling', 'canceled') AND run.cancel_requested_at IS NULL
        """,
    ),
)
