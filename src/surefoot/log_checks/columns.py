"""Checks of rows and columns: participants, codes for missing values, plausible ranges, units, and leaks."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.data import suspect_columns
from surefoot.data.log_columns import spell
from surefoot.data.trajectories import Trajectories
from surefoot.inference.leaks import FEWEST_ROWS, LOOK, correlate_with_outcome
from surefoot.log_checks.check import Check
from surefoot.reports.numbers import format_number, format_percent
from surefoot.screening.screen import find_worst
from surefoot.study import Study, StudyLogs

Array = NDArray[np.float64]
MOST_ROWS = 20_000
"""Of more decision points a sample is examined for codes and leaks."""
LOOK_SHARE = 0.20
"""Share of a column's values outside its range from which the range itself is doubtful."""
UNSAFE_SHARE = 0.50
"""If most values are outside, the range and the column have different units."""
IDENTITIES_NAME = "participants and availability"
UNITS_NAME = "units by participant"
UNIT_FACTORS = (1.609, 2.205, 10.0, 60.0, 100.0, 1000.0, 3600.0)
"""Kilometres and miles, kilograms and pounds, decimals, minutes and seconds, hours and seconds."""
LEAST_VALUES = 8
"""A participant's level is estimated from at least this many values other than 0."""
LEAST_PEOPLE = 5
LEAST_DEVIATION = 0.1
"""Least standard deviation of the logarithm of people's levels."""
GAP = 2.5
"""Least gap between two groups of people, in standard deviations within the groups; larger for few people."""
LOOK_FACTOR = 1.5
UNSAFE_FACTOR = 8.0
"""Only another unit or another device explains a larger factor between two groups of people."""
UNSAFE_ALONE = 30.0
"""The same limit for a single participant, who may differ more from all others."""
MOST_UNITS = 3
NAMED_PEOPLE = 10


def check_identities(read: StudyLogs, study: Study | None) -> Check:
    """Look for ids that are one participant, ids that number the rows, and a column of availability that nobody named."""
    doubts = suspect_columns.list_doubts(read.logs.participants, len(read.logs), read.logs.names)
    if not doubts:
        reason = "ids differ in more than case and blanks, and no column of availability is left unnamed"
        return Check(IDENTITIES_NAME, "fine", reason)
    verdicts, reasons, remedies = zip(*doubts, strict=True)
    return Check(IDENTITIES_NAME, find_worst(verdicts), "; ".join(reasons), "; ".join(dict.fromkeys(remedies)))


def list_state_values(logs: Trajectories, study: Study | None) -> dict[str, Array]:
    """Every state variable in the unit of the logs."""
    scaling = {} if study is None else study.scaling
    values = {}
    for j, name in enumerate(logs.state_names):
        centre, scale = scaling.get(name, (0.0, 1.0))
        # Rounding restores codes and zeros, which scaling back does not give to the last bit.
        values[name] = np.round(logs.state[:, j] * scale + centre, 9)
    return values


