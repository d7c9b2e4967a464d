-- All that a decision about one run rests on, as one document: read in one statement, under the lock in one call.

CREATE FUNCTION run_facts(p_run text) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
    'run', to_jsonb(own) || jsonb_build_object('business_key', r.business_key),
    'now', clock_timestamp(),
    'subject', (SELECT to_jsonb(l) FROM subject_link l WHERE l.request_id = r.id AND l.live),
    'versions', (SELECT jsonb_agg(jsonb_build_object('number', v.number, 'fingerprint', v.fingerprint, 'read_at', v.read_at,
        'canonical', encode(v.canonical, 'hex'), 'problems', v.problems, 'owner', v.owner,
        'makers', (SELECT jsonb_agg(person_behind(m.actor_id)) FROM version_maker m
                   WHERE m.request_id = r.id AND m.number = v.number) || to_jsonb(person_behind(r.requester)))
        ORDER BY v.number) FROM input_version v WHERE v.request_id = r.id),
    'reviews', (SELECT jsonb_agg(to_jsonb(w) ORDER BY w.opened_at, w.id) FROM review w WHERE w.run_id = p_run),
    'decisions', (SELECT jsonb_agg(to_jsonb(d) - 'comment' || jsonb_build_object('person', person_behind(d.actor_id),
        'revoked', EXISTS (SELECT FROM revocation x WHERE x.decision_id = d.id),
        'carried_to', (SELECT jsonb_agg(c.version) FROM carry_over c WHERE c.decision_id = d.id))
        ORDER BY d.decided_at) FROM decision d WHERE d.run_id = p_run),
    'operations', (SELECT jsonb_agg(to_jsonb(o) || jsonb_build_object('content', encode(o.content, 'hex'),
        'attempts', (SELECT jsonb_agg(to_jsonb(a) ORDER BY a.number) FROM attempt a WHERE a.operation_key = o.key),
        'answers', (SELECT jsonb_agg(to_jsonb(n) || jsonb_build_object('wait', extract(epoch FROM n.retry_after))
                    ORDER BY n.recorded_at) FROM answer n WHERE n.operation_key = o.key),
        'probes', (SELECT jsonb_agg(to_jsonb(p) ORDER BY p.began_at) FROM probe p WHERE p.operation_key = o.key))
        ORDER BY o.step, o.item, o.generation) FROM operation o WHERE o.request_id = r.id),
    'unread', (SELECT coalesce(max(d.id), 0) FROM delivery d WHERE d.request_id = r.id AND d.disposition = 'pending_read'),
    'inline', (SELECT jsonb_build_object('inputs', encode(d.inputs, 'hex'), 'marker', d.marker, 'occurred_at', d.occurred_at,
        'makers', CASE WHEN d.made_by IS NULL THEN NULL ELSE jsonb_build_array(d.made_by) END)
        FROM delivery d WHERE d.request_id = r.id AND d.inputs IS NOT NULL AND d.disposition = 'pending_read'
        ORDER BY d.occurred_at DESC, d.id DESC LIMIT 1),
    'throttles', (SELECT jsonb_object_agg(t.system, t.until) FROM throttle t),
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
CREATE FUNCTION run_facts_locked(p_run text, p_epoch integer, p_engine_run text) RETURNS jsonb LANGUAGE plpgsql AS $$
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
    RETURN run_facts(p_run) || jsonb_build_object('owned', owned, 'hints', held.nudge - held.nudge_seen);
END $$;

-- The permit writes operation, transition and attempt in one statement, so it is judged when the transaction ends.
DROP TRIGGER attempt_guard ON attempt;
CREATE OR REPLACE FUNCTION guard_attempt() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    op  operation%ROWTYPE;
    own run%ROWTYPE;
BEGIN
    SELECT * INTO op FROM operation WHERE key = NEW.operation_key;
    SELECT * INTO own FROM run WHERE id = NEW.run_id;
    IF op.in_flight_attempt IS DISTINCT FROM NEW.number OR op.content_sha256 <> NEW.content_sha256
       OR NEW.number <> (SELECT count(*) FROM attempt WHERE operation_key = NEW.operation_key)
       OR own.kind = 'rehearsal' OR own.cancel_requested_at IS NOT NULL
       OR own.state NOT IN ('running', 'outcome_unknown', 'retrying') OR own.request_id <> op.request_id
    THEN
        RAISE EXCEPTION 'attempt % of operation % has no permit', NEW.number, NEW.operation_key
            USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'attempt_permit';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER attempt_guard AFTER INSERT ON attempt
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION guard_attempt();

-- A CRM user is at most a placeholder of a service that acts for a person: two steps, no recursion.
CREATE OR REPLACE FUNCTION person_behind(actor_id text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce(behind.acts_for, behind.id, given.acts_for, given.id) FROM actor given
    LEFT JOIN actor behind ON behind.id = coalesce(given.merged_into, given.acts_for) WHERE given.id = actor_id
$$;
