"""PostgreSQL records decisions by one call, if what they were decided on still holds."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"

# Each statement of the function sees what was committed before it began: the lock first, then whether anything changed. The
# lock is the ledger's, which every decision waits for anyway.
RECORD = """
CREATE FUNCTION surefoot_record_decisions(assumed json, added json, moment bigint, content text, digest bytea)
RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
  PERFORM pg_advisory_xact_lock(7355204);
  IF EXISTS (
    SELECT FROM json_to_recordset(assumed)
      AS one (participant_id text, last_idx integer, own_event_id bigint, study_event_id bigint, activation_id bigint)
    WHERE (last_idx, own_event_id, study_event_id, activation_id) IS DISTINCT FROM (
      (SELECT max(decision_idx) FROM decisions WHERE decisions.participant_id = one.participant_id),
      (SELECT max(id) FROM participant_events WHERE participant_events.participant_id = one.participant_id),
      (SELECT max(id) FROM participant_events WHERE participant_events.participant_id IS NULL),
      (SELECT max(id) FROM activations)
    )
  ) THEN RETURN false; END IF;
  INSERT INTO decisions SELECT * FROM json_populate_recordset(NULL::decisions, added);
  PERFORM surefoot_extend_ledger(moment, content, digest);
  RETURN true;
END $$
"""


def upgrade() -> None:
    """Apply it."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute(RECORD)
