-- The business store. Invariants stand here first; code only asks.

-- ── What may happen ─────────────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE policy_version (
    process     text        NOT NULL,
    version     text        NOT NULL,
    document    bytea       NOT NULL,
    sha256      bytea       NOT NULL CHECK (sha256 = sha256(document)),
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (process, version)
);

CREATE TABLE permitted_move (
    actor_kind text NOT NULL,
    previous   text NOT NULL,
    next       text NOT NULL,
    PRIMARY KEY (actor_kind, previous, next)
);

-- ── Who ─────────────────────────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE actor (
    id          text        PRIMARY KEY CHECK (id <> ''),
    kind        text        NOT NULL CHECK (kind IN ('person', 'service', 'placeholder', 'system')),
    name        text        NOT NULL,
    active      boolean     NOT NULL DEFAULT true,
    acts_for    text        REFERENCES actor (id),
    merged_into text        REFERENCES actor (id),
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK (merged_into IS NULL OR kind = 'placeholder')
);

CREATE TABLE actor_identity (
    identity  text        PRIMARY KEY,
    actor_id  text        NOT NULL REFERENCES actor (id),
    linked_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE actor_role (
    actor_id   text        NOT NULL REFERENCES actor (id),
    role       text        NOT NULL,
    granted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (actor_id, role)
);

CREATE TABLE api_token (
    id            text        PRIMARY KEY,
    actor_id      text        NOT NULL REFERENCES actor (id),
    secret_sha256 bytea       NOT NULL UNIQUE,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    revoked_at    timestamptz
);

-- The person behind an identity: a linked CRM user is the person, a service acts for one.
CREATE FUNCTION person_behind(actor_id text) RETURNS text LANGUAGE sql STABLE AS $$
    WITH RECURSIVE chain (id, onward, depth) AS (
        SELECT id, coalesce(merged_into, acts_for), 0 FROM actor WHERE id = actor_id
        UNION ALL
        SELECT actor.id, coalesce(actor.merged_into, actor.acts_for), depth + 1
        FROM chain JOIN actor ON actor.id = chain.onward WHERE depth < 8
    )
    SELECT id FROM chain ORDER BY depth DESC LIMIT 1
$$;

-- ── What came in ────────────────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE receipt (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source      text        NOT NULL,
    body        bytea       NOT NULL,
    body_sha256 bytea       NOT NULL CHECK (body_sha256 = sha256(body)),
    verdict     text        NOT NULL,
    received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (source, body_sha256, verdict)
);

-- ── What was asked ──────────────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE request (
    id           text        PRIMARY KEY,
    process      text        NOT NULL,
    business_key text        NOT NULL CHECK (btrim(business_key) <> ''),
    requester    text        NOT NULL REFERENCES actor (id),
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (process, business_key)
);

CREATE TABLE subject_link (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    request_id  text        NOT NULL REFERENCES request (id),
    system      text        NOT NULL,
    account     text        NOT NULL,
    object_type text        NOT NULL,
    object_id   text        NOT NULL,
    live        boolean     NOT NULL DEFAULT true,
    linked_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (request_id, system, account, object_type, object_id)
);
CREATE UNIQUE INDEX subject_link_one_live ON subject_link (request_id) WHERE live;
CREATE INDEX subject_link_subject ON subject_link (system, account, object_type, object_id);

CREATE TABLE input_version (
    request_id  text        NOT NULL REFERENCES request (id),
    number      integer     NOT NULL CHECK (number >= 1),
    canonical   bytea       NOT NULL,
    fingerprint text        NOT NULL CHECK (fingerprint = encode(sha256(canonical), 'hex')),
    problems    text[]      NOT NULL DEFAULT '{}',
    marker      text        NOT NULL,
    owner       text,
    read_at     timestamptz NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (request_id, number),
    UNIQUE (request_id, number, fingerprint)
);

CREATE TABLE version_maker (
    request_id text    NOT NULL,
    number     integer NOT NULL,
    actor_id   text    NOT NULL REFERENCES actor (id),
    PRIMARY KEY (request_id, number, actor_id),
    FOREIGN KEY (request_id, number) REFERENCES input_version (request_id, number)
);

-- ── Runs and their history ──────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE run (
    id                  text        PRIMARY KEY,
    request_id          text        NOT NULL REFERENCES request (id),
    number              integer     NOT NULL CHECK (number >= 1),
    kind                text        NOT NULL CHECK (kind IN ('original', 'repair', 'revision', 'reversal', 'rehearsal')),
    from_run            text        REFERENCES run (id),
    process             text        NOT NULL,
    policy_version      text        NOT NULL,
    correlation_id      text        NOT NULL,
    state               text        NOT NULL,
    seq                 integer     NOT NULL,
    reason              text        NOT NULL,
    state_since         timestamptz NOT NULL,
    deadline            timestamptz,
    next_owner          text,
    input_version       integer,
    sealed_version      integer,
    tries               integer     NOT NULL DEFAULT 0,
    cancel_requested_at timestamptz,
    engine_epoch        integer     NOT NULL DEFAULT 1,
    engine_run          text,
    engine_health       text        NOT NULL DEFAULT 'not_started'
                                    CHECK (engine_health IN ('not_started', 'ok', 'lost', 'stuck')),
    engine_checked_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    nudge               integer     NOT NULL DEFAULT 0,
    nudged_at           timestamptz,
    nudge_seen          integer     NOT NULL DEFAULT 0,
    projected_seq       integer     NOT NULL DEFAULT 0,
    projection_due      timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (request_id, number),
    FOREIGN KEY (process, policy_version) REFERENCES policy_version (process, version),
    CHECK ((kind IN ('original', 'rehearsal')) = (from_run IS NULL)),
    CHECK (reason <> '')
);
CREATE UNIQUE INDEX run_one_original ON run (request_id) WHERE kind = 'original';
CREATE UNIQUE INDEX run_one_open ON run (request_id)
    WHERE kind <> 'rehearsal' AND state NOT IN ('succeeded', 'failed', 'canceled', 'suppressed', 'expired');
CREATE INDEX run_open_state ON run (state, state_since)
    WHERE state NOT IN ('succeeded', 'failed', 'canceled', 'suppressed', 'expired');
CREATE INDEX run_unprojected ON run (projection_due) WHERE projected_seq < seq AND kind <> 'rehearsal';
CREATE INDEX run_unseen_nudge ON run (nudged_at) WHERE nudge_seen < nudge;
CREATE INDEX run_unstarted ON run (created_at) WHERE engine_health = 'not_started';
CREATE INDEX run_engine_run ON run (engine_run);
CREATE INDEX run_created ON run (created_at DESC, id);

-- Every execution that ever asked for this run, in the order in which it first did: the newest of the highest epoch owns.
CREATE TABLE engine_execution (
    run_id     text        NOT NULL REFERENCES run (id),
    epoch      integer     NOT NULL,
    engine_run text        NOT NULL,
    seen_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (run_id, engine_run)
);

CREATE TABLE event (
    run_id           text        NOT NULL REFERENCES run (id),
    seq              integer     NOT NULL CHECK (seq >= 1),
    request_id       text        NOT NULL REFERENCES request (id),
    step             text        NOT NULL,
    attempt          integer     NOT NULL DEFAULT 0,
    previous         text,
    next             text        NOT NULL,
    reason           text        NOT NULL CHECK (reason <> ''),
    actor_kind       text        NOT NULL,
    actor_id         text        NOT NULL REFERENCES actor (id),
    at               timestamptz NOT NULL,
    workflow_version text        NOT NULL,
    policy_version   text        NOT NULL,
    correlation_id   text        NOT NULL,
    next_owner       text,
    deadline         timestamptz,
    evidence         jsonb       NOT NULL DEFAULT '{}',
    previous_hash    bytea       NOT NULL,
    hash             bytea       NOT NULL,
    PRIMARY KEY (run_id, seq),
    FOREIGN KEY (actor_kind, previous, next) REFERENCES permitted_move (actor_kind, previous, next),
    CHECK ((seq = 1) = (previous IS NULL)),
    CHECK (seq > 1 OR next = 'queued'),
    CHECK (next <> 'needs_operator' OR next_owner IS NOT NULL)
);

CREATE FUNCTION event_hash(row_without_hash event) RETURNS bytea LANGUAGE sql STABLE SET timezone = 'UTC' AS $$
    SELECT sha256(row_without_hash.previous_hash
                  || convert_to((jsonb_strip_nulls(to_jsonb(row_without_hash)) - 'hash' - 'previous_hash')::text, 'UTF8'))
$$;

CREATE FUNCTION chain_event() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    former event%ROWTYPE;
BEGIN
    NEW.at := clock_timestamp();
    IF NEW.seq = 1 THEN
        NEW.previous_hash := sha256(convert_to(NEW.run_id, 'UTF8'));
    ELSE
        SELECT * INTO former FROM event WHERE run_id = NEW.run_id AND seq = NEW.seq - 1;
        IF former.next IS DISTINCT FROM NEW.previous THEN
            RAISE EXCEPTION 'event % of run % does not follow on the former one', NEW.seq, NEW.run_id
                USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'event_gapless';
        END IF;
        NEW.previous_hash := former.hash;
    END IF;
    NEW.hash := event_hash(NEW);
    RETURN NEW;
END $$;
CREATE TRIGGER event_chain BEFORE INSERT ON event FOR EACH ROW EXECUTE FUNCTION chain_event();

-- A run's state is what its last event says: checked when the transaction ends, so neither can be written alone.
CREATE FUNCTION run_equals_last_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM run JOIN event ON event.run_id = run.id AND event.seq = run.seq
                   WHERE run.id = NEW.id AND event.next = run.state AND event.reason = run.reason)
       OR EXISTS (SELECT FROM run JOIN event ON event.run_id = run.id AND event.seq = run.seq + 1 WHERE run.id = NEW.id)
    THEN
        RAISE EXCEPTION 'run % does not equal its last event', NEW.id
            USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'run_equals_last_event';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER run_last_event AFTER INSERT OR UPDATE OF state, seq, reason ON run
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION run_equals_last_event();

