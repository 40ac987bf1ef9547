"""S6: what devices and questionnaires do wrong (unworn, stuck, another unit, a code), with and without the screen.

The simulator is HeartSteps. A method's error is the mean over people and studies of ‖ŵ − w*‖, relative to that of `accb` on
the clean data. The oracle is `accb` without exactly the decision points that were touched. Where zeros come only after
nothing was sent, the screen must not be used to clean: there the question is how often it says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from surefoot.data.trajectories import Trajectories
from surefoot.experiments.paper_methods import make_method
from surefoot.learning.methods import Method
from surefoot.policies import coin
from surefoot.screening import screen
from surefoot.simulators import HeartSteps, contaminate

DECISION_POINTS = 210
RATIOS = (0.1, 0.2, 0.3)
METHODS: dict[str, Callable[[], Method]] = {
    "accb": partial(make_method, "accb"),
    "filter-accb": partial(make_method, "filter-accb"),
    "filter-accb (kalman)": partial(make_method, "filter-accb", filter="kalman"),
    "ro-accb": partial(make_method, "ro-accb"),
    "hb-accb": partial(make_method, "hb-accb"),
}
OURS = "hb-accb"


class Artefact(NamedTuple):
    """What is put into the logs, and what `hb-accb` after the screen is held to at 20 %, relative to the oracle."""

    name: str
    how: dict[str, Any]
    limit: float | None = None

    @property
    def blind(self) -> bool:
        """Whether the artefact knows nothing of the action."""
        return "after" not in self.how


ARTEFACTS = (
    Artefact("reward 0, scattered", {"mechanism": "nonwear", "values": "reward"}),
    Artefact("reward 0, in runs of 20", {"mechanism": "nonwear", "values": "reward", "run_length": 20}, 1.15),
    Artefact("state and reward 0, in runs of 20", {"mechanism": "nonwear", "run_length": 20}, 1.10),
    Artefact("reward × 10 (unit)", {"mechanism": "unit"}, 1.10),
    Artefact("reward stuck, in runs of 20", {"mechanism": "stuck", "run_length": 20}, 1.10),
    Artefact("reward 9999 (code)", {"mechanism": "code", "strength": 9999}, 1.05),
    Artefact("reward 0 after nothing only", {"mechanism": "nonwear", "values": "reward", "after": "nothing"}),
)


class Point(NamedTuple):
    """One study under one artefact: every method's error, and what the screen did."""

    artefact: str
    ratio: float
    oracle: float
    plain: dict[str, float]
    """Without the screen, by method."""
    screened: dict[str, float]
    found: float
    """Share of the touched values that were flagged."""
    wrong: float
    """Share of the untouched values that were flagged."""
    blind: bool
    """Whether the screen found the flagged share alike after all actions."""


def run_study(
    artefacts: Sequence[Artefact], ratios: Sequence[float], *, participants: int, replicate: int, seed: int
) -> list[dict[str, Any]]:
    """One simulated study under every artefact and ratio; the first row is the clean one."""
    dynamics, outliers = (np.random.SeedSequence(seed, spawn_key=(replicate, part)) for part in range(2))
    send = coin(2)
    clean = HeartSteps(participants=participants).collect(send, decision_points=DECISION_POINTS, seed=dynamics)
    rows = [_point("clean", 0.0, clean, clean, np.zeros(len(clean), dtype=bool))]
    for artefact in artefacts:
        for ratio in ratios:
            dirty = contaminate(clean, ratio=ratio, seed=outliers, **artefact.how)
            rows.append(_point(artefact.name, ratio, clean, dirty.logs, dirty.touched))
    return [row._asdict() for row in rows]


def _point(name: str, ratio: float, clean: Trajectories, logs: Trajectories, touched: Any) -> Point:
    found = screen(logs)
    before, after = (np.column_stack([one.state, one.reward]) for one in (logs, found.logs))
    wrong = before != np.column_stack([clean.state, clean.reward])
    flagged = np.isnan(after) & ~np.isnan(before)
    return Point(
        name,
        ratio,
        _error(logs.with_values(reward=np.where(touched, np.nan, logs.reward)), "accb"),
        {name: _error(logs, name) for name in METHODS},
        {name: _error(found.logs, name) for name in METHODS},
        float((flagged & wrong).sum() / max(wrong.sum(), 1)),
        float((flagged & ~wrong).sum() / max((~wrong).sum(), 1)),
        found.blind,
    )


def _error(logs: Trajectories, name: str) -> float:
    """Mean over people of the distance to the true coefficients."""
    fitted = METHODS[name]().fit(logs)
    return float(np.linalg.norm(fitted.critic_coef_ - HeartSteps.critic_coef, axis=1).mean())


@dataclass(frozen=True)
class Row:
    """Means over studies, relative to `accb` on clean data, with standard errors."""

    artefact: str
    ratio: float
    oracle: float
    plain: dict[str, float]
    screened: dict[str, float]
    to_oracle: float
    """`hb-accb` after the screen over the oracle."""
    standard_error: float
    """Of `to_oracle`, over studies."""
    found: float
    wrong: float
    unsafe: float
    """Share of studies in which the flagged share differed by action."""


def summarise(studies: Sequence[Sequence[dict[str, Any]]]) -> list[Row]:
    """One row per artefact and ratio."""
    clean = float(np.mean([points[0]["plain"]["accb"] for points in studies]))
    rows = []
    for points in zip(*studies, strict=True):
        ours = np.array([point["screened"][OURS] for point in points])
        oracle = np.array([point["oracle"] for point in points])
        ratio = ours.mean() / oracle.mean()
        # The error of a ratio of means, from how each study departs from it.
        departure = (ours - ratio * oracle) / oracle.mean()
        error = float(departure.std(ddof=1) / np.sqrt(len(points))) if len(points) > 1 else float("inf")
        rows.append(
            Row(
                artefact=points[0]["artefact"],
                ratio=points[0]["ratio"],
                oracle=float(oracle.mean()) / clean,
                plain={name: float(np.mean([point["plain"][name] for point in points])) / clean for name in METHODS},
                screened={name: float(np.mean([point["screened"][name] for point in points])) / clean for name in METHODS},
                to_oracle=float(ratio),
                standard_error=error,
                found=float(np.mean([point["found"] for point in points])),
                wrong=float(np.mean([point["wrong"] for point in points])),
                unsafe=float(np.mean([not point["blind"] for point in points])),
            )
        )
    return rows
