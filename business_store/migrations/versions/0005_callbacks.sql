-- What a provider tells by itself: taken in once, element by element, whatever becomes of it. Its words are in the receipt.

CREATE TABLE callback_delivery (
    id             bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source         text        NOT NULL,
    dedupe_key     text        NOT NULL,
    receipt_id     bigint      NOT NULL REFERENCES receipt (id),
    element        integer     NOT NULL,
    system         text        NOT NULL,
    kind           text,
    told_key       text,
    reference      text,
    disposition    text        NOT NULL,
    reason         text        NOT NULL DEFAULT '',
    run_id         text        REFERENCES run (id),
    received_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    settled_at     timestamptz,
    UNIQUE (source, dedupe_key)
);
CREATE INDEX callback_delivery_due ON callback_delivery (received_at) WHERE disposition = 'matched';
CREATE INDEX callback_delivery_by_key ON callback_delivery (told_key) WHERE disposition = 'unmatched';
CREATE INDEX callback_delivery_by_reference ON callback_delivery (reference) WHERE disposition = 'unmatched';

-- Evidence about an operation. It is added alone, before anything follows from it.
CREATE TABLE callback (
    id             text        PRIMARY KEY,
    delivery_id    bigint      NOT NULL UNIQUE REFERENCES callback_delivery (id),
    operation_key  text        NOT NULL REFERENCES operation (key),
    reference      text        NOT NULL,
    ours           boolean     NOT NULL,
    code           text        NOT NULL,
    record_sha256  bytea       NOT NULL,
    recorded_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX callback_of_operation ON callback (operation_key, recorded_at);

-- A callback that does not echo our key is matched by the id that an answer named.
CREATE INDEX operation_by_reference ON operation (reference) WHERE reference IS NOT NULL;
CREATE INDEX answer_by_reference ON answer (reference) WHERE reference IS NOT NULL;

-- What was said stays; what became of it is written down later.
GRANT SELECT, INSERT, UPDATE (disposition, run_id, settled_at) ON callback_delivery TO counterfoil_app;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO counterfoil_app;

-- As before, with the callbacks of each operation.
CREATE OR REPLACE FUNCTION run_facts(p_run text) RETURNS jsonb LANGUAGE sql STABLE AS $$
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
        'probes', (SELECT jsonb_agg(to_jsonb(p) ORDER BY p.began_at) FROM probe p WHERE p.operation_key = o.key),
        'callbacks', (SELECT jsonb_agg(to_jsonb(k) ORDER BY k.recorded_at) FROM callback k WHERE k.operation_key = o.key))
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
