"""S7: what methods earn in the long run, beside never prompting, when prompts cost later what they gain now.

Every policy of a replicate meets the same random numbers, and its difference from `never` is taken within the replicate: one
long-run average has a noise of several steps, the whole prize is nine. The paper's nine methods and one look-ahead learn a
policy for each participant; the look-ahead family learns one for everybody.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.errors import FitWarning
from surefoot.experiments.paper_methods import make_method
from surefoot.policies import coin
from surefoot.policies.policies import Policies, Policy
from surefoot.simulators import ChainWalk, HeartSteps, Simulator, contaminate, reference_policies

SIMULATORS: dict[str, type[Simulator]] = {"HeartSteps": HeartSteps, "chain walk": ChainWalk}
EVALUATED = 50
"""People in whom a policy for everybody is run."""
PAPER = tuple(f"{prefix}{name}" for name in ("linucb", "accb", "saccb") for prefix in ("", "filter-", "ro-"))
FAMILY = ("ahead", "ro-ahead", "hb-ahead")
OWN = "hb-ahead, one each"
"""A look-ahead from each participant's own decision points."""


class S7Setting(NamedTuple):
    """One simulated study, as often as there are replicates."""

    simulator: str
    participants: int
    decision_points: int
    mechanism: str = "clean"
    ratio: float = 0.0

    def __str__(self) -> str:
        return f"{self.simulator}, {self.size}, {self.data}"

    @property
    def size(self) -> str:
        return f"{self.participants} × {self.decision_points}"

    @property
    def data(self) -> str:
        return self.mechanism + (f" {100 * self.ratio:g} %" if self.ratio else "")


SENSOR, PROMPTED = (tuple((mechanism, ratio) for ratio in (0.04, 0.1)) for mechanism in ("sensor", "prompted"))
SIZES = ((50, 42), (50, 210), (200, 210))
SETTINGS = (
    *(S7Setting("HeartSteps", 50, points) for points in (10, 20)),
    *(S7Setting("HeartSteps", *size, *data) for size in SIZES for data in (("clean", 0.0), *SENSOR, *PROMPTED)),
    *(S7Setting("chain walk", *size, *data) for size in SIZES for data in (("clean", 0.0), *SENSOR)),
)


def list_methods(setting: S7Setting) -> tuple[str, ...]:
    """The look-ahead family; with 50 people and enough decision points also those that learn one policy each.

    To them more people are only more of the same, so that 200 people would show nothing new.
    """
    own = setting.participants == EVALUATED and setting.decision_points >= 42
    return (*FAMILY, *((OWN, *PAPER) if own else ()))


class Row(NamedTuple):
    """What one policy earned in one replicate."""

    setting: int
    method: str
    reward: float
    difference: float
    """From `never`, under the same random numbers."""
    share_treated: float


@dataclass(frozen=True)
class RunLength:
    """How long policies are run, and on which seeds."""

    steps: int
    keep: int
    seed: int


def run_replicate(replicate: int, settings: tuple[S7Setting, ...], course: RunLength) -> list[Row]:
    """All settings of one replicate; a smaller study is the beginning of a larger one."""
    rows = []
    references: dict[str, dict[str, tuple[float, float]]] = {}
    for place, setting in enumerate(settings):
        run = SIMULATORS[setting.simulator](participants=EVALUATED)
        learned = dict(_learn(setting, collect(setting, replicate, course.seed)))
        if setting.simulator not in references:
            references[setting.simulator] = _earn(run, reference_policies(run), replicate, course)
        earned = {**references[setting.simulator], **_earn(run, learned, replicate, course)}
        nothing = earned["never"][0]
        rows += [Row(place, name, reward, reward - nothing, share) for name, (reward, share) in earned.items()]
    return rows


def collect(setting: S7Setting, replicate: int, seed: int) -> Trajectories:
    """The logs of one study under a coin."""
    dynamics, outliers = (np.random.SeedSequence(seed, spawn_key=(7, replicate, part)) for part in range(2))
    simulator = SIMULATORS[setting.simulator](participants=setting.participants)
    logs = simulator.collect(coin(2), decision_points=setting.decision_points, seed=dynamics)
    if not setting.ratio:
        return logs
    return contaminate(logs, mechanism=setting.mechanism, ratio=setting.ratio, seed=outliers).logs


def _learn(setting: S7Setting, logs: Trajectories) -> Iterator[tuple[str, Policies]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        for name in list_methods(setting):
            chosen = make_method("hb-ahead", pooling="person") if name == OWN else make_method(name)
            yield name, chosen.fit(logs).policies_


def _earn(
    simulator: Simulator, deciding: Mapping[str, Policy | Policies], replicate: int, course: RunLength
) -> dict[str, tuple[float, float]]:
    """Long-run reward and share treated of every policy."""
    numbers = np.random.SeedSequence(course.seed, spawn_key=(7, replicate, 2))
    runs = simulator.run(deciding, steps=course.steps, keep=course.keep, seed=numbers)
    return {name: (float(run.reward.mean()), float(run.share_treated.mean())) for name, run in runs.items()}


class Summary(NamedTuple):
    """One method under one setting, over the replicates."""

    setting: int
    method: str
    reward: float
    difference: float
    standard_error: float
    """Of the mean difference."""
    worst: float
    """The lowest difference."""
    low: float
    """The 5 % quantile of the differences."""
    share_treated: float


def summarise_rows(replicates: list[list[Any]]) -> list[Summary]:
    """Means, standard errors and worst replicates, in the order of the first replicate."""
    found: dict[tuple[int, str], list[Row]] = {}
    for rows in replicates:
        for row in (Row(*values) for values in rows):
            found.setdefault((row.setting, row.method), []).append(row)
    summaries = []
    for (setting, name), rows in found.items():
        values: NDArray[np.float64] = np.array([row.difference for row in rows])
        spread = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("inf")
        reward, share = (float(np.mean([getattr(row, part) for row in rows])) for part in ("reward", "share_treated"))
        extremes = (float(values.min()), float(np.quantile(values, 0.05)))
        summaries.append(Summary(setting, name, reward, float(values.mean()), spread, *extremes, share))
    return summaries
