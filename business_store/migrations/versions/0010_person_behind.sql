-- Four eyes rest on the person behind an actor, found in two steps: so there are never more.

CREATE FUNCTION guard_actor() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF NEW.acts_for IS NOT NULL
       AND (NEW.kind <> 'service' OR NOT EXISTS (SELECT FROM actor WHERE id = NEW.acts_for AND kind = 'person'))
    THEN
        RAISE EXCEPTION 'actor %: a service acts for a person', NEW.id
            USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'actor_acts_for_person';
    END IF;
    IF NEW.merged_into IS NOT NULL
       AND NOT EXISTS (SELECT FROM actor WHERE id = NEW.merged_into AND kind IN ('person', 'service'))
    THEN
        RAISE EXCEPTION 'actor %: a CRM user becomes a person or a service', NEW.id
            USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'actor_merged_into_known';
    END IF;
    IF TG_OP = 'UPDATE' AND (NEW.id, NEW.kind, NEW.acts_for) IS DISTINCT FROM (OLD.id, OLD.kind, OLD.acts_for) THEN
        RAISE EXCEPTION 'actor %: who somebody is never changes', OLD.id
            USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'actor_identity';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER actor_guard BEFORE INSERT OR UPDATE ON actor FOR EACH ROW EXECUTE FUNCTION guard_actor();
