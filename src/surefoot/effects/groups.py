"""Groups that a study names in `[groups]`: prompts, outcomes, missing values and effects of each.

Whether prompts reach, help or lose some people more than others is asked of every trial. Groups are described one by one;
small ones are named as such, because their numbers are rough and may tell who the people are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from surefoot.data.log_columns import Problems
from surefoot.data.log_table import name_file
from surefoot.effects.analysis import Codes, Floats, Mask
from surefoot.effects.contrasts import EffectRow
from surefoot.errors import InputError
from surefoot.inference.intervals import Interval, ratio_interval, sum_by_participant
from surefoot.reports.numbers import format_interval, format_percent, format_value
from surefoot.study.log_reader import read_further_columns

if TYPE_CHECKING:
    from pathlib import Path

    from surefoot.study import Study, StudyLogs

MOST_LEVELS = 12
SMALL = 10
"""Groups of fewer people are called small."""
MISSING = "not known"
"""The level of rows whose group is missing."""
Estimate = Callable[[str, Mask], Sequence[EffectRow]]
"""The rows of the average effect in some rows of the logs, under the name of the group."""


@dataclass(frozen=True)
class GroupSummary:
    """One level of a group, at its available decision points."""

    group: str
    """In the study's words."""
    level: str
    people: int
    decision_points: int
    """Available ones."""
    prompts: Interval
    """Share of them with a prompt."""
    outcome: Interval
    """Mean of the known outcomes, in their own units."""
    missing: Interval
    """Share of them without an outcome."""
    effects: tuple[EffectRow, ...]
    """For every action; empty where effects cannot be estimated."""
    refusal: str = ""
    """Why they cannot."""

    @property
    def label(self) -> str:
        return f"{self.group}: {self.level}"

    @property
    def is_small(self) -> bool:
        return self.people < SMALL

    @property
    def cells(self) -> tuple[str, ...]:
        """A row of the table `HEADERS`."""
        people = f"{self.people} (small)" if self.is_small else str(self.people)
        outcome = f"{format_value(self.outcome)} ({format_interval(self.outcome)})"
        shares = [_show_share(share) for share in (self.prompts, self.missing)]
        return (self.label, people, f"{self.decision_points:,}", shares[0], outcome, shares[1])


HEADERS = ("group", "people", "points", "prompted", "mean outcome", "missing")


def describe_groups(groups: Sequence[GroupSummary]) -> list[str]:
    """How to read the table, which groups are small, and where there is no effect."""
    sentences = [
        "Groups at their available decision points, with 95 % intervals over people. Effects of groups are described one by "
        "one; they are not tests of a difference between groups."
    ]
    small = [summary.label for summary in groups if summary.is_small]
    if small:
        sentences.append(
            f"Small, with fewer than {SMALL} people: {', '.join(small)}. Intervals are rough there, and numbers may show "
            "who the people are."
        )
    sentences += [f"No effect for {summary.label}: {summary.refusal}." for summary in groups if summary.refusal]
    return sentences


def summarise_groups(
    study: Study, read: StudyLogs, path: str | Path, estimate: Estimate, *, whole_people: bool
) -> tuple[GroupSummary, ...]:
    """Every level of every group of the study.

    `whole_people` says that the analysis needs all rows of a participant, because outcomes are later ones: then groups that
    change within participants have no effect.
    """
    summaries: list[GroupSummary] = []
    for name, column in study.groups.items():
        levels, codes = _read_levels(study, read, path, name, column)
        for code, level in enumerate(levels):
            rows = codes == code
            summaries.append(_summarise(read, name, level, rows, estimate, whole_people=whole_people))
    return tuple(summaries)


def _read_levels(study: Study, read: StudyLogs, path: str | Path, name: str, column: str) -> tuple[list[str], Codes]:
    """The levels of a group, sorted, and the level of every row; rows without one come last."""
    variable = study.state.get(column)
    cells = column if variable is None else variable.column or column
    try:
        table = read_further_columns(study, path, [cells])
        problems = Problems(table.name_row)
        with name_file(path):
            texts, positions = table.column(cells, problems).distinct()
            problems.raise_any()
    except InputError as error:
        raise InputError(f"groups.{name}: {error}", column=cells) from error
    if len(texts) > MOST_LEVELS:
        raise InputError(
            f"groups.{name}: column '{cells}' has {len(texts)} different values; name a column with at most {MOST_LEVELS}, "
            "such as age groups instead of ages",
            column=cells,
        )
    order = np.argsort(texts, kind="stable")
    codes = np.full(len(texts) + 1, len(texts))
    codes[order] = np.arange(len(texts))
    levels = [texts[position] for position in order]
    rows = codes[positions[read.row]]
    return ([*levels, MISSING] if (rows == len(texts)).any() else levels), rows


def _summarise(
    read: StudyLogs, group: str, level: str, rows: Mask, estimate: Estimate, *, whole_people: bool
) -> GroupSummary:
    logs = read.logs
    free = rows & logs.available
    people = np.unique(logs.participant_index[free])
    missing = np.isnan(read.raw_outcome)

    def share(top: Floats | Mask, bottom: Mask) -> Interval:
        sums = [sum_by_participant(logs.participant_index, len(logs.participants), values) for values in (top, bottom)]
        return ratio_interval(sums[0][people], sums[1][people])

    effects: Sequence[EffectRow] = ()
    refusal = ""
    shared = np.isin(logs.participant_index, np.unique(logs.participant_index[rows])) & ~rows
    if whole_people and shared.any():
        refusal = "it changes within participants, and the outcome comes later; only lag 0 can be estimated"
    else:
        try:
            effects = estimate(f"{group}: {level}", rows)
        except InputError as error:
            refusal = str(error).rstrip(".")
    return GroupSummary(
        group=group,
        level=level,
        people=len(people),
        decision_points=int(free.sum()),
        prompts=share(free & (logs.action > 0), free),
        outcome=share(np.where(free & ~missing, read.raw_outcome, 0.0), free & ~missing),
        missing=share(free & missing, free),
        effects=tuple(effects),
        refusal=refusal,
    )


def _show_share(share: Interval) -> str:
    if np.isnan(share.value):
        return "–"
    if np.isnan(share.low):
        return format_percent(share.value, 0)
    low, high = (max(0.0, min(1.0, end)) for end in (share.low, share.high))
    return f"{format_percent(share.value, 0)} ({100 * low:.0f} to {100 * high:.0f})"
