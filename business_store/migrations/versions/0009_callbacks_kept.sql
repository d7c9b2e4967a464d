-- What a provider told by itself keeps a request as an answer does, and its body as long as that request is kept.

CREATE OR REPLACE FUNCTION request_is_over(p_request text, p_cutoff timestamptz) RETURNS boolean LANGUAGE plpgsql STABLE
SET search_path = public, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM run WHERE request_id = p_request)
    AND NOT EXISTS (
        SELECT FROM run WHERE request_id = p_request AND (state_since >= p_cutoff
            OR state NOT IN ('succeeded', 'failed', 'canceled', 'suppressed', 'expired')))
    AND NOT EXISTS (
        SELECT FROM run own JOIN run linked ON linked.from_run = own.id
        WHERE own.request_id = p_request AND (linked.state_since >= p_cutoff
            OR linked.state NOT IN ('succeeded', 'failed', 'canceled', 'suppressed', 'expired')))
    AND NOT EXISTS (
        SELECT FROM operation o WHERE o.request_id = p_request AND (
            o.outcome = 'unknown' OR o.in_flight_attempt IS NOT NULL OR (o.outcome IN ('rejected', 'not_sent') AND (
                EXISTS (SELECT FROM answer n WHERE n.operation_key = o.key AND n.signal = 'accepted')
                OR EXISTS (SELECT FROM probe p WHERE p.operation_key = o.key AND p.found = 'one')
                OR EXISTS (SELECT FROM callback c WHERE c.operation_key = o.key AND c.ours)))))
    AND NOT EXISTS (
        SELECT FROM operation o JOIN callback c ON c.operation_key = o.key
        JOIN callback_delivery d ON d.id = c.delivery_id
        WHERE o.request_id = p_request AND d.disposition = 'matched')
    AND NOT EXISTS (SELECT FROM delivery WHERE request_id = p_request AND disposition = 'pending_read');
END $$;

CREATE OR REPLACE FUNCTION receipt_is_free(p_receipt bigint, p_cutoff timestamptz) RETURNS boolean LANGUAGE plpgsql STABLE
SET search_path = public, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM receipt WHERE id = p_receipt AND received_at < p_cutoff)
    AND NOT EXISTS (
        SELECT FROM (
            SELECT request_id, received_at, disposition = 'pending_read' AS due FROM delivery
            WHERE receipt_id = p_receipt
            UNION ALL
            SELECT o.request_id, d.received_at, d.disposition = 'matched' FROM callback_delivery d
            LEFT JOIN callback c ON c.delivery_id = d.id LEFT JOIN operation o ON o.key = c.operation_key
            WHERE d.receipt_id = p_receipt) d
        WHERE d.received_at >= p_cutoff OR d.due OR (d.request_id IS NOT NULL
            AND NOT EXISTS (SELECT FROM erased_request e JOIN erasure x ON x.id = e.erasure_id
                            WHERE e.request_id = d.request_id AND x.cutoff > d.received_at)
            AND NOT request_is_over(d.request_id, p_cutoff)));
END $$;

CREATE INDEX callback_delivery_of_receipt ON callback_delivery (receipt_id);

GRANT SELECT (id, receipt_id, disposition, received_at) ON callback_delivery TO counterfoil_retention;
GRANT SELECT (delivery_id, operation_key, ours) ON callback TO counterfoil_retention;
