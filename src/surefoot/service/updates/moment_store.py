"""Everybody's moments between two updates: the next one reads only what is new.

They follow decision points that are added and outcomes that arrive late. What they cannot follow (a correction, an erasure,
a withdrawal, another study) and a method that needs more than moments make the next update read everything again. So does
every seventh update: nothing rests on them for longer than that.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from surefoot.data.joined_logs import find_again
from surefoot.errors import InputError
from surefoot.fitting.kept_moments import KeptMoments, list_points
from surefoot.policies.training import KnownTraining
from surefoot.service.database.schema import decisions, kept_moments, outcomes, participant_events, to_microseconds
from surefoot.service.trial.decision_clock import ORDERED, read_times
from surefoot.service.trial.outcomes import IS_WITHDRAWN
from surefoot.service.trial.point_query import WITHDRAWN
from surefoot.service.trial.trial import Trial
from surefoot.service.updates.trial_logs import DECISIONS, read_rows
from surefoot.trial_rules.onward_fit import EarlierUpdate
from surefoot.trial_rules.proposals import Proposal, find_need_for_rows

MOST_IN_A_ROW = 6
"""So many updates go on from moments before everything is read again."""
LEAST_ROWS = 100
"""The checks look at what is new: fewer decision points do not show what a policy would do in other states."""


@dataclass(frozen=True)
class UpdateRows:
    """What an update learns from."""

    rows: list[Any]
    """All decisions, or those that are new or were waiting for an outcome."""
    earlier: EarlierUpdate | None
    """The moments of all others; None where these are all."""
    why_all: str | None
    """Why everything was read; None where it was not."""
    marks: dict[str, int]
    """How far the database was read."""


def read_update_rows(trial: Trial, connection: sa.Connection) -> UpdateRows:
    """What is new since the moments that were kept, or everything; in one snapshot."""
    marks = _measure_marks(connection)
    learn_from_all = trial.settings.learn_from_withdrawn
    kept = connection.execute(sa.select(kept_moments)).mappings().first()
    try:
        earlier, before = _load(trial, connection, kept)
        rows = _read_new(connection, before, without_withdrawn=not learn_from_all)
        _refuse_corrected(trial, earlier, rows, before)
        if not rows:
            raise InputError("nothing is new")
        if len(rows) < LEAST_ROWS:
            raise InputError(f"fewer than {LEAST_ROWS} decision points are new, too few to check a policy on")
    except InputError as error:
        found = read_rows(connection, without_withdrawn=not learn_from_all)
        return UpdateRows(found, None, str(error), {**marks, "in_a_row": 0})
    training = _read_training(trial, connection, without_withdrawn=not learn_from_all)
    return UpdateRows(rows, EarlierUpdate(earlier, training), None, {**marks, "in_a_row": before["in_a_row"] + 1})


def _measure_marks(connection: sa.Connection) -> dict[str, int]:
    """How far the database has come."""
    last = connection.scalar(sa.select(sa.func.max(outcomes.c.id)))
    received = connection.scalar(sa.select(sa.func.max(decisions.c.received_at)))
    marks = {"outcome": last or 0, "received": 0 if received is None else to_microseconds(received)}
    return {**marks, **_count_until(connection, marks)}


def _count_until(connection: sa.Connection, marks: dict[str, int]) -> dict[str, int]:
    """How much content there is up to a mark: a transaction that ended late, or an erasure, shows as another number."""
    plain = sa.type_coerce(decisions.c.received_at, sa.BigInteger)
    counts = {
        "outcomes": sa.select(sa.func.count()).where(outcomes.c.id <= marks["outcome"], outcomes.c.salt.is_not(None)),
        "decisions": sa.select(sa.func.count()).where(plain <= marks["received"], decisions.c.salt.is_not(None)),
        "withdrawn": sa.select(sa.func.count()).where(participant_events.c.kind == WITHDRAWN),
    }
    return {name: int(connection.scalar(query) or 0) for name, query in counts.items()}


def _load(trial: Trial, connection: sa.Connection, kept: Any) -> tuple[KeptMoments, dict[str, int]]:
    """The moments and how far they reach; refused where an update has to read everything."""
    from pyarrow import parquet

    needed = find_need_for_rows(trial.study)
    if needed is not None:
        raise InputError(needed)
    if kept is None:
        raise InputError("no moments were kept")
    before = json.loads(kept["marks"])
    now = _count_until(connection, before)
    if not trial.settings.learn_from_withdrawn and now["withdrawn"] != before["withdrawn"]:
        raise InputError("somebody withdrew")
    if any(now[name] != before[name] for name in ("outcomes", "decisions")):
        raise InputError("decision points or outcomes that were counted have changed")
    if before["in_a_row"] >= MOST_IN_A_ROW:
        raise InputError(f"{MOST_IN_A_ROW} updates in a row went on from moments")
    table = parquet.read_table(io.BytesIO(kept["content"]))
    return KeptMoments.of_table(table, trial.study, "the moments"), before


def _read_new(connection: sa.Connection, before: dict[str, int], *, without_withdrawn: bool) -> list[Any]:
    plain = sa.type_coerce(decisions.c.received_at, sa.BigInteger)
    told = sa.select(outcomes.c.decision_id).where(outcomes.c.id > before["outcome"], ~outcomes.c.late)
    arrived = sa.and_(decisions.c.available, decisions.c.id.in_(told))
    wanted = DECISIONS.where(decisions.c.salt.is_not(None), sa.or_(plain > before["received"], arrived))
    if without_withdrawn:
        wanted = wanted.where(~IS_WITHDRAWN)
    return list(connection.execute(wanted).mappings())


def _read_training(trial: Trial, connection: sa.Connection, *, without_withdrawn: bool) -> KnownTraining:
    """Whose decision points there are, and their times: none of their content."""
    columns = (decisions.c.participant_id, decisions.c.decision_idx, ORDERED.c.ordered_at)
    wanted = sa.select(*columns).join_from(decisions, ORDERED, ORDERED.c.id == decisions.c.id)
    wanted = wanted.where(decisions.c.salt.is_not(None))
    rows = connection.execute(wanted.where(~IS_WITHDRAWN) if without_withdrawn else wanted).mappings().all()
    return _list_points(trial, rows)


def _list_points(trial: Trial, rows: Sequence[Any]) -> KnownTraining:
    return list_points([row["participant_id"] for row in rows], read_times(trial.study, rows))


def _refuse_corrected(trial: Trial, earlier: KeptMoments, rows: list[Any], before: dict[str, int]) -> None:
    """An outcome of a decision point that was counted with another one."""
    old = [row for row in rows if to_microseconds(row["received_at"]) <= before["received"]]
    if old and (find_again(earlier.waiting, _list_points(trial, old)) < 0).any():
        raise InputError("an outcome that was counted was corrected")


def pack_moments(trial: Trial, update_id: int, proposal: Proposal, marks: dict[str, int]) -> dict[str, Any] | None:
    """The row of the moments that the next update can go on from.

    Only what passed the checks is kept: what was refused, or not checked yet, must be looked at again.
    """
    from pyarrow import parquet

    if proposal.state != "done" or find_need_for_rows(trial.study) is not None:
        return None
    kept = proposal.kept or KeptMoments.of_logs(trial.study, proposal.logs)
    content = io.BytesIO()
    parquet.write_table(kept.to_table(trial.study), content)
    return {"update_id": update_id, "study_id": trial.study_id, "marks": json.dumps(marks), "content": content.getvalue()}


def keep_moments(connection: sa.Connection, row: dict[str, Any]) -> None:
    """In place of those that were kept before; in the caller's transaction."""
    connection.execute(sa.delete(kept_moments))
    connection.execute(sa.insert(kept_moments).values(**row))
