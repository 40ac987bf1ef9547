"""What each action does now beside what it does later, of a method that looks ahead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.inference.intervals import Interval, t_interval
from surefoot.learning.horizon.consequences import ChangeEstimate, PooledView
from surefoot.learning.methods import Method
from surefoot.reports.numbers import format_estimate, format_number

SHOWN = 0.05
"""State variables that carry less than this share of the delayed effect are not named."""


@dataclass(frozen=True, eq=False)
class ActionConsequence:
    """What one action changes beside doing nothing, at the mean state, in units of the reward.

    Attributes
    ----------
    action
        Its name.
    immediate
        In the outcome that follows.
    delayed
        In all outcomes after that.
    total
        Both together.
    felt
        The decision points after which all but a twentieth of the delayed effect has come.
    through
        The delayed effect by way of each state variable.
    lags
        The change in the outcome after so many decision points.
    """

    action: str
    immediate: Interval
    delayed: Interval
    total: Interval
    felt: int
    through: dict[str, float]
    lags: NDArray[np.float64]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        intervals = {name: getattr(self, name)._asdict() for name in ("immediate", "delayed", "total")}
        rest = {"felt": self.felt, "through": self.through, "lags": self.lags[: self.felt + 1].tolist()}
        return {"action": self.action, **intervals, **rest}


def find_consequences(fitted: Method) -> tuple[ActionConsequence, ...]:
    """One for every action but the first; none with an immediate horizon."""
    if fitted.outlook_ is None:
        return ()
    logs, view = fitted.logs_, PooledView.of_outlook(fitted.outlook_)

    def interval(found: ChangeEstimate) -> Interval:
        return t_interval(found.value, found.standard_error, max(view.people - 1, 1))

    consequences = []
    for code in range(1, logs.actions):
        found = view.consequence(code)
        through = dict(zip(logs.state_names, found.through.tolist(), strict=True))
        now, later, total = (interval(part) for part in (found.immediate, found.delayed, found.total))
        consequences.append(ActionConsequence(logs.action_names[code], now, later, total, found.felt, through, found.lags))
    return tuple(consequences)


def describe_consequence(found: ActionConsequence) -> tuple[str, ...]:
    """An action now and later, in sentences."""
    size = sum(map(abs, found.through.values()))
    ways = sorted(found.through.items(), key=lambda way: -abs(way[1]))
    named = [f"{name} ({format_number(value)})" for name, value in ways if size and abs(value) > SHOWN * size]
    sentences = [
        f"{found.action}: {format_estimate(found.immediate)} in the next outcome, {format_estimate(found.delayed)} in all "
        f"later ones together; in total {format_estimate(found.total)}, beside doing nothing, at the mean state.",
        f"{found.action} is felt for about {found.felt} decision points; later by way of {', '.join(named)}."
        if named
        else f"{found.action} changes no later outcome by way of a state.",
    ]
    if found.immediate.value > 0 > found.total.high:
        sentences.append(f"At the mean state {found.action} pays now and costs more later.")
    return tuple(sentences)
