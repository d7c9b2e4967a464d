-- A hold is of the credential that was refused, by its mark: another one is not held, and whoever still has the refused
-- one holds nobody else. `refused` is emptied when somebody says that the cause is mended.
ALTER TABLE shared_limit ADD COLUMN refused text[] NOT NULL DEFAULT '{}';

-- Refresh tokens that were configured before the present one: each is taken up once, so that two processes with
-- different settings do not put each other's back.
ALTER TABLE credential ADD COLUMN former_seeds bytea[] NOT NULL DEFAULT '{}';

-- All runs wait. True for the one who said so first. A mark that is known as refused, and is not what holds any more, is
-- a process with a former credential; tokens that were renewed meanwhile are not held.
CREATE FUNCTION limit_hold_mark(p_system text, p_scope text, p_reason text, p_gap interval, p_mark text)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    own shared_limit%ROWTYPE;
BEGIN
    IF starts_with(p_mark, 'renewal ') AND EXISTS (
        SELECT FROM credential WHERE (system, scope) = (p_system, p_scope) AND refused_at IS NULL
    ) THEN
        RETURN false;
    END IF;
    INSERT INTO shared_limit (system, scope, gap) VALUES (p_system, p_scope, p_gap) ON CONFLICT DO NOTHING;
    SELECT * INTO own FROM shared_limit WHERE (system, scope) = (p_system, p_scope) FOR UPDATE;
    IF p_mark = ANY (own.refused) THEN
        RETURN false;
    END IF;
    IF p_mark <> '' THEN
        UPDATE shared_limit SET refused = array_append(refused, p_mark) WHERE (system, scope) = (p_system, p_scope);
    END IF;
    RETURN limit_hold(p_system, p_scope, p_reason, p_gap);
END $$;

-- Ends a hold of other credentials than this one. One that was refused before and is in use again is good until it is
-- refused anew.
CREATE FUNCTION limit_lift(p_system text, p_scope text, p_mark text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    own shared_limit%ROWTYPE;
BEGIN
    SELECT * INTO own FROM shared_limit WHERE (system, scope) = (p_system, p_scope) FOR UPDATE;
    IF own.held IS NULL THEN
        UPDATE shared_limit SET refused = array_remove(refused, p_mark) WHERE (system, scope) = (p_system, p_scope);
    END IF;
    IF p_mark = '' OR own.held IS NULL OR own.refused = '{}' OR p_mark = ANY (own.refused) THEN
        RETURN false;
    END IF;
    RETURN limit_release(p_system, p_scope);
END $$;
