-- One HTTP request carries the attempts of one operation, or of several of one kind: a dispatch.

CREATE TABLE dispatch (
    id           text        PRIMARY KEY CHECK (id <> ''),
    system       text        NOT NULL,
    kind         text        NOT NULL,
    permitted_at timestamptz NOT NULL
);

-- Every attempt so far went alone.
ALTER TABLE attempt ADD COLUMN dispatch_id text;
INSERT INTO dispatch (id, system, kind, permitted_at)
    SELECT 'dsp-' || a.token, o.system, o.kind, a.permitted_at FROM attempt a JOIN operation o ON o.key = a.operation_key;
ALTER TABLE attempt DISABLE TRIGGER insert_only;
UPDATE attempt SET dispatch_id = 'dsp-' || token;
ALTER TABLE attempt ENABLE TRIGGER insert_only;
ALTER TABLE attempt ALTER COLUMN dispatch_id SET NOT NULL,
    ADD CONSTRAINT attempt_dispatch_id_fkey FOREIGN KEY (dispatch_id) REFERENCES dispatch (id) DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX attempt_of_dispatch ON attempt (dispatch_id);

-- The former release names no dispatch: as long as it runs beside this one, each of its attempts brings its own.
CREATE FUNCTION name_dispatch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.dispatch_id := 'dsp-' || NEW.token;
    RETURN NEW;
END $$;
CREATE TRIGGER attempt_names_dispatch BEFORE INSERT ON attempt FOR EACH ROW WHEN (NEW.dispatch_id IS NULL)
    EXECUTE FUNCTION name_dispatch();

-- What goes out in one request is of one kind. Permits write operation, dispatch and attempt in one statement, so this is
-- judged when the statement ends.
CREATE FUNCTION guard_dispatch() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    op   operation%ROWTYPE;
    sent dispatch%ROWTYPE;
BEGIN
    SELECT * INTO op FROM operation WHERE key = NEW.operation_key;
    INSERT INTO dispatch (id, system, kind, permitted_at) VALUES (NEW.dispatch_id, op.system, op.kind, NEW.permitted_at)
        ON CONFLICT DO NOTHING;
    SELECT * INTO sent FROM dispatch WHERE id = NEW.dispatch_id;
    IF (sent.system, sent.kind) IS DISTINCT FROM (op.system, op.kind) THEN
        RAISE EXCEPTION 'dispatch % carries %.%, not %.%', sent.id, sent.system, sent.kind, op.system, op.kind
            USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'dispatch_of_one_kind';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER dispatch_guard AFTER INSERT ON attempt FOR EACH ROW EXECUTE FUNCTION guard_dispatch();
