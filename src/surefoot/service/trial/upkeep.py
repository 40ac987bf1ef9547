"""Upkeep: what must go on besides the decisions, and what of it is late or failing: messages, backups, seals, disks."""

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import sqlalchemy as sa

from surefoot.service.database.schema import decisions, messages, participants, staff_actions
from surefoot.service.trial.participants import PAUSED, WITHDRAWN, find_statuses
from surefoot.service.trial.trial import Trial

PEOPLE_NAMED = 5
ATTEMPTS = 12
"""How often a message is tried; then it is given up."""
IS_UNDELIVERED = sa.and_(
    messages.c.sent_at.is_(None), sa.or_(messages.c.error.is_not(None), messages.c.attempts >= ATTEMPTS)
)
"""Of a message: it could not be handed over at least once and still waits, or was given up."""
WAITS_FOR = timedelta(hours=2)
"""How long a message may wait at most: an attempt comes each hour, and so do messages above the limit of an hour."""
LOST_FOR = timedelta(days=7)
"""How long a message that was given up is a trouble, when later ones arrived."""
BACKED_UP = "backed up"
SEALED = "sealed"
LATE = {BACKED_UP: ("backup", "surefoot backup"), SEALED: ("seal", "surefoot seal")}
"""Staff actions that must come again and again: the kind of the alert when one is late, and the command."""


@dataclass(frozen=True)
class Trouble:
    """One thing that is not as it should be now."""

    kind: str
    """A kind of alert."""
    message: str
    is_new: bool = True
    """Whether it deserves another alert today."""


def find_upkeep_troubles(trial: Trial, connection: sa.Connection, at: datetime) -> Iterator[Trouble]:
    """Everything that is late or failing at this moment."""
    yield from _find_silence(trial, connection, at)
    yield from _find_failing_messages(connection, at)
    yield from _find_late_actions(trial, connection, at)
    for folder in list_folders(trial):
        free = shutil.disk_usage(folder).free / 1e9
        if free < trial.settings.alerts.disk_gigabytes:
            yield Trouble("disk", f"{folder} has {free:.1f} GB left; make space, or no decision can be recorded")


def _find_silence(trial: Trial, connection: sa.Connection, at: datetime) -> Iterator[Trouble]:
    """Participants from whom nothing came in a long time; who is paused or has withdrawn may be silent."""
    days = trial.settings.alerts.silent_days
    limit = at - timedelta(days=days)
    # What a clock ahead of time dated into the future is no sign of life.
    past = sa.and_(decisions.c.participant_id == participants.c.id, decisions.c.received_at <= at)
    last = sa.func.coalesce(sa.func.max(decisions.c.received_at), sa.func.max(participants.c.registered_at))
    people = sa.select(participants.c.id, last.label("last")).select_from(participants.outerjoin(decisions, past))
    ordered = people.group_by(participants.c.id).having(last < limit).order_by(last, participants.c.id)
    rows = connection.execute(ordered).all()
    statuses = find_statuses(connection, [row.id for row in rows]) if rows else {}
    silent = [row for row in rows if statuses.get(row.id) not in (PAUSED, WITHDRAWN)]
    if silent and statuses.get(None) != PAUSED:
        named = ", ".join(row.id for row in silent[:PEOPLE_NAMED])
        named += f" and {len(silent) - PEOPLE_NAMED} others" if silent[PEOPLE_NAMED:] else ""
        verb = "participants have" if len(silent) > 1 else "participant has"
        message = f"{len(silent)} {verb} been silent for more than {days:g} days: {named}"
        yield Trouble("silence", message, is_new=silent[-1].last >= limit - timedelta(days=1))


def _find_failing_messages(connection: sa.Connection, at: datetime) -> Iterator[Trouble]:
    """A channel fails while its newest messages do not leave, and for a week after it lost one."""
    sent = sa.select(messages.c.channel, sa.func.max(messages.c.sent_at).label("sent_at")).group_by(messages.c.channel)
    last_sent = {row.channel: row.sent_at for row in connection.execute(sent)}
    failing = Counter[str]()
    waits = sa.and_(messages.c.sent_at.is_(None), messages.c.created_at.between(at - LOST_FOR, at - WAITS_FOR))
    for row in connection.execute(sa.select(messages).where(IS_UNDELIVERED | waits)):
        last = last_sent.get(row.channel)
        was_lost = row.attempts >= ATTEMPTS and at - row.created_at < LOST_FOR
        failing[row.channel] += was_lost or last is None or row.created_at > last
    if failing.total():
        channels = " and ".join(channel for channel, number in failing.items() if number)
        plural = "" if failing.total() == 1 else "s"
        yield Trouble("messages", f"{failing.total()} message{plural} by {channels} did not reach the team")


def _find_late_actions(trial: Trial, connection: sa.Connection, at: datetime) -> Iterator[Trouble]:
    """Backups and seals that did not come, once there are decisions to lose."""
    began = connection.scalar(sa.select(sa.func.min(decisions.c.received_at)))
    hours = {BACKED_UP: trial.settings.alerts.backup_hours, SEALED: trial.settings.alerts.seal_hours}
    for action, (kind, command) in LATE.items():
        done = sa.and_(staff_actions.c.action == action, staff_actions.c.done_at <= at)
        last = connection.scalar(sa.select(sa.func.max(staff_actions.c.done_at)).where(done))
        if began is not None and at - (last or began) > timedelta(hours=hours[action]):
            since = "since the first decision" if last is None else f"since {last:%Y-%m-%d %H:%M} UTC"
            yield Trouble(kind, f"there was no {kind} {since}; run {command}, and find out why the last one is late")


def list_folders(trial: Trial) -> list[Path]:
    """The folders of this machine that the trial writes to."""
    folders = []
    if trial.database.is_sqlite:
        folders.append(Path(str(trial.database.engine.url.database)).resolve().parent)
    if trial.settings.backup.folder is not None:
        folders.append(Path(trial.settings.backup.folder))
    return [folder for folder in folders if folder.is_dir()]
