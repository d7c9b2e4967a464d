-- The text that event_hash covers, in the order and spelling of jsonb (shorter names first), without building jsonb of
-- the row: worked into a query it costs a quarter. event_hash stays the definition; what differs here is asked of it.
-- Right only while the session's time zone is UTC, and only while it names every column: a test compares them.
CREATE FUNCTION event_text(e event) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT concat(
        '{"at": ', to_json(e.at), ', "seq": ', e.seq, ', "next": ', to_json(e.next), ', "step": ', to_json(e.step),
        ', "reason": ', to_json(e.reason), ', "run_id": ', to_json(e.run_id), ', "attempt": ', e.attempt,
        ', "actor_id": ', to_json(e.actor_id), ', "deadline": ' || to_json(e.deadline),
        ', "evidence": ', jsonb_strip_nulls(e.evidence), ', "previous": ' || to_json(e.previous),
        ', "actor_kind": ', to_json(e.actor_kind), ', "next_owner": ' || to_json(e.next_owner),
        ', "request_id": ', to_json(e.request_id), ', "correlation_id": ', to_json(e.correlation_id),
        ', "policy_version": ', to_json(e.policy_version), ', "workflow_version": ', to_json(e.workflow_version), '}')
$$;

-- Whose execution was not looked at for long: found in order, without a look at all that is open or ever was.
CREATE INDEX run_unchecked ON run (engine_checked_at) WHERE engine_health IN ('ok', 'stuck')
    AND state NOT IN ('succeeded', 'failed', 'canceled', 'suppressed', 'expired');
