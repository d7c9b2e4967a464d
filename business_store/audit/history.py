"""I1, I2, I4, I5: one request for one intent, and runs that are what their events say."""

from __future__ import annotations

from business_store.audit.check import OPEN, Check

HISTORY = (
    Check(
        "I1",
        "request",
        "one request for a business key",
        """
        SELECT string_agg(id, ' ' ORDER BY id), count(*) || ' requests of one process share a business key'
        FROM request GROUP BY process, business_key HAVING count(*) > 1
        """,
    ),
    Check(
        "I1",
        "request",
        "business keys are in their normal form",
        """
        SELECT id, 'the business key is not in its normal form' FROM request
        WHERE business_key IS NOT NFC NORMALIZED OR business_key <> btrim(business_key, ' ')
        OR length(business_key) NOT BETWEEN 1 AND 512
        """,
    ),
    Check(
        "I1",
        "request",
        "one original run, one open run",
        f"""
        SELECT request_id, format('%s original runs, %s open runs', originals, open) FROM (
            SELECT request_id, count(*) FILTER (WHERE kind = 'original') AS originals,
                count(*) FILTER (WHERE {OPEN} AND kind <> 'rehearsal') AS open FROM run GROUP BY request_id
        ) counted WHERE originals > 1 OR open > 1
        """,
    ),
    Check(
        "I1",
        "request",
        "one live subject",
        """
        SELECT r.id, count(l.id) || ' live subjects' FROM request r
        LEFT JOIN subject_link l ON l.request_id = r.id AND l.live GROUP BY r.id HAVING count(l.id) <> 1
        """,
    ),
    Check(
        "I2",
        "run",
        "a run is what its last event says",
        """
        SELECT run.id, format('state %s at %s, last event %s at %s of %s', run.state, run.seq, e.next, e.last, e.events)
        FROM run LEFT JOIN LATERAL (
            SELECT count(*) AS events, max(seq) AS last, (array_agg(next ORDER BY seq DESC))[1] AS next,
                (array_agg(reason ORDER BY seq DESC))[1] AS reason
            FROM event WHERE run_id = run.id
        ) e ON true
        WHERE PART(run.id)
        AND ((run.state, run.reason, run.seq) IS DISTINCT FROM (e.next, e.reason, e.last) OR e.events <> run.seq)
        """,
    ),
    Check(
        "I2",
        "event",
        "events follow on each other",
        """
        SELECT e.run_id || '/' || e.seq, format('follows on %s, which was %s', e.previous, former.next)
        FROM event e
        LEFT JOIN event former ON former.run_id = e.run_id AND former.seq = e.seq - 1 AND PART(former.run_id)
        WHERE PART(e.run_id) AND (e.previous IS DISTINCT FROM former.next OR (e.seq = 1 AND e.next <> 'queued'))
        """,
    ),
    Check(
        "I2",
        "event",
        "every move is permitted",
        """
        SELECT e.run_id || '/' || e.seq, format('%s may not move a run from %s to %s', e.actor_kind, e.previous, e.next)
        FROM event e LEFT JOIN permitted_move m USING (actor_kind, previous, next)
        WHERE PART(e.run_id) AND e.previous IS NOT NULL AND m.next IS NULL
        """,
    ),
    Check(
        "I4",
        "event",
        "every event says all that it must",
        """
        SELECT e.run_id || '/' || e.seq, concat_ws(', ',
            CASE WHEN e.request_id <> run.request_id THEN 'another subject' END,
            CASE WHEN e.correlation_id <> run.correlation_id THEN 'another correlation id' END,
            CASE WHEN e.step = '' THEN 'no step' END,
            CASE WHEN e.reason = '' THEN 'no reason' END,
            CASE WHEN e.actor_id = '' OR e.actor_kind = '' THEN 'no actor' END,
            CASE WHEN e.workflow_version = '' THEN 'no workflow version' END,
            CASE WHEN p.version IS NULL THEN 'unknown policy version' END,
            CASE WHEN e.next IN ('needs_operator', 'awaiting_review') AND coalesce(e.next_owner, '') = ''
                THEN 'no next owner' END)
        FROM event e JOIN run ON run.id = e.run_id
        LEFT JOIN policy_version p ON p.process = run.process AND p.version = e.policy_version
        WHERE PART(e.run_id) AND (e.request_id <> run.request_id OR e.correlation_id <> run.correlation_id
        OR p.version IS NULL OR '' IN (e.step, e.reason, e.actor_id, e.actor_kind, e.workflow_version)
        OR (e.next IN ('needs_operator', 'awaiting_review') AND coalesce(e.next_owner, '') = ''))
        """,
    ),
    Check(
        "I5",
        "run",
        "nothing is in doubt when a run is over",
        f"""
        SELECT run.id, format('%s while %s is %s', run.state, o.key,
            CASE WHEN o.in_flight_attempt IS NULL THEN 'unknown' ELSE 'in flight' END)
        FROM operation o JOIN run ON run.id = o.run_id
        WHERE (o.outcome = 'unknown' OR o.in_flight_attempt IS NOT NULL) AND NOT ({OPEN})
        """,
    ),
    Check(
        "I5",
        "event",
        "what is over stays over",
        """
        SELECT run_id || '/' || seq, 'moved on from ' || previous FROM event
        WHERE previous IN ('succeeded', 'failed', 'canceled', 'suppressed', 'expired')
        """,
    ),
    Check(
        "I5",
        "run",
        "every end has a reason",
        f"SELECT run.id, run.state || ' without a reason' FROM run WHERE btrim(run.reason) = '' AND NOT ({OPEN})",
    ),
)