CREATE FUNCTION event_is_last() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT seq FROM run WHERE id = NEW.run_id) < NEW.seq THEN
        RAISE EXCEPTION 'event % of run % has no transition of the run', NEW.seq, NEW.run_id
            USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'event_moves_run';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER event_moves_run AFTER INSERT ON event
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION event_is_last();

CREATE FUNCTION guard_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.state IN ('succeeded', 'failed', 'canceled', 'suppressed', 'expired')
       AND (to_jsonb(OLD) - ARRAY['projected_seq', 'projection_due', 'engine_health', 'engine_checked_at', 'nudge_seen'])
           IS DISTINCT FROM
           (to_jsonb(NEW) - ARRAY['projected_seq', 'projection_due', 'engine_health', 'engine_checked_at', 'nudge_seen'])
    THEN
        RAISE EXCEPTION 'run % is terminal', OLD.id
            USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'run_terminal';
    END IF;
    IF (OLD.cancel_requested_at IS NOT NULL AND NEW.cancel_requested_at IS DISTINCT FROM OLD.cancel_requested_at)
       OR NEW.engine_epoch < OLD.engine_epoch
       OR (NEW.request_id, NEW.number, NEW.kind, NEW.from_run) IS DISTINCT FROM
          (OLD.request_id, OLD.number, OLD.kind, OLD.from_run)
    THEN
        RAISE EXCEPTION 'run %: identity, cancel and epoch never go back', OLD.id
            USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'run_identity';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER run_guard BEFORE UPDATE ON run FOR EACH ROW EXECUTE FUNCTION guard_run();

