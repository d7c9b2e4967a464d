-- Recorded erasure: what was over long ago loses its contents and keeps its proofs.

CREATE TABLE erasure (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    asked_by    text        NOT NULL CHECK (btrim(asked_by) <> ''),
    role        text        NOT NULL DEFAULT session_user,
    reason      text        NOT NULL CHECK (btrim(reason) <> ''),
    cutoff      timestamptz NOT NULL,
    requests    bigint      NOT NULL,
    receipts    bigint      NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK (cutoff <= recorded_at)
);

-- Which requests and receipts: all of their contents from before the cutoff.
CREATE TABLE erased_request (
    request_id text   NOT NULL REFERENCES request (id),
    erasure_id bigint NOT NULL REFERENCES erasure (id),
    PRIMARY KEY (request_id, erasure_id)
);
CREATE INDEX erased_request_of ON erased_request (erasure_id);

CREATE TABLE erased_receipt (
    receipt_id bigint NOT NULL REFERENCES receipt (id),
    erasure_id bigint NOT NULL REFERENCES erasure (id),
    PRIMARY KEY (receipt_id, erasure_id)
);
CREATE INDEX erased_receipt_of ON erased_receipt (erasure_id);

-- ── Contents may go, their hashes stay ──────────────────────────────────────────────────────────────────────────

ALTER TABLE receipt ALTER body DROP NOT NULL;
ALTER TABLE input_version ALTER canonical DROP NOT NULL;
ALTER TABLE decision ALTER comment DROP NOT NULL;
ALTER TABLE operation ALTER content DROP NOT NULL;
ALTER TABLE reading ALTER content DROP NOT NULL;
ALTER TABLE resolution ALTER reason DROP NOT NULL, ALTER evidence DROP NOT NULL;
ALTER TABLE delivery DROP CONSTRAINT delivery_check1,
    ADD CONSTRAINT delivery_inputs_proved CHECK (inputs IS NULL OR inputs_sha256 IS NOT NULL);

-- Code of the release before does not know this hash, so the store takes it.
ALTER TABLE revocation ALTER reason DROP NOT NULL, ADD COLUMN reason_sha256 bytea;
ALTER TABLE revocation DISABLE TRIGGER insert_only;
UPDATE revocation SET reason_sha256 = sha256(convert_to(reason, 'UTF8'));
ALTER TABLE revocation ENABLE TRIGGER insert_only;
ALTER TABLE revocation ALTER reason_sha256 SET NOT NULL,
    ADD CONSTRAINT revocation_reason_proved CHECK (reason_sha256 = sha256(convert_to(reason, 'UTF8')));
CREATE FUNCTION prove_reason() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.reason_sha256 := sha256(convert_to(NEW.reason, 'UTF8'));
    RETURN NEW;
END $$;
CREATE TRIGGER revocation_proves BEFORE INSERT ON revocation FOR EACH ROW EXECUTE FUNCTION prove_reason();

-- Erasing goes by request and by receipt.
CREATE INDEX delivery_of_request ON delivery (request_id) WHERE request_id IS NOT NULL;
CREATE INDEX delivery_of_receipt ON delivery (receipt_id);
CREATE INDEX reading_of_request ON reading (request_id);
CREATE INDEX run_from ON run (from_run) WHERE from_run IS NOT NULL;

-- Every stored content: where it is, of which request or receipt, since when, and whether it is gone.
CREATE VIEW payload AS
    SELECT 'receipt' AS held_in, id::text AS key, NULL::text AS request_id, id AS receipt_id, received_at AS at,
        body IS NULL AS gone
    FROM receipt
    UNION ALL
    SELECT 'delivery', id::text, request_id, NULL, received_at, inputs IS NULL
    FROM delivery WHERE inputs_sha256 IS NOT NULL AND request_id IS NOT NULL
    UNION ALL
    SELECT 'delivery', id::text, NULL, receipt_id, received_at, inputs IS NULL
    FROM delivery WHERE inputs_sha256 IS NOT NULL AND request_id IS NULL
    UNION ALL
    SELECT 'input_version', request_id || '/' || number, request_id, NULL, recorded_at, canonical IS NULL
    FROM input_version
    UNION ALL
    SELECT 'decision', d.id, run.request_id, NULL, d.decided_at, d.comment IS NULL
    FROM run JOIN decision d ON d.run_id = run.id
    UNION ALL
    SELECT 'revocation', d.id, run.request_id, NULL, x.at, x.reason IS NULL
    FROM run JOIN decision d ON d.run_id = run.id JOIN revocation x ON x.decision_id = d.id
    UNION ALL
    SELECT 'operation', key, request_id, NULL, created_at, content IS NULL FROM operation
    UNION ALL
    SELECT 'reading', id::text, request_id, NULL, recorded_at, content IS NULL FROM reading
    UNION ALL
    SELECT 'resolution', s.id, run.request_id, NULL, s.at, s.reason IS NULL OR s.evidence IS NULL
    FROM run JOIN resolution s ON s.run_id = run.id;

