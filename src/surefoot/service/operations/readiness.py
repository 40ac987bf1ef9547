"""Readiness: a service that cannot write cannot answer, whatever it can read."""

from __future__ import annotations

import sqlalchemy as sa

from surefoot.service.database.clock import now
from surefoot.service.database.databases import Database
from surefoot.service.database.schema import scheduled

JOB = "readiness"


def write_readiness(database: Database) -> None:
    """Write one row to the disk; raises what the database raises when it is full, read-only or away."""
    with database.transaction() as connection:
        changed = connection.execute(sa.update(scheduled).where(scheduled.c.job == JOB).values(taken_at=now()))
        if not changed.rowcount:
            connection.execute(database.insert_new(scheduled), {"job": JOB, "taken_at": now()})