CREATE TABLE delivery (
    id            bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source        text        NOT NULL,
    dedupe_key    text        NOT NULL,
    receipt_id    bigint      NOT NULL REFERENCES receipt (id),
    element       integer     NOT NULL,
    change        text,
    system        text,
    account       text,
    object_type   text,
    object_id     text,
    occurred_at   timestamptz,
    made_by       text        REFERENCES actor (id),
    marker        text        NOT NULL DEFAULT '',
    inputs        bytea,
    inputs_sha256 bytea       CHECK (inputs_sha256 = sha256(inputs)),
    disposition   text        NOT NULL,
    reason        text        NOT NULL DEFAULT '',
    request_id    text        REFERENCES request (id),
    run_id        text        REFERENCES run (id),
    received_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    settled_at    timestamptz,
    UNIQUE (source, dedupe_key),
    CHECK ((inputs IS NULL) = (inputs_sha256 IS NULL))
);
CREATE INDEX delivery_pending ON delivery (request_id, id) WHERE disposition = 'pending_read';

-- ── Who approved which version ──────────────────────────────────────────────────────────────────────────────────

CREATE TABLE review (
    id          text        PRIMARY KEY,
    run_id      text        NOT NULL REFERENCES run (id),
    request_id  text        NOT NULL,
    version     integer     NOT NULL,
    fingerprint text        NOT NULL,
    role        text        NOT NULL,
    opened_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    deadline    timestamptz NOT NULL,
    status      text        NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'decided', 'superseded', 'expired')),
    closed_at   timestamptz,
    FOREIGN KEY (request_id, version, fingerprint) REFERENCES input_version (request_id, number, fingerprint),
    UNIQUE (id, request_id, version, fingerprint),
    CHECK ((status = 'open') = (closed_at IS NULL))
);
CREATE UNIQUE INDEX review_one_open ON review (run_id) WHERE status = 'open';
CREATE INDEX review_of_run ON review (run_id, opened_at);

