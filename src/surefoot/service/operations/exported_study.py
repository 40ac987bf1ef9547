"""The study file that goes with an export: the study that was served, with `[collection]` as the trial made its logs."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from surefoot.errors import InputError
from surefoot.learning.pooling import find_pooling
from surefoot.service.database.clock import now
from surefoot.service.database.schema import activations, decisions, policies, to_microseconds
from surefoot.service.trial.decision_clock import count_times
from surefoot.service.trial.trial import Trial, load_stored_study
from surefoot.study import CollectionSection, Study

SECTION = re.compile(r"^[ \t]*\[collection\][^\n]*\n(?:(?![ \t]*\[)[^\n]*\n)*", re.MULTILINE)
"""From its header to the next one."""
PASTE = "# Written by surefoot export. Put this table into the study, in place of its own [collection].\n"
COMMENT = "# Written by surefoot export: how the trial chose its actions.\n"


def write_study_text(trial: Trial) -> str:
    """The text of a study for the exported decisions; only the table, for one that was not served from a file."""
    collection = describe_collection(trial)
    table = _write_table(collection)
    text = SECTION.sub(lambda section: _keep_comments(section[0]), f"{trial.study.text.rstrip()}\n")
    complete = f"{text.rstrip()}\n\n{COMMENT}{table}"
    try:
        if Study.parse(complete).collection == collection:
            return complete
    except InputError:
        pass  # another spelling of the table, or no TOML
    return PASTE + table


def describe_collection(trial: Trial) -> CollectionSection:
    """How the actions of the trial's decisions were chosen.

    A policy that was live before the first decision, such as a pilot's, changed nothing during the trial.
    """
    versions = sa.select(activations.c.activated_at, policies.c.update_id, policies.c.study_id).join_from(
        activations, policies, activations.c.policy_id == policies.c.id
    )
    with trial.database.snapshot() as connection:
        first = connection.scalar(sa.select(sa.func.min(decisions.c.received_at)))
        rows = connection.execute(versions.order_by(activations.c.id)).all()
    later = [row for row in rows if first is not None and row.activated_at >= first]
    if not later:
        return CollectionSection(policy="fixed")
    learned = [load_stored_study(trial.database, row.study_id) for row in later if row.update_id is not None]
    pooled = any(find_pooling(study.pooling).needs_everybody for study in learned)
    changes = _find_changes(trial, [row.activated_at for row in rows], first)
    return CollectionSection(policy="pooled" if pooled else "own", updates=_format_times(trial.study, changes))


def _find_changes(trial: Trial, activated: list[datetime], first: Any) -> list[datetime]:
    """When another rule began to decide: a policy went live, or the live one became stale and the fallback took over."""
    valid = timedelta(days=trial.settings.policy_days)
    ends = [*activated[1:], now()]
    stale = [begin + valid for begin, end in zip(activated, ends, strict=True) if begin + valid < end]
    return sorted(moment for moment in (*activated, *stale) if moment >= first)


def _format_times(study: Study, moments: list[datetime]) -> tuple[str, ...]:
    """As the time column has them; decision points that are counted have no common clock."""
    if not study.has_clock_days:
        return ()
    times = count_times(study, [to_microseconds(moment) for moment in moments], range(len(moments)))
    return tuple(moment.isoformat() for moment in times.tolist())


def _write_table(collection: CollectionSection) -> str:
    lines = ["[collection]", f"policy = {json.dumps(collection.policy)}"]
    if collection.updates:
        lines.append("updates = [")
        lines += [f"  {json.dumps(time)}," for time in collection.updates]
        lines.append("]")
    return "\n".join(lines) + "\n"


def _keep_comments(section: str) -> str:
    """Comments after the last key of a section belong to the next one."""
    lines = section.splitlines(keepends=True)
    while lines and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
        lines.pop()
    return section[sum(map(len, lines)) :]
