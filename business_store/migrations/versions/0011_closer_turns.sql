-- A turn that was used without meeting the limit again brings the later ones a little closer: else a pace that was
-- doubled some times would stay as slow for as long as anybody waits.

ALTER TABLE shared_limit ADD COLUMN least_gap interval NOT NULL DEFAULT interval '200 milliseconds';

CREATE OR REPLACE FUNCTION limit_turn_of(p_system text, p_scope text, p_run text, p_use boolean,
    OUT turn timestamptz, OUT held text) LANGUAGE plpgsql AS $$
DECLARE
    own shared_limit%ROWTYPE;
BEGIN
    SELECT * INTO own FROM shared_limit WHERE (system, scope) = (p_system, p_scope) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    held := own.held;
    IF held IS NOT NULL OR greatest(own.opens_at, own.next_turn) <= clock_timestamp() THEN
        RETURN;
    END IF;
    SELECT t.turn INTO turn FROM limit_turn t WHERE (t.system, t.scope, t.run_id) = (p_system, p_scope, p_run);
    IF turn IS NULL THEN
        turn := greatest(own.next_turn, own.opens_at, clock_timestamp());
        INSERT INTO limit_turn (system, scope, run_id, turn) VALUES (p_system, p_scope, p_run, turn);
        UPDATE shared_limit SET next_turn = limit_turn_of.turn + gap WHERE (system, scope) = (p_system, p_scope);
        PERFORM limit_hint(p_system);
    END IF;
    IF turn <= clock_timestamp() THEN
        turn := NULL;
        IF p_use THEN
            DELETE FROM limit_turn t WHERE (t.system, t.scope, t.run_id) = (p_system, p_scope, p_run);
            UPDATE shared_limit SET gap = greatest(gap * 0.8, least_gap) WHERE (system, scope) = (p_system, p_scope);
        END IF;
    END IF;
END $$;