CREATE TABLE decision (
    id             text        PRIMARY KEY,
    review_id      text        NOT NULL UNIQUE,
    run_id         text        NOT NULL REFERENCES run (id),
    request_id     text        NOT NULL,
    version        integer     NOT NULL,
    fingerprint    text        NOT NULL,
    outcome        text        NOT NULL CHECK (outcome IN ('approved', 'rejected', 'changes_requested')),
    actor_id       text        NOT NULL REFERENCES actor (id),
    comment        bytea       NOT NULL DEFAULT '',
    comment_sha256 bytea       NOT NULL CHECK (comment_sha256 = sha256(comment)),
    decided_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    valid_until    timestamptz NOT NULL,
    FOREIGN KEY (review_id, request_id, version, fingerprint) REFERENCES review (id, request_id, version, fingerprint)
);
CREATE INDEX decision_of_run ON decision (run_id);

-- Nobody approves what they asked for or made, whoever they were signed in as.
CREATE FUNCTION four_eyes() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    person text := person_behind(NEW.actor_id);
BEGIN
    IF NEW.outcome = 'approved' AND (
        EXISTS (SELECT FROM version_maker m WHERE m.request_id = NEW.request_id AND m.number = NEW.version
                AND person_behind(m.actor_id) = person)
        OR EXISTS (SELECT FROM request r WHERE r.id = NEW.request_id AND person_behind(r.requester) = person))
    THEN
        RAISE EXCEPTION 'the approver asked for or made this version'
            USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'decision_four_eyes';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER decision_four_eyes BEFORE INSERT ON decision FOR EACH ROW EXECUTE FUNCTION four_eyes();