-- ── What may be erased ──────────────────────────────────────────────────────────────────────────────────────────

-- Every run, and every run that was made from one of them, has been terminal since before the cutoff; nothing of it is
-- in doubt, in flight or contradicted; no change in the CRM is still to be read. (In this language the plan is kept from
-- one erased row to the next.)
CREATE FUNCTION request_is_over(p_request text, p_cutoff timestamptz) RETURNS boolean LANGUAGE plpgsql STABLE
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
                OR EXISTS (SELECT FROM probe p WHERE p.operation_key = o.key AND p.found = 'one')))))
    AND NOT EXISTS (SELECT FROM delivery WHERE request_id = p_request AND disposition = 'pending_read');
END $$;

-- No delivery of a request that is kept came with it.
CREATE FUNCTION receipt_is_free(p_receipt bigint, p_cutoff timestamptz) RETURNS boolean LANGUAGE plpgsql STABLE
SET search_path = public, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM receipt WHERE id = p_receipt AND received_at < p_cutoff)
    AND NOT EXISTS (
        SELECT FROM delivery d WHERE d.receipt_id = p_receipt AND (
            d.received_at >= p_cutoff OR d.disposition = 'pending_read' OR (d.request_id IS NOT NULL
                AND NOT EXISTS (SELECT FROM erased_request e JOIN erasure x ON x.id = e.erasure_id
                                WHERE e.request_id = d.request_id AND x.cutoff > d.received_at)
                AND NOT request_is_over(d.request_id, p_cutoff))));
END $$;

-- The new row also holds the request against whoever would open a run of it: they take its lock first.
CREATE FUNCTION guard_erased_request() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT request_is_over(NEW.request_id, (SELECT cutoff FROM erasure WHERE id = NEW.erasure_id)) THEN
        RAISE EXCEPTION 'request % is not over for long enough', NEW.request_id
            USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'erasure_too_early';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER erasure_guard BEFORE INSERT ON erased_request FOR EACH ROW EXECUTE FUNCTION guard_erased_request();

CREATE FUNCTION guard_erased_receipt() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT receipt_is_free(NEW.receipt_id, (SELECT cutoff FROM erasure WHERE id = NEW.erasure_id)) THEN
        RAISE EXCEPTION 'receipt % is still referred to', NEW.receipt_id
            USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'erasure_too_early';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER erasure_guard BEFORE INSERT ON erased_receipt FOR EACH ROW EXECUTE FUNCTION guard_erased_receipt();

-- ── What erasing is: contents become NULL, by one role, as recorded beforehand ──────────────────────────────────

-- Whether an erasure that was recorded names this row, and what it names is over still.
CREATE FUNCTION erasure_covers(p_table text, p_row jsonb) RETURNS boolean LANGUAGE plpgsql
SET search_path = public, pg_temp AS $$
DECLARE
    request  text := CASE p_table
        WHEN 'resolution' THEN (SELECT run.request_id FROM run WHERE run.id = p_row ->> 'run_id')
        WHEN 'revocation' THEN (SELECT d.request_id FROM decision d WHERE d.id = p_row ->> 'decision_id')
        ELSE p_row ->> 'request_id' END;
    receipt  bigint := CASE p_table WHEN 'receipt' THEN p_row ->> 'id' ELSE p_row ->> 'receipt_id' END;
    recorded timestamptz := coalesce(p_row ->> 'recorded_at', p_row ->> 'received_at', p_row ->> 'decided_at',
        p_row ->> 'created_at', p_row ->> 'at');
BEGIN
    IF request IS NULL THEN
        RETURN EXISTS (SELECT FROM erased_receipt e JOIN erasure x ON x.id = e.erasure_id
                       WHERE e.receipt_id = receipt AND x.cutoff > recorded);
    END IF;
    RETURN EXISTS (SELECT FROM erased_request e JOIN erasure x ON x.id = e.erasure_id
                   WHERE e.request_id = request AND x.cutoff > recorded AND request_is_over(request, x.cutoff));
END $$;