def check_columns(read: StudyLogs, study: Study | None) -> Check:
    """Look for repeated values that lie apart from all others: codes for missing values."""
    logs = read.logs
    rows = np.flatnonzero(logs.available)
    rows = rows[:: -(-len(rows) // MOST_ROWS) or 1]
    columns = {f"state variable '{name}'": values[rows] for name, values in list_state_values(logs, study).items()}
    columns[f"outcome '{logs.names.outcome}'"] = read.raw_outcome[rows]
    suspects = []
    for name, values in columns.items():
        lonely = suspect_columns.find_lonely_codes(values)
        recurring = suspect_columns.find_recurring_codes(*np.unique(values[np.isfinite(values)], return_counts=True))
        for code in dict.fromkeys([*lonely, *recurring]):
            standing = "apart from all other values" if code in lonely else "more often than the values next to it"
            suspects.append((name, spell(code), standing))
    if not suspects:
        return Check("suspect columns", "fine", "no column repeats a value that stands apart")
    reason = "; ".join(f"{name} holds {code} again and again, {standing}" for name, code, standing in suspects)
    remedies = (f"if it stands for missing, write missing = [{code}] in its section" for _, code, _ in suspects)
    numbers = {"columns": [name for name, _, _ in suspects]}
    return Check("suspect columns", "look", reason, "; ".join(dict.fromkeys(remedies)), numbers)


def check_ranges(read: StudyLogs, study: Study | None) -> Check:
    """Count the values that were outside the range of their column and became missing."""
    logs = read.logs
    # The state's column that the values of a column of the log became.
    states = (
        {} if study is None else {source: study.state_columns[name][0] for name, (source, _) in study.state_kinds.items()}
    )
    shares = {}
    words = []
    for column, counts in read.implausible.items():
        values = read.measured_outcome
        if column != logs.names.outcome:
            values = logs.state[:, logs.state_names.index(states.get(column, column))]
        outside = int(counts.sum())
        shares[column] = outside / max(1, outside + int((~np.isnan(values)).sum()))
        if outside:
            words.append(f"{format_percent(shares[column])} of '{column}' ({outside:,} values)")
    numbers = {"shares": shares}
    if not words:
        return Check("plausible ranges", "fine", "no value is outside a plausible range", "", numbers)
    reason = f"values outside the plausible range of their column are implausible and count as missing: {', '.join(words)}"
    worst = max(shares.values())
    if worst <= LOOK_SHARE:
        return Check("plausible ranges", "fine", reason, "", numbers)
    limit, verdict = (UNSAFE_SHARE, "unsafe") if worst > UNSAFE_SHARE else (LOOK_SHARE, "look")
    wrong = ", ".join(f"'{column}'" for column, share in shares.items() if share > limit)
    remedy = f"check the range of {wrong} in the study: is it in the unit of the column?"
    return Check("plausible ranges", verdict, reason, remedy, numbers)


class OtherUnit(NamedTuple):
    """A participant whose values of a column are a multiple of other people's values."""

    participant: Any
    column: str
    level: float
    """Median of the absolute values other than 0."""
    usual: float
    """The same median of other people."""
    factor: float
    """Ratio between the group of participants that stands apart and all others."""
    alone: bool
    """Whether nobody else is in that group."""


def check_units(read: StudyLogs, study: Study | None) -> Check:
    """Whether participants recorded a complete column in another unit: kilometres for metres, thousands of steps for steps.

    The screen compares values with the participant's own record, where such values do not stand out. They stand out when
    compared with other participants, on a scale of ratios.
    """
    suspects: list[OtherUnit] = []
    reasons = []
    verdict = "look"
    for column, values in {read.logs.names.outcome: read.measured_outcome, **list_state_values(read.logs, study)}.items():
        people = _find_units(read.logs, column, values)
        suspects += people
        if not people:
            continue
        for person in people:
            if max(person.factor, 1 / person.factor) >= (UNSAFE_ALONE if person.alone else UNSAFE_FACTOR):
                verdict = "unsafe"
        names = ", ".join(f"'{person.participant}'" for person in people[:NAMED_PEOPLE])
        names += f" and {len(people) - NAMED_PEOPLE} more" if len(people) > NAMED_PEOPLE else ""
        count = f"{len(people)} participants" if len(people) > 1 else "participant"
        typical = sorted(people, key=lambda person: person.factor)[len(people) // 2]
        # The nearest factor between two units, if one is near.
        units = np.array([scale for factor in UNIT_FACTORS for scale in (factor, 1 / factor)])
        distances = np.abs(np.log(typical.factor / units))
        factor = float(units[distances.argmin()]) if distances.min() < np.log(2) else typical.factor
        times = f"{factor:.4g} times" if factor > 1 else f"1/{1 / factor:.4g} of"
        sizes = f"median size {format_number(typical.level)}, others {format_number(typical.usual)}"
        reasons.append(f"'{column}' of {count} ({names}) is about {times} other people's throughout ({sizes})")
    numbers = {"participants": [suspect._asdict() for suspect in suspects]}
    if not suspects:
        reason = "no participant's values are consistently a multiple of other people's"
        return Check(UNITS_NAME, "fine", reason, "", numbers)
    remedy = (
        "find out in which unit these participants recorded, and bring the column to one unit before anything is analysed; "
        "nothing was removed or converted here"
    )
    return Check(UNITS_NAME, verdict, "; ".join(reasons), remedy, numbers)


def _find_units(logs: Trajectories, column: str, values: Array) -> list[OtherUnit]:
    """Participants whose level and spread are both far from other people's, in the same direction."""
    record = logs.pad_rows(values)
    present = ~np.isnan(record) & (record != 0)
    steps = np.diff(record, axis=1)
    steps = steps[~np.isnan(steps)]
    # Values that hardly ever fall are a counter (days in the study); few distinct values are a scale of answers.
    is_counter = bool(steps.size) and (steps < 0).mean() < 0.01
    if is_counter or len(np.unique(values[~np.isnan(values)])) < suspect_columns.FEW_VALUES:
        return []
    known = np.flatnonzero(present.sum(axis=1) >= LEAST_VALUES)
    record = np.where(present, record, np.nan)[known]
    level = np.nanmedian(np.abs(record), axis=1)
    spread = np.nanmedian(np.abs(record - np.nanmedian(record, axis=1, keepdims=True)), axis=1)
    sizes = np.log(np.stack([level, np.where(spread > 0, spread, 1.0)]))
    suspects = []
    others = np.flatnonzero(spread > 0)
    for _ in range(MOST_UNITS):
        apart = _split_people(sizes[:, others])
        if apart is None:
            break
        usual = np.median(sizes[0, others[~apart]])
        factor = float(np.exp(np.median(sizes[0, others[apart]]) - usual))
        for position in others[apart]:
            participant = logs.participants[known[position]].item()
            alone = bool(apart.sum() == 1)
            suspects.append(OtherUnit(participant, column, float(level[position]), float(np.exp(usual)), factor, alone))
        others = others[~apart]
    return suspects


def _split_people(sizes: Array) -> NDArray[np.bool_] | None:
    """The smaller of two groups of people whose level and spread (2, people; logarithms) differ by one factor.

    The widest gap separates the groups; None if it is narrow compared with the differences within the groups.
    """
    people = sizes.shape[1]
    if people < LEAST_PEOPLE:
        return None
    size = sizes.mean(axis=0)
    in_order = np.sort(size)
    gaps = np.diff(in_order)
    upper = size > in_order[gaps.argmax()]
    if not upper.any():
        return None
    means = [sizes[:, group].mean(axis=1) for group in (upper, ~upper)]
    within = size - np.where(upper, means[0].mean(), means[1].mean())
    deviation = max(np.sqrt((within**2).sum() / (people - 2)), LEAST_DEVIATION)
    steps = means[0] - means[1]
    one_factor = steps.min() > np.log(LOOK_FACTOR) and steps.max() < 2 * steps.min()
    if not one_factor or gaps.max() < GAP * (1 + 12 / people) * deviation:
        return None
    return np.asarray(upper if upper.sum() <= people / 2 else ~upper)


def check_leaks(read: StudyLogs, study: Study | None) -> Check:
    """Look for state variables that were known only after the decision: they say the action taken, or the outcome."""
    logs = read.logs
    rows = logs.order[logs.available[logs.order]]
    if len(rows) > MOST_ROWS:
        # Some people, with all their decision points.
        rows = rows[logs.participant_index[rows] % -(-len(rows) // MOST_ROWS) == 0]
    action = logs.action[rows]
    telling = [
        name for j, name in enumerate(logs.state_names) if suspect_columns.gives_away_action(logs.state[rows, j], action)
    ]
    columns = [*(values[rows] for values in list_state_values(logs, study).values()), read.raw_outcome[rows]]
    # A device that fails may write the same code into state and outcome.
    *states, outcome = [np.where(np.isin(values, suspect_columns.find_codes(values)), np.nan, values) for values in columns]
    matrix = np.column_stack(states) if states else np.empty((len(rows), 0))
    correlations = correlate_with_outcome(matrix, outcome, action, logs.participant_index[rows])
    reasons = [f"'{name}' says which action was taken" for name in telling]
    remedy = "leave it out unless it was known before the decision"
    for j, name in enumerate(logs.state_names):
        if correlations.suspicious[j] and name not in telling:
            together = ""
            beyond = "the action, its own past and that of the outcome"
            if correlations.beyond_past[j] < LOOK:
                together = ", together with the others,"
                beyond = "all other state variables, the action and the past"
            nearly = "" if correlations.unsafe[j] else " nearly"
            correlation = f"correlation {correlations.size[j]:.3f} within people, beyond {beyond}"
            reasons.append(f"'{name}'{together}{nearly} says what the outcome was: {correlation}")
    sizes = {name: float(size) for name, size in zip(logs.state_names, correlations.size, strict=True) if size > 0}
    numbers = {"action": telling, "outcome": sizes}
    if not reasons:
        reason = "no state variable says which action was taken or what the outcome was"
        if not correlations.judged.any() and logs.state_names:
            reason = (
                "no state variable says which action was taken; whether one says what the outcome was cannot be told from "
                f"fewer than {FEWEST_ROWS} decision points within people"
            )
        return Check("leaks", "fine", reason, "", numbers)
    if len(reasons) > len(telling):
        remedy += "; a value that is measured with the outcome hides the effect of the action"
    verdict = "unsafe" if telling or correlations.unsafe.any() else "look"
    return Check("leaks", verdict, "; ".join(reasons), remedy, numbers)
