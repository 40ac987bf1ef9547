-- Two roles: the owner makes and changes tables, the service reads and writes rows and can neither drop nor disable a trigger.
-- Run it as the owner after every `surefoot db upgrade`: psql -v ON_ERROR_STOP=1 -f deploy/postgresql-roles.sql trial
-- Then give the role a password (\password surefoot_service) and serve with postgresql://surefoot_service@…/trial.
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'surefoot_service') THEN
    CREATE ROLE surefoot_service LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE;
  END IF;
  EXECUTE format('GRANT CONNECT, TEMPORARY ON DATABASE %I TO surefoot_service', current_database());
END $$;
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO surefoot_service;
GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO surefoot_service;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO surefoot_service;
GRANT DELETE ON scheduled TO surefoot_service;
REVOKE INSERT, UPDATE ON alembic_version FROM surefoot_service;
-- Tables to which rows are only ever added.
REVOKE UPDATE ON studies, policies, activations, participant_events, ledger, staff_actions, erasures, secrets, participants
  FROM surefoot_service;
