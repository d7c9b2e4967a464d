-- What a system asked all of our runs to respect, by account, and the turns that are handed out while it does.
-- `throttle` stays the hint that is read with every run: whether there is anything to respect at all.

CREATE TABLE shared_limit (
    system    text        NOT NULL,
    scope     text        NOT NULL,
    opens_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    next_turn timestamptz NOT NULL DEFAULT clock_timestamp(),
    gap       interval    NOT NULL,
    held      text,
    held_at   timestamptz,
    PRIMARY KEY (system, scope)
);

CREATE TABLE limit_turn (
    system text        NOT NULL,
    scope  text        NOT NULL,
    run_id text        NOT NULL REFERENCES run (id),
    turn   timestamptz NOT NULL,
    PRIMARY KEY (system, scope, run_id)
);

-- Tokens that are renewed by themselves. `version` counts renewals; `renewing_until` is one renewer's claim.
CREATE TABLE credential (
    system         text        NOT NULL,
    scope          text        NOT NULL,
    seed_sha256    bytea       NOT NULL,
    refresh_token  bytea       NOT NULL,
    access_token   bytea,
    expires_at     timestamptz,
    version        integer     NOT NULL DEFAULT 0,
    renewing_until timestamptz,
    refused_at     timestamptz,
    renewed_at     timestamptz,
    PRIMARY KEY (system, scope)
);

CREATE FUNCTION limit_hint(p_system text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO throttle (system, until)
    SELECT p_system, max(CASE WHEN held IS NULL THEN greatest(opens_at, next_turn) ELSE '9999-01-01' END)
    FROM shared_limit WHERE system = p_system HAVING count(*) > 0
    ON CONFLICT (system) DO UPDATE SET until = excluded.until
$$;

-- A limit was hit. It only ever grows; turns that were handed out move behind it in their order. Hit again while turns
-- are still handed out, the turns were too close to each other.
CREATE FUNCTION limit_hit(p_system text, p_scope text, p_wait interval, p_gap interval) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    own   shared_limit%ROWTYPE;
    opens timestamptz := clock_timestamp() + p_wait;
    first timestamptz;
BEGIN
    INSERT INTO shared_limit (system, scope, gap) VALUES (p_system, p_scope, p_gap) ON CONFLICT DO NOTHING;
    SELECT * INTO own FROM shared_limit WHERE (system, scope) = (p_system, p_scope) FOR UPDATE;
    IF own.next_turn <= clock_timestamp() THEN
        DELETE FROM limit_turn WHERE (system, scope) = (p_system, p_scope);
        own.gap := p_gap;
    ELSIF own.opens_at <= clock_timestamp() THEN
        own.gap := least(own.gap * 2, interval '10 seconds');
    END IF;
    opens := greatest(opens, own.opens_at);
    SELECT min(turn) INTO first FROM limit_turn WHERE (system, scope) = (p_system, p_scope);
    IF first < opens THEN
        UPDATE limit_turn SET turn = turn + (opens - first) WHERE (system, scope) = (p_system, p_scope);
        own.next_turn := own.next_turn + (opens - first);
    END IF;
    UPDATE shared_limit SET opens_at = opens, next_turn = greatest(own.next_turn, opens), gap = own.gap
        WHERE (system, scope) = (p_system, p_scope);
    PERFORM limit_hint(p_system);
END $$;

-- This run's turn: the one it has, or the next one. A turn that has come is used up where `p_use` says so.
CREATE FUNCTION limit_turn_of(p_system text, p_scope text, p_run text, p_use boolean,
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
        END IF;
    END IF;
END $$;

-- All runs wait until somebody mends the cause. True for the one who said so first.
CREATE FUNCTION limit_hold(p_system text, p_scope text, p_reason text, p_gap interval) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    first boolean;
BEGIN
    INSERT INTO shared_limit (system, scope, gap) VALUES (p_system, p_scope, p_gap) ON CONFLICT DO NOTHING;
    UPDATE shared_limit SET held = p_reason, held_at = clock_timestamp()
        WHERE (system, scope) = (p_system, p_scope) AND held IS NULL;
    first := FOUND;
    PERFORM limit_hint(p_system);
    RETURN first;
END $$;

-- The cause is mended: whoever waits goes on, one turn after the other.
CREATE FUNCTION limit_release(p_system text, p_scope text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    was_held boolean;
BEGIN
    UPDATE shared_limit SET held = NULL, held_at = NULL, opens_at = clock_timestamp(), next_turn = clock_timestamp() + gap
        WHERE (system, scope) = (p_system, p_scope) AND held IS NOT NULL;
    was_held := FOUND;
    PERFORM limit_hint(p_system);
    RETURN was_held;
END $$;

GRANT SELECT, INSERT, UPDATE ON shared_limit, credential TO counterfoil_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON limit_turn TO counterfoil_app;
