"""I6, I7: decisions answer one question, and nothing was sent that nobody else approved."""

from __future__ import annotations

from business_store.audit.check import Check

APPROVALS = (
    Check(
        "I6",
        "decision",
        "a decision answers its review",
        """
        SELECT d.id, CASE
            WHEN (d.run_id, d.request_id, d.version, d.fingerprint)
                <> (w.run_id, w.request_id, w.version, w.fingerprint) THEN 'is about something else than its review'
            WHEN v.fingerprint IS DISTINCT FROM d.fingerprint THEN 'is about other bytes than its version'
            WHEN w.status <> 'decided' THEN 'its review is ' || w.status
            ELSE 'was recorded outside the time of its review' END
        FROM decision d JOIN review w ON w.id = d.review_id
        LEFT JOIN input_version v ON v.request_id = d.request_id AND v.number = d.version
        WHERE (d.run_id, d.request_id, d.version, d.fingerprint) <> (w.run_id, w.request_id, w.version, w.fingerprint)
        OR v.fingerprint IS DISTINCT FROM d.fingerprint OR w.status <> 'decided'
        OR d.decided_at < w.opened_at OR d.decided_at >= w.deadline OR d.decided_at > w.closed_at
        """,
    ),
    Check(
        "I6",
        "review",
        "one outcome for a review",
        """
        SELECT w.id, w.status || ' with ' || count(d.id) || ' decisions'
        FROM review w LEFT JOIN decision d ON d.review_id = w.id GROUP BY w.id
        HAVING count(d.id) > 1 OR (w.status = 'decided') <> (count(d.id) = 1)
        """,
    ),
    Check(
        "I7",
        "actor",
        "one step leads from a service to its person, and one from a CRM user to either",
        """
        SELECT a.id, behind.kind || ' ' || behind.id || ' stands behind this ' || a.kind
        FROM actor a JOIN actor behind ON behind.id IN (a.acts_for, a.merged_into)
        WHERE (behind.id = a.acts_for AND (a.kind <> 'service' OR behind.kind <> 'person'))
        OR (behind.id = a.merged_into AND behind.kind NOT IN ('person', 'service'))
        """,
    ),
    Check(
        "I7",
        "attempt",
        "every send was approved at that instant",
        """
        WITH behind AS MATERIALIZED (SELECT id, person_behind(id) AS person FROM actor)
        SELECT operation_key || '/' || number, problem FROM (
            SELECT a.operation_key, a.number, CASE
                WHEN d.id IS NULL THEN 'no decision'
                WHEN d.outcome <> 'approved' OR d.request_id <> o.request_id THEN 'its decision does not approve it'
                WHEN (d.version, d.fingerprint) IS DISTINCT FROM (o.input_version, v.fingerprint)
                    AND NOT EXISTS (SELECT FROM carry_over c WHERE c.decision_id = d.id AND c.request_id = o.request_id
                        AND c.version = o.input_version AND c.at <= a.permitted_at)
                    THEN format('version %s was sent, version %s was approved', o.input_version, d.version)
                WHEN d.decided_at > a.permitted_at THEN 'approved only later'
                WHEN d.valid_until <= a.permitted_at THEN 'the approval had expired'
                WHEN EXISTS (SELECT FROM revocation x WHERE x.decision_id = d.id AND x.at <= a.permitted_at)
                    THEN 'the approval was revoked'
                WHEN approver.person = requester.person THEN 'approved by its requester'
                WHEN EXISTS (SELECT FROM version_maker m JOIN behind maker ON maker.id = m.actor_id
                    WHERE (m.request_id, m.number) = (o.request_id, o.input_version)
                    AND maker.person = approver.person) THEN 'approved by its maker'
                END AS problem
            FROM attempt a JOIN operation o ON o.key = a.operation_key JOIN request r ON r.id = o.request_id
            LEFT JOIN input_version v ON v.request_id = o.request_id AND v.number = o.input_version
            LEFT JOIN decision d ON d.id = a.decision_id
            LEFT JOIN behind approver ON approver.id = d.actor_id
            LEFT JOIN behind requester ON requester.id = r.requester
            WHERE PART(a.operation_key)
        ) judged WHERE problem IS NOT NULL
        """,
    ),
)
