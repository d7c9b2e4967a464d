-- The document that decisions rest on, made of the named fields alone: whole rows cost their encoding and decoding.

-- A CRM user is at most a placeholder of a service that acts for a person: two steps, no recursion.
CREATE VIEW person_of_actor AS
    SELECT given.id AS actor_id, coalesce(behind.acts_for, behind.id, given.acts_for, given.id) AS person
    FROM actor given LEFT JOIN actor behind ON behind.id = coalesce(given.merged_into, given.acts_for);
GRANT SELECT ON person_of_actor TO counterfoil_app;
CREATE OR REPLACE FUNCTION person_behind(actor_id text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT known.person FROM person_of_actor known WHERE known.actor_id = person_behind.actor_id
$$;

DROP FUNCTION run_facts_locked(text, integer, text);
DROP FUNCTION run_facts(text);

CREATE FUNCTION run_facts(p_run text, p_owned boolean DEFAULT NULL, p_hints integer DEFAULT 0) RETURNS json
LANGUAGE sql STABLE AS $$
    SELECT json_build_object(
    'run', json_build_object('id', own.id, 'request_id', own.request_id, 'number', own.number, 'kind', own.kind,
        'process', own.process, 'policy_version', own.policy_version, 'business_key', r.business_key,
        'correlation_id', own.correlation_id, 'state', own.state, 'seq', own.seq, 'reason', own.reason,
        'state_since', own.state_since, 'deadline', own.deadline, 'next_owner', own.next_owner,
        'sealed_version', own.sealed_version, 'tries', own.tries, 'cancel_requested_at', own.cancel_requested_at,
        'engine_epoch', own.engine_epoch, 'engine_run', own.engine_run),
    'now', clock_timestamp(),
    'owned', p_owned,
    'hints', p_hints,
    'subject', (SELECT json_build_object('system', l.system, 'account', l.account, 'object_type', l.object_type,
        'object_id', l.object_id) FROM subject_link l WHERE l.request_id = r.id AND l.live),
    'versions', (SELECT json_agg(json_build_object('number', v.number, 'fingerprint', v.fingerprint, 'read_at', v.read_at,
        'canonical', encode(v.canonical, 'hex'), 'problems', v.problems, 'owner', v.owner,
        'makers', (SELECT json_agg(p.person) FROM (
            SELECT m.actor_id FROM version_maker m WHERE m.request_id = v.request_id AND m.number = v.number
            UNION ALL SELECT r.requester) AS made JOIN person_of_actor p ON p.actor_id = made.actor_id))
        ORDER BY v.number) FROM input_version v WHERE v.request_id = r.id),
    'reviews', (SELECT json_agg(json_build_object('id', w.id, 'version', w.version, 'fingerprint', w.fingerprint,
        'role', w.role, 'deadline', w.deadline, 'status', w.status) ORDER BY w.opened_at, w.id)
        FROM review w WHERE w.run_id = p_run),
    'decisions', (SELECT json_agg(json_build_object('id', d.id, 'outcome', d.outcome, 'version', d.version,
        'fingerprint', d.fingerprint, 'valid_until', d.valid_until, 'person', p.person,
        'revoked', EXISTS (SELECT FROM revocation x WHERE x.decision_id = d.id),
        'carried_to', (SELECT json_agg(c.version) FROM carry_over c WHERE c.decision_id = d.id))
        ORDER BY d.decided_at) FROM decision d JOIN person_of_actor p ON p.actor_id = d.actor_id WHERE d.run_id = p_run),
    'operations', (SELECT json_agg(json_build_object('key', o.key, 'run_id', o.run_id, 'step', o.step, 'item', o.item,
        'generation', o.generation, 'input_version', o.input_version, 'system', o.system, 'kind', o.kind,
        'content', encode(o.content, 'hex'), 'outcome', o.outcome, 'settled_by', o.settled_by, 'reference', o.reference,
        'in_flight_until', o.in_flight_until,
        'attempts', (SELECT json_agg(json_build_object('number', a.number, 'permitted_at', a.permitted_at,
            'lease_until', a.lease_until, 'dispatch_id', a.dispatch_id) ORDER BY a.number) FROM attempt a WHERE a.operation_key = o.key),
        'answers', (SELECT json_agg(json_build_object('attempt', n.attempt, 'signal', n.signal, 'code', n.code,
            'reference', n.reference, 'doubt', n.doubt, 'wait', extract(epoch FROM n.retry_after), 'refused', n.refused,
            'http_status', n.http_status, 'excerpt', n.excerpt, 'recorded_at', n.recorded_at) ORDER BY n.recorded_at)
            FROM answer n WHERE n.operation_key = o.key),
        'probes', (SELECT json_agg(json_build_object('began_at', p.began_at, 'found', p.found, 'code', p.code,
            'reference', p.reference) ORDER BY p.began_at) FROM probe p WHERE p.operation_key = o.key),
        'callbacks', (SELECT json_agg(json_build_object('recorded_at', k.recorded_at, 'reference', k.reference,
            'ours', k.ours) ORDER BY k.recorded_at) FROM callback k WHERE k.operation_key = o.key))
        ORDER BY o.step, o.item, o.generation) FROM operation o WHERE o.request_id = r.id),
    'unread', (SELECT coalesce(max(d.id), 0) FROM delivery d WHERE d.request_id = r.id AND d.disposition = 'pending_read'),
    'inline', (SELECT json_build_object('inputs', encode(d.inputs, 'hex'), 'marker', d.marker, 'occurred_at', d.occurred_at,
        'makers', CASE WHEN d.made_by IS NULL THEN NULL ELSE json_build_array(d.made_by) END)
        FROM delivery d WHERE d.request_id = r.id AND d.inputs IS NOT NULL AND d.disposition = 'pending_read'
        ORDER BY d.occurred_at DESC, d.id DESC LIMIT 1),
    'throttles', (SELECT json_object_agg(t.system, t.until) FROM throttle t),
    'subjects_collide', EXISTS (SELECT FROM subject_link mine JOIN subject_link other
        USING (system, account, object_type, object_id) JOIN run ON run.request_id = other.request_id
        JOIN request x ON x.id = other.request_id
        WHERE mine.request_id = r.id AND mine.live AND other.live AND other.request_id <> r.id
        AND x.process = r.process AND run.kind <> 'rehearsal'
        AND run.state NOT IN ('succeeded', 'failed', 'canceled', 'suppressed', 'expired'))
    ) FROM run own JOIN request r ON r.id = own.request_id WHERE own.id = p_run
$$;

-- Take the request lock, let the newest execution of the highest epoch own the run, note that it has looked, and read.
-- Without an epoch nobody's ownership is asked. NULL where there is no such run.
CREATE FUNCTION run_facts_locked(p_run text, p_epoch integer, p_engine_run text) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
    held  run%ROWTYPE;
    owned boolean := true;
BEGIN
    SELECT run.* INTO held FROM request JOIN run ON request.id = run.request_id WHERE run.id = p_run
        FOR UPDATE OF request, run;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF p_epoch < held.engine_epoch THEN
        owned := false;
    ELSIF p_engine_run <> coalesce(held.engine_run, '')
        AND held.state NOT IN ('succeeded', 'failed', 'canceled', 'suppressed', 'expired')
    THEN
        -- One that was seen before and does not own the run is older; one never seen is newer than all that were.
        INSERT INTO engine_execution (run_id, epoch, engine_run) VALUES (p_run, p_epoch, p_engine_run)
            ON CONFLICT DO NOTHING;
        owned := FOUND;
        IF owned THEN
            UPDATE run SET engine_run = p_engine_run, engine_health = 'ok', engine_checked_at = clock_timestamp()
                WHERE id = p_run;
        END IF;
    END IF;
    IF owned AND p_epoch IS NOT NULL AND held.nudge_seen < held.nudge THEN
        UPDATE run SET nudge_seen = nudge WHERE id = p_run;
    END IF;
    RETURN run_facts(p_run, owned, held.nudge - held.nudge_seen);
END $$;
