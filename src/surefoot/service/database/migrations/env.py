"""How Alembic reaches the database that `surefoot.service.database` gives it."""

import sqlalchemy as sa
from alembic import context

from surefoot.service.database.databases import Database, lift_time_limit
from surefoot.service.database.schema import metadata

LOCK = 7_355_203
"""Any number, the same for all: two upgrades of one PostgreSQL database wait for each other."""


def upgrade() -> None:
    """One transaction: an upgrade happens whole or not at all. An empty database gets today's tables."""
    database: Database = context.config.attributes["database"]
    with database.transaction() as connection:
        if not database.is_sqlite:
            lift_time_limit(connection)
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
        context.configure(connection=connection, target_metadata=metadata, transactional_ddl=False)
        migrations = context.get_context()
        if migrations.get_current_revision() is None:
            metadata.create_all(connection)
            migrations.stamp(context.script, "head")
        else:
            context.run_migrations()


upgrade()