CREATE TABLE refused_decision (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id      text        NOT NULL REFERENCES run (id),
    actor_id    text        NOT NULL REFERENCES actor (id),
    outcome     text        NOT NULL,
    version     integer,
    fingerprint text,
    code        text        NOT NULL,
    at          timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE revocation (
    decision_id text        PRIMARY KEY REFERENCES decision (id),
    actor_id    text        NOT NULL REFERENCES actor (id),
    reason      text        NOT NULL CHECK (btrim(reason) <> ''),
    at          timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE carry_over (
    decision_id    text        NOT NULL REFERENCES decision (id),
    request_id     text        NOT NULL,
    version        integer     NOT NULL,
    policy_version text        NOT NULL,
    material       text[]      NOT NULL,
    changed        text[]      NOT NULL,
    at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (decision_id, version),
    FOREIGN KEY (request_id, version) REFERENCES input_version (request_id, number),
    CHECK (NOT material && changed)
);

-- ── What was sent outside, and what happened there ──────────────────────────────────────────────────────────────

CREATE TABLE operation (
    key               text        PRIMARY KEY,
    request_id        text        NOT NULL REFERENCES request (id),
    run_id            text        NOT NULL REFERENCES run (id),
    step              text        NOT NULL,
    item              text        NOT NULL DEFAULT '',
    generation        integer     NOT NULL DEFAULT 1 CHECK (generation >= 1),
    updates_version   integer,
    input_version     integer     NOT NULL,
    policy_version    text        NOT NULL,
    system            text        NOT NULL,
    kind              text        NOT NULL,
    content           bytea       NOT NULL,
    content_sha256    bytea       NOT NULL CHECK (content_sha256 = sha256(content)),
    outcome           text        NOT NULL CHECK (outcome IN ('accepted', 'rejected', 'not_sent', 'unknown', 'written_off')),
    settled_by        text        NOT NULL DEFAULT '',
    reference         text,
    in_flight_attempt integer,
    in_flight_until   timestamptz,
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE NULLS NOT DISTINCT (request_id, step, item, generation, updates_version),
    FOREIGN KEY (request_id, input_version) REFERENCES input_version (request_id, number),
    CHECK (outcome <> 'accepted' OR reference IS NOT NULL),
    CHECK ((in_flight_attempt IS NULL) = (in_flight_until IS NULL)),
    CHECK (in_flight_attempt IS NULL OR outcome = 'unknown')
);
CREATE INDEX operation_of_run ON operation (run_id);
CREATE INDEX operation_unknown ON operation (created_at) WHERE outcome = 'unknown';

-- Only the outcome of an operation changes, and never back from a definite one, but for an operator's word on evidence
-- that came in against a refusal.
CREATE FUNCTION guard_operation() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (to_jsonb(OLD) - ARRAY['outcome', 'settled_by', 'reference', 'in_flight_attempt', 'in_flight_until'])
       IS DISTINCT FROM
       (to_jsonb(NEW) - ARRAY['outcome', 'settled_by', 'reference', 'in_flight_attempt', 'in_flight_until'])
       OR (OLD.outcome IN ('accepted', 'rejected', 'written_off') AND NEW.outcome <> OLD.outcome
           AND NOT (OLD.outcome = 'rejected' AND NEW.settled_by LIKE 'operator:%'))
       OR (OLD.outcome = 'unknown' AND NEW.outcome <> 'unknown' AND NEW.settled_by = '')
    THEN
        RAISE EXCEPTION 'operation %: content is fixed and a definite outcome stays', OLD.key
            USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'operation_fixed';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER operation_guard BEFORE UPDATE ON operation FOR EACH ROW EXECUTE FUNCTION guard_operation();

CREATE TABLE attempt (
    operation_key text        NOT NULL REFERENCES operation (key),
    number        integer     NOT NULL CHECK (number >= 1),
    run_id        text        NOT NULL REFERENCES run (id),
    decision_id   text        REFERENCES decision (id),
    epoch         integer     NOT NULL,
    engine_run    text        NOT NULL,
    permitted_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    send_before   timestamptz NOT NULL,
    lease_until   timestamptz NOT NULL,
    content_sha256 bytea      NOT NULL,
    token         text        NOT NULL UNIQUE,
    PRIMARY KEY (operation_key, number),
    CHECK (permitted_at < send_before AND send_before <= lease_until)
);

-- The permit is the only door: nothing in flight, the same bytes, a run that may still send, an approval that holds.
CREATE FUNCTION guard_attempt() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    op  operation%ROWTYPE;
    own run%ROWTYPE;
BEGIN
    SELECT * INTO op FROM operation WHERE key = NEW.operation_key;
    SELECT * INTO own FROM run WHERE id = NEW.run_id;
    IF op.in_flight_attempt IS DISTINCT FROM NEW.number OR op.content_sha256 <> NEW.content_sha256
       OR NEW.number <> 1 + (SELECT count(*) FROM attempt WHERE operation_key = NEW.operation_key)
       OR own.kind = 'rehearsal' OR own.cancel_requested_at IS NOT NULL
       OR own.state NOT IN ('running', 'outcome_unknown', 'retrying') OR own.request_id <> op.request_id
    THEN
        RAISE EXCEPTION 'attempt % of operation % has no permit', NEW.number, NEW.operation_key
            USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'attempt_permit';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER attempt_guard BEFORE INSERT ON attempt FOR EACH ROW EXECUTE FUNCTION guard_attempt();

CREATE TABLE answer (
    id            text        PRIMARY KEY,
    operation_key text        NOT NULL,
    attempt       integer     NOT NULL,
    signal        text        NOT NULL,
    code          text        NOT NULL,
    doubt         text,
    reference     text,
    retry_after   interval,
    refused       boolean     NOT NULL DEFAULT false,
    http_status   integer,
    excerpt       text        NOT NULL DEFAULT '',
    recorded_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    FOREIGN KEY (operation_key, attempt) REFERENCES attempt (operation_key, number)
);
CREATE INDEX answer_of_operation ON answer (operation_key, attempt, recorded_at);

CREATE TABLE probe (
    id            text        PRIMARY KEY,
    operation_key text        NOT NULL REFERENCES operation (key),
    began_at      timestamptz NOT NULL,
    found         text        NOT NULL,
    code          text        NOT NULL,
    reference     text,
    recorded_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX probe_of_operation ON probe (operation_key, began_at);

CREATE TABLE reading (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id      text        REFERENCES run (id),
    request_id  text        NOT NULL REFERENCES request (id),
    purpose     text        NOT NULL CHECK (purpose IN ('stale_snapshot', 'echo', 'agreement')),
    system      text        NOT NULL,
    reference   text        NOT NULL,
    content     bytea       NOT NULL,
    sha256      bytea       NOT NULL CHECK (sha256 = sha256(content)),
    agrees      boolean,
    began_at    timestamptz NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX reading_of_run ON reading (run_id);

CREATE TABLE resolution (
    id            text        PRIMARY KEY,
    run_id        text        NOT NULL REFERENCES run (id),
    operation_key text        REFERENCES operation (key),
    action        text        NOT NULL,
    reference     text,
    actor_id      text        NOT NULL REFERENCES actor (id),
    reason        bytea       NOT NULL,
    reason_sha256 bytea       NOT NULL CHECK (reason_sha256 = sha256(reason)),
    evidence        bytea     NOT NULL,
    evidence_sha256 bytea     NOT NULL CHECK (evidence_sha256 = sha256(evidence)),
    at            timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX resolution_of_run ON resolution (run_id);

-- ── Hints, leases, notices ──────────────────────────────────────────────────────────────────────────────────────

CREATE TABLE notification (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id     text        NOT NULL,
    seq        integer     NOT NULL,
    recipient  text        NOT NULL,
    state      text        NOT NULL,
    reason     text        NOT NULL,
    deadline   timestamptz,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (run_id, seq, recipient),
    FOREIGN KEY (run_id, seq) REFERENCES event (run_id, seq)
);

-- A person is told once per change that needs one: another state, or another reason in the same state.
CREATE FUNCTION notify_owner() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.next_owner IS NOT NULL AND NOT EXISTS (
        SELECT FROM event WHERE run_id = NEW.run_id AND seq = NEW.seq - 1
        AND next = NEW.next AND reason = NEW.reason AND next_owner IS NOT DISTINCT FROM NEW.next_owner)
       AND NOT EXISTS (SELECT FROM run WHERE id = NEW.run_id AND kind = 'rehearsal')
    THEN
        INSERT INTO notification (run_id, seq, recipient, state, reason, deadline)
        VALUES (NEW.run_id, NEW.seq, NEW.next_owner, NEW.next, NEW.reason, NEW.deadline);
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER event_notifies AFTER INSERT ON event FOR EACH ROW EXECUTE FUNCTION notify_owner();

CREATE TABLE lease (
    name   text        PRIMARY KEY,
    holder text        NOT NULL,
    until  timestamptz NOT NULL
);

CREATE TABLE throttle (
    system text        PRIMARY KEY,
    until  timestamptz NOT NULL
);

-- ── Insert-only, enforced twice: by triggers for everybody, by grants for the application ───────────────────────

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is insert-only', TG_TABLE_NAME
        USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'insert_only';
END $$;

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['event', 'decision', 'input_version', 'version_maker', 'attempt', 'answer', 'probe',
        'reading', 'resolution', 'policy_version', 'revocation', 'carry_over', 'refused_decision', 'receipt',
        'permitted_move', 'notification', 'engine_execution']
    LOOP
        EXECUTE format('CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE ON %I '
                       'FOR EACH ROW EXECUTE FUNCTION refuse_change()', name);
        EXECUTE format('CREATE TRIGGER no_truncate BEFORE TRUNCATE ON %I '
                       'FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', name);
        EXECUTE format('GRANT SELECT, INSERT ON %I TO counterfoil_app', name);
    END LOOP;
    FOREACH name IN ARRAY ARRAY['actor', 'actor_identity', 'api_token', 'request', 'subject_link', 'run', 'delivery',
        'review', 'operation', 'lease', 'throttle']
    LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE ON %I TO counterfoil_app', name);
    END LOOP;
    REVOKE INSERT ON permitted_move FROM counterfoil_app;
    GRANT SELECT, INSERT, DELETE ON actor_role TO counterfoil_app;
    GRANT SELECT ON alembic_version TO counterfoil_app;
    GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO counterfoil_app;
END $$;

-- The application itself, as the actor of automatic moves.
INSERT INTO actor (id, kind, name) VALUES ('counterfoil', 'system', 'Counterfoil');