-- The arguments of a trigger are the columns with contents. Who asks is who logged in: a role that was only taken on
-- (by its members, by the owner) is refused like everybody else.
CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND TG_NARGS > 0 AND session_user = 'counterfoil_retention' AND current_user = session_user THEN
        IF to_jsonb(NEW) = to_jsonb(OLD) || (SELECT jsonb_object_agg(name, NULL) FROM unnest(TG_ARGV) AS name)
           AND erasure_covers(TG_TABLE_NAME, to_jsonb(OLD) - TG_ARGV)
        THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION '% is insert-only', TG_TABLE_NAME
        USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'insert_only';
END $$;

CREATE OR REPLACE TRIGGER insert_only BEFORE UPDATE OR DELETE ON receipt
    FOR EACH ROW EXECUTE FUNCTION refuse_change('body');
CREATE OR REPLACE TRIGGER insert_only BEFORE UPDATE OR DELETE ON input_version
    FOR EACH ROW EXECUTE FUNCTION refuse_change('canonical');
CREATE OR REPLACE TRIGGER insert_only BEFORE UPDATE OR DELETE ON decision
    FOR EACH ROW EXECUTE FUNCTION refuse_change('comment');
CREATE OR REPLACE TRIGGER insert_only BEFORE UPDATE OR DELETE ON reading
    FOR EACH ROW EXECUTE FUNCTION refuse_change('content');
CREATE OR REPLACE TRIGGER insert_only BEFORE UPDATE OR DELETE ON resolution
    FOR EACH ROW EXECUTE FUNCTION refuse_change('reason', 'evidence');
CREATE OR REPLACE TRIGGER insert_only BEFORE UPDATE OR DELETE ON revocation
    FOR EACH ROW EXECUTE FUNCTION refuse_change('reason');

-- Rows of these two are projections that change; their contents do not.
CREATE TRIGGER contents_kept BEFORE UPDATE OF inputs, inputs_sha256 ON delivery
    FOR EACH ROW EXECUTE FUNCTION refuse_change('inputs');
CREATE TRIGGER contents_kept BEFORE UPDATE OF content, content_sha256 ON operation
    FOR EACH ROW EXECUTE FUNCTION refuse_change('content');
CREATE OR REPLACE TRIGGER operation_guard BEFORE UPDATE ON operation FOR EACH ROW
    WHEN (OLD.content IS NULL OR NEW.content IS NOT NULL) EXECUTE FUNCTION guard_operation();

-- ── Who may ─────────────────────────────────────────────────────────────────────────────────────────────────────

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['erasure', 'erased_request', 'erased_receipt'] LOOP
        EXECUTE format('CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE ON %I '
                       'FOR EACH ROW EXECUTE FUNCTION refuse_change()', name);
        EXECUTE format('CREATE TRIGGER no_truncate BEFORE TRUNCATE ON %I '
                       'FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', name);
        EXECUTE format('GRANT SELECT ON %I TO counterfoil_app, counterfoil_retention', name);
    END LOOP;
END $$;
GRANT SELECT ON payload TO counterfoil_app, counterfoil_retention;

-- It records, empties, and reads no content: what it may see is which rows there are and when they came to be.
GRANT USAGE ON SCHEMA public TO counterfoil_retention;
GRANT INSERT (asked_by, reason, cutoff, requests, receipts) ON erasure TO counterfoil_retention;
GRANT INSERT ON erased_request, erased_receipt TO counterfoil_retention;
GRANT SELECT (id) ON request TO counterfoil_retention;
GRANT SELECT (id, request_id, from_run, state, state_since) ON run TO counterfoil_retention;
GRANT SELECT (operation_key, signal) ON answer TO counterfoil_retention;
GRANT SELECT (operation_key, found) ON probe TO counterfoil_retention;
GRANT SELECT (id, received_at), UPDATE (body) ON receipt TO counterfoil_retention;
GRANT SELECT (id, receipt_id, request_id, inputs_sha256, disposition, received_at), UPDATE (inputs) ON delivery
    TO counterfoil_retention;
GRANT SELECT (request_id, recorded_at), UPDATE (canonical) ON input_version TO counterfoil_retention;
GRANT SELECT (id, run_id, request_id, decided_at), UPDATE (comment) ON decision TO counterfoil_retention;
GRANT SELECT (decision_id, at), UPDATE (reason) ON revocation TO counterfoil_retention;
GRANT SELECT (key, request_id, outcome, in_flight_attempt, created_at), UPDATE (content) ON operation
    TO counterfoil_retention;
GRANT SELECT (request_id, recorded_at), UPDATE (content) ON reading TO counterfoil_retention;
GRANT SELECT (run_id, at), UPDATE (reason, evidence) ON resolution TO counterfoil_retention;
