"""Retention: content that is older than the study keeps it is erased by the schedule, never because a clock is wrong.

A night erases what one night's share can be. More than that, or a clock that was set, waits for a second look a day later,
and the team is alerted meanwhile.
"""

from datetime import datetime, timedelta

import sqlalchemy as sa

from surefoot.service.database.ledger import claim_new_job, release_jobs
from surefoot.service.database.schema import decisions, scheduled
from surefoot.service.trial.alerts import raise_alert
from surefoot.service.trial.participants import Erasure, erase_expired
from surefoot.service.trial.trial import Trial

SECOND_LOOK = timedelta(hours=23)
"""How long after the first look the second one may come: the schedule looks once a day."""
NIGHT_SHARE = timedelta(days=2)
"""Content that is overdue by more would have gone in an earlier night, had the clock been right and the service on."""
FIRST_LOOK = "retention: first look"
"""The job that remembers when more than a night's share was first seen."""


def erase_by_schedule(trial: Trial, at: datetime, steady_since: datetime) -> Erasure | None:
    """Erase what the study no longer keeps; None where nothing is due or the second look is still to come.

    `steady_since` is the moment since which the clock has run without a jump and the schedule without a long break.
    """
    days = trial.settings.keep_days
    if days is None:
        return None
    before = at - timedelta(days=days)
    due = sa.and_(decisions.c.salt.is_not(None), decisions.c.received_at < before)
    first_look = sa.select(scheduled.c.taken_at).where(scheduled.c.job == FIRST_LOOK)
    with trial.database.transaction() as connection:
        number, oldest = connection.execute(
            sa.select(sa.func.count(), sa.func.min(decisions.c.received_at)).where(due)
        ).one()
        looked_at = connection.scalar(first_look)
        if looked_at is not None and (oldest is None or not steady_since <= looked_at <= at):
            # Nothing is due any more, or the look was taken by a clock that was set since.
            release_jobs(connection, scheduled.c.job == FIRST_LOOK)
            looked_at = None
        if oldest is None:
            return None
        is_steady = at - steady_since >= SECOND_LOOK
        if not is_steady or before - oldest > NIGHT_SHARE:
            if looked_at is None:
                claim_new_job(connection, FIRST_LOOK, at)
            if looked_at is None or at - looked_at < SECOND_LOOK:
                why = (
                    "more than one night's share"
                    if is_steady
                    else f"the clock is steady only since {steady_since:%Y-%m-%d %H:%M} UTC"
                )
                message = (
                    f"{number:,} decisions are older than the {days:g} days that the study keeps them, the oldest of "
                    f"{oldest:%Y-%m-%d}; nothing was erased yet: {why}. They are erased after a second look a day later; "
                    "check the server's clock and keep_days before then"
                )
                raise_alert(connection, kind="retention", occasion=f"retention:{at:%Y-%m-%d}", message=message)
                return None
    return erase_expired(trial, at)
