-- The three accounts and the database that Counterfoil expects; run as superuser before every migration.
-- Run again it sets the passwords to what the secret files say and changes nothing else, so it also rotates them.
\set ON_ERROR_STOP on
\set owner_password `cat "$SECRETS/store_owner_password"`
\set app_password `cat "$SECRETS/store_app_password"`
\set retention_password `cat "$SECRETS/store_retention_password"`

-- An empty file would make an account that needs no secret to be guessed.
SELECT least(length(:'owner_password'), length(:'app_password'), length(:'retention_password')) < 16 AS too_short \gset
\if :too_short
    \warn 'store_owner_password, store_app_password and store_retention_password must have 16 characters or more;'
    \warn 'deploy/secrets.sh makes them'
    SELECT 1 / 0 AS refused;
\endif

SELECT format(
    '%s ROLE %I LOGIN PASSWORD %L',
    CASE WHEN EXISTS (SELECT FROM pg_roles WHERE rolname = wanted.role) THEN 'ALTER' ELSE 'CREATE' END,
    wanted.role,
    wanted.password
)
FROM (VALUES
    ('counterfoil_owner', :'owner_password'),
    ('counterfoil_app', :'app_password'),
    ('counterfoil_retention', :'retention_password')
) AS wanted (role, password)
\gexec

SELECT 'CREATE DATABASE counterfoil OWNER counterfoil_owner'
WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = 'counterfoil')
\gexec

REVOKE ALL ON DATABASE counterfoil FROM PUBLIC;
GRANT CONNECT ON DATABASE counterfoil TO counterfoil_app, counterfoil_retention;
