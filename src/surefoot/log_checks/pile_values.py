"""Whether a value that many outcomes share comes more often after one action than after another.

A watch that people put on when it buzzes says 0 after nothing and counts steps after a prompt. No flag of the screen shows
it, and every estimate takes it for an effect. A prompt that works leaves fewer zeros too: the logs cannot tell which it was,
the people who ran the study can.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.data.suspect_columns import FEW_VALUES, stands_out
from surefoot.log_checks.check import Check, find_worst
from surefoot.log_checks.shares_by_action import ShareDifference, compare_shares
from surefoot.reports.numbers import format_percent
from surefoot.study import Study, StudyLogs

NAME = "values by action"
LEAST_SHARE = 0.02
"""Of the outcomes after some action: a value that fewer share cannot move an effect much."""
LEAST_COUNT = 10
"""Fewer outcomes with the value tell nothing."""
MOST_PILES = 10
UNSAFE_DIFFERENCE = 0.02
"""Two in a hundred outcomes that become 0 move the effect by a fiftieth of the mean outcome."""
LOOK_DIFFERENCE = 0.01
UNSAFE_CHANCE = 0.001
"""The p-value, adjusted for the number of comparisons, below which a difference is not chance: every update looks."""
LOOK_CHANCE = 0.01


class PileDifference(NamedTuple):
    """How often outcomes have one value after an action, and after nothing."""

    value: float
    action: str
    shares: dict[str, float]
    difference: ShareDifference
    p_adjusted: float
    real: bool
    """Whether the study says that the value is real behaviour."""

    @property
    def verdict(self) -> str:
        size = abs(self.difference.interval.value)
        if self.real:
            return "fine"
        if size >= UNSAFE_DIFFERENCE and self.p_adjusted < UNSAFE_CHANCE:
            return "unsafe"
        return "look" if size >= LOOK_DIFFERENCE and self.p_adjusted < LOOK_CHANCE else "fine"

    def describe(self, outcome: str) -> str:
        """The value, its shares and their difference in words."""
        shares = " and ".join(f"{format_percent(share)} after '{name}'" for name, share in self.shares.items())
        chance = "p < 0.0001" if self.p_adjusted < 1e-4 else f"p = {self.p_adjusted:.4f}"
        return f"'{outcome}' is {format_pile(self.value)} in {shares} (difference {self.difference.describe()}; {chance})"

    def to_dict(self) -> dict[str, Any]:
        return {
            "value": self.value,
            "action": self.action,
            "shares": self.shares,
            "difference": self.difference.interval._asdict(),
            "p_adjusted": self.p_adjusted,
            "real": self.real,
        }


def check_pile_values(read: StudyLogs, study: Study | None) -> Check:
    """Compare the share of every pile value after each action with its share after nothing, flagged or not."""
    outcome = read.logs.names.reward
    differences = compare_piles(read, study)
    numbers = {"piles": [pile.to_dict() for pile in differences]}
    if not differences:
        return Check(NAME, "fine", f"no value stands out among those of '{outcome}'", "", numbers)
    differences.sort(key=lambda pile: pile.p_adjusted)
    verdict = find_worst(pile.verdict for pile in differences)
    if verdict == "fine":
        values = list(dict.fromkeys(pile.value for pile in differences))
        reason = f"{', '.join(map(format_pile, values))} of '{outcome}' come about as often after every action"
        real = [pile for pile in differences if pile.real]
        if real:
            reason = f"the study says that these values are real: {real[0].describe(outcome)}"
        return Check(NAME, verdict, reason, "", numbers)
    piles = [pile for pile in differences if pile.verdict != "fine"]
    reason = "; ".join(pile.describe(outcome) for pile in piles)
    return Check(NAME, verdict, reason, _advise(piles), numbers)


def compare_piles(read: StudyLogs, study: Study | None) -> list[PileDifference]:
    """Every pile value of the outcome as measured, after every action, compared with nothing."""
    logs = read.logs
    values = read.measured_reward
    rows = logs.available & ~np.isnan(values)
    nothing = rows & (logs.action == 0)
    arms = {code: rows & (logs.action == code) for code in range(1, logs.actions)}
    arms = {code: treated for code, treated in arms.items() if treated.any()}
    if not (nothing.any() and arms):
        return []
    piles = find_piles(values, [nothing, *arms.values()])
    differences = []
    for value in piles:
        real = study is not None and study.reward.is_real(value)
        happened = values == value
        for code, treated in arms.items():
            name = logs.action_names[code]
            shares = {logs.action_names[0]: float(happened[nothing].mean()), name: float(happened[treated].mean())}
            difference = compare_shares(logs, happened, treated, nothing)
            p_adjusted = min(1.0, difference.p_value * len(piles) * len(arms))
            differences.append(PileDifference(value, name, shares, difference, p_adjusted, real))
    return differences


def find_piles(values: NDArray[np.float64], arms: list[NDArray[np.bool_]]) -> list[float]:
    """Values that hold many outcomes after some action, and many more than the values next to them.

    An outcome with few different values (yes and no, a scale from 0 to 10) has none: their shares are the outcome.

    >>> steps = np.array([0.0] * 40 + [-99.0] * 20 + list(range(1, 200)))
    >>> find_piles(steps, [np.ones(len(steps), dtype=bool)])
    [0.0, -99.0]
    """
    everywhere = np.logical_or.reduce(arms)
    distinct, counts = np.unique(values[everywhere], return_counts=True)
    if len(distinct) < FEW_VALUES:
        return []
    shares = np.zeros(len(distinct))
    for arm in arms:
        places = np.searchsorted(distinct, values[arm])
        shares = np.maximum(shares, np.bincount(places, minlength=len(distinct)) / arm.sum())
    likely = np.flatnonzero((shares >= LEAST_SHARE) & (counts >= LEAST_COUNT))
    largest_first = likely[np.argsort(-counts[likely], kind="stable")]
    piles = [float(distinct[position]) for position in largest_first if stands_out(counts, int(position))]
    return piles[:MOST_PILES]


def format_pile(value: float) -> str:
    """So that it can be copied into a study."""
    return f"{value:.7g}"


def _advise(piles: list[PileDifference]) -> str:
    others = [format_pile(pile.value) for pile in piles if pile.value != 0]
    real = ['zero = "real"'] if any(pile.value == 0 for pile in piles) else []
    real += [f"real_values = [{', '.join(dict.fromkeys(others))}]"] if others else []
    missing = ", ".join(dict.fromkeys(format_pile(pile.value) for pile in piles))
    return (
        "there are two explanations: the prompt changed what people did, or it changed what was recorded (people put the "
        "watch on when it buzzes, an unanswered question is stored as a number). Look at when the device was worn, or ask "
        f"participants. If people did this, write {' and '.join(real)} in [reward]: the difference then counts as an "
        f"effect. If not, write missing = [{missing}] there, and make recording independent of the prompt; until then do "
        "not rely on effects, values or policies"
    )
