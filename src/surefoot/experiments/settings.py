"""What is to be run: the experiments of the paper as lists of cells, and the units of work they are cut into."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import NamedTuple

from surefoot.errors import InputError, did_you_mean
from surefoot.simulators import ChainWalk, HeartSteps, Simulator
from surefoot.version import __version__

EXPERIMENTS = ("s1", "s2", "s3", "s4")
DATA_SETS: dict[str, type[Simulator]] = {"heartsteps": HeartSteps, "chain-walk": ChainWalk}
SCENES = (("heartsteps", "prompted"), ("heartsteps", "sensor"), ("chain-walk", "sensor"))
"""(data set, mechanism of the outliers); HeartSteps under `prompted` first, for the reason that the report gives."""
TYPES = ("linucb", "accb", "saccb")
RATIOS = tuple(percent / 100 for percent in range(10))
STRENGTHS = tuple(float(strength) for strength in range(11))
SWEPT_TAUS = {
    "heartsteps": (0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0),
    "chain-walk": (0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0),
}
ENOUGH_REPLICATES = 10
"""With fewer, Student's t alone makes an interval of a mean wider by more than a seventh."""
FILTER_NAMES = ("hampel", "kalman")


class Cell(NamedTuple):
    """One method in one setting."""

    method: str
    filter: str
    """`hampel` or `kalman` for the filter methods, empty for the others."""
    ratio: float
    strength: float
    tau: float


class Unit(NamedTuple):
    """The smallest piece of work: one replicate of one scene, in which all methods meet the same people and numbers."""

    data_set: str
    mechanism: str
    replicate: int

    @property
    def name(self) -> str:
        return f"{self.data_set}-{self.mechanism}-{self.replicate:04d}"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that decides the numbers; two runs with equal settings give equal results."""

    experiments: tuple[str, ...] = EXPERIMENTS
    replicates: int = 20
    participants: int = 50
    decision_points: int = 210
    steps: int = 5000
    keep: int = 4000
    ratio: float = 0.04
    """ψ where an experiment does not sweep it."""
    strength: float = 5.0
    """ν where an experiment does not sweep it."""
    seed: int = 0

    def check(self) -> None:
        """Refuse what cannot be run, before any work starts."""
        for name in self.experiments:
            if name not in EXPERIMENTS:
                raise InputError(
                    f"there is no experiment '{name}'{did_you_mean(name, EXPERIMENTS)}; choose from {list(EXPERIMENTS)}"
                )
        if not self.experiments:
            raise InputError(f"name at least one experiment of {list(EXPERIMENTS)}")
        for name, least in (("replicates", 2), ("participants", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise InputError(f"{name} is {getattr(self, name)}; it must be at least {least}")
        features = max(len(simulator.critic_coef) for simulator in DATA_SETS.values())
        if self.decision_points < features:
            raise InputError(
                f"decision_points is {self.decision_points}; the critic "
                f"has {features} features and needs at least as many decision points"
            )
        if not 1 <= self.keep <= self.steps:
            raise InputError(f"keep is {self.keep} of {self.steps} steps; it must be at least 1 and at most all of them")
        if not 0 <= self.ratio <= 1:
            raise InputError(f"ratio (ψ) is {self.ratio}; it is a share of the decision points, between 0 and 1")
        if not 0 <= self.strength < float("inf"):
            raise InputError(f"strength (ν) is {self.strength}; it must be a finite number of at least 0")

    @property
    def caution(self) -> str:
        """What to say beside the verdicts when they rest on few replicates; empty when they do not."""
        if self.replicates >= ENOUGH_REPLICATES:
            return ""
        return (
            f"{self.replicates} replicates are few: intervals are wide and verdicts may still change. "
            f"Run it with --replicates {Settings().replicates} before relying on one."
        )

    def units(self) -> list[Unit]:
        """In the order in which they are run: a replicate of every scene, then the next replicate."""
        return [Unit(*scene, replicate) for replicate in range(self.replicates) for scene in SCENES]

    def cells(self, data_set: str) -> Iterator[tuple[str, Cell]]:
        """(experiment, cell) of every row that a replicate gives."""
        plain_and_robust = [prefix + kind for kind in TYPES for prefix in ("", "ro-")]
        here = (self.ratio, self.strength)
        cells = {
            "s1": [
                *(Cell(method, "", *here, 1.0) for method in plain_and_robust),
                *(Cell(f"filter-{kind}", name, *here, 1.0) for kind in TYPES for name in FILTER_NAMES),
            ],
            "s2": [Cell(method, "", ratio, self.strength, 1.0) for ratio in RATIOS for method in plain_and_robust],
            "s3": [Cell(method, "", self.ratio, strength, 1.0) for strength in STRENGTHS for method in plain_and_robust],
            "s4": [Cell("accb", "", *here, 1.0), *(Cell("ro-accb", "", *here, tau) for tau in SWEPT_TAUS[data_set])],
        }
        for experiment in self.experiments:
            for cell in cells[experiment]:
                yield experiment, cell

    def fingerprint(self) -> str:
        """Names the working folder: work done under other settings or by another version is never mixed in."""
        text = json.dumps({**asdict(self), "surefoot": __version__}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
