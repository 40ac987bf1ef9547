"""S1 to S4, the experiments of the paper: their cells, one replicate of them, and its results by cell."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import FitWarning, InputError, did_you_mean
from surefoot.experiments.engine import make_method
from surefoot.learning.methods import Method
from surefoot.policies import coin
from surefoot.simulators import ChainWalk, Contaminated, HeartSteps, Simulator, contaminate
from surefoot.simulators.measures import coefficient_error, reference_policies, reference_states, regret_at

EXPERIMENTS = ("s1", "s2", "s3", "s4")
DATA_SETS: dict[str, type[Simulator]] = {"heartsteps": HeartSteps, "chain-walk": ChainWalk}
SCENES = (("heartsteps", "prompted"), ("heartsteps", "sensor"), ("chain-walk", "sensor"))
"""(data set, mechanism of the outliers); HeartSteps under `prompted` first, for the reason that the report gives."""
Scene = tuple[str, str]
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
REFERENCE_STATES = 200
"""States per participant at which the immediate regret is taken."""
ELRAR = "long_run_average_reward"
COLUMNS = {
    **dict.fromkeys(("experiment", "data_set", "mechanism", "method", "filter"), str),
    **dict.fromkeys(("ratio", "strength", "tau"), float),
    "replicate": int,
    **dict.fromkeys((ELRAR, "share_treated", "immediate_regret", "coefficient_error"), float),
    **dict.fromkeys(("share_removed", "precision", "recall"), float),
}
"""The columns of `runs`, in order, with their types. A measure that does not apply is NaN."""


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
        """A warning when the verdicts rest on few replicates; empty when they do not."""
        if self.replicates >= ENOUGH_REPLICATES:
            return ""
        return (
            f"{self.replicates} replicates are few: intervals are wide and verdicts may still change. "
            f"Run it with --replicates {Settings().replicates} before relying on one."
        )

    def units(self) -> list[Unit]:
        """In the order in which they are run: a replicate of every scene, then the next replicate."""
        return [Unit(*scene, replicate) for replicate in range(self.replicates) for scene in SCENES]

    def cell(
        self,
        method: str,
        filter_name: str = "",
        *,
        ratio: float | None = None,
        strength: float | None = None,
        tau: float = 1.0,
    ) -> Cell:
        """A method at these settings, except for what is swept."""
        ratio = self.ratio if ratio is None else ratio
        return Cell(method, filter_name, ratio, self.strength if strength is None else strength, tau)

    def cells(self, data_set: str) -> Iterator[tuple[str, Cell]]:
        """(experiment, cell) of every row that a replicate gives."""
        methods = [prefix + kind for kind in TYPES for prefix in ("", "ro-")]
        cells = {
            "s1": [
                *(self.cell(method) for method in methods),
                *(self.cell(f"filter-{kind}", name) for kind in TYPES for name in FILTER_NAMES),
            ],
            "s2": [self.cell(method, ratio=ratio) for ratio in RATIOS for method in methods],
            "s3": [self.cell(method, strength=strength) for strength in STRENGTHS for method in methods],
            "s4": [self.cell("accb"), *(self.cell("ro-accb", tau=tau) for tau in SWEPT_TAUS[data_set])],
        }
        for experiment in self.experiments:
            for cell in cells[experiment]:
                yield experiment, cell


def scene_title(data_set: str, mechanism: str) -> str:
    """As it reads in tables and figures."""
    name = {"heartsteps": "HeartSteps", "chain-walk": "Chain walk"}[data_set]
    return f"{name}, {mechanism} outliers" if sum(scene[0] == data_set for scene in SCENES) > 1 else name


def run_unit(unit: Unit, settings: Settings) -> list[dict[str, Any]]:
    """The rows of one replicate of one scene; they depend on the unit and the settings alone."""
    simulator = DATA_SETS[unit.data_set](participants=settings.participants)
    # A replicate of a data set has the same people under every mechanism.
    number = list(DATA_SETS).index(unit.data_set)
    seeds = [np.random.SeedSequence(settings.seed, spawn_key=(number, unit.replicate, use)) for use in range(4)]
    clean = simulator.collect(coin(2), decision_points=settings.decision_points, seed=seeds[0])
    rows_wanted = list(settings.cells(unit.data_set))
    dirty: dict[tuple[float, float], Contaminated] = {}
    fitted: dict[Cell, Method] = {}
    for cell in dict.fromkeys(cell for _, cell in rows_wanted):
        key = (cell.ratio, cell.strength)
        if key not in dirty:
            dirty[key] = contaminate(
                clean, mechanism=unit.mechanism, ratio=cell.ratio, strength=cell.strength, seed=seeds[1]
            )
        fitted[cell] = _fit(cell, dirty[key])
    policies: dict[Any, Any] = {cell: method.policies_ for cell, method in fitted.items()}
    policies |= reference_policies(simulator)
    runs = simulator.run(policies, steps=settings.steps, keep=settings.keep, seed=seeds[2])
    states = reference_states(simulator, REFERENCE_STATES, seeds[3])
    measures = {
        key: {
            ELRAR: float(runs[key].reward.mean()),
            "share_treated": float(runs[key].share_treated.mean()),
            "immediate_regret": regret_at(simulator, policies[key], states).mean,
        }
        for key in policies
    }
    for cell, method in fitted.items():
        measures[cell] |= _measure_critic(simulator, method, dirty[cell.ratio, cell.strength].touched)
    where = {"data_set": unit.data_set, "mechanism": unit.mechanism, "replicate": unit.replicate}
    rows = [{"experiment": experiment, **where, **cell._asdict(), **measures[cell]} for experiment, cell in rows_wanted]
    nothing = {"filter": "", "ratio": np.nan, "strength": np.nan, "tau": np.nan}
    unmeasured = dict.fromkeys(("coefficient_error", "share_removed", "precision", "recall"), np.nan)
    for name in reference_policies(simulator):
        rows.append({"experiment": "reference", **where, "method": name, **nothing, **measures[name], **unmeasured})
    return [{column: kind(row[column]) for column, kind in COLUMNS.items()} for row in rows]


def _fit(cell: Cell, dirty: Contaminated) -> Method:
    filtering = {"filter": cell.filter} if cell.filter else {}
    with warnings.catch_warnings():
        # With a small τ or in a short study somebody may lose all treated decision points; the measures show the cost.
        warnings.simplefilter("ignore", FitWarning)
        return make_method(cell.method, tau=cell.tau, **filtering).fit(dirty.logs)


def _measure_critic(simulator: Simulator, fitted: Method, touched: NDArray[np.bool_]) -> dict[str, float]:
    """Coefficient error, share removed, and how well removed and touched decision points agree."""
    removed = fitted.weights_ == 0
    both = float((removed & touched).sum())
    return {
        "coefficient_error": coefficient_error(simulator, fitted).mean,
        "share_removed": float(removed.mean()),
        "precision": both / removed.sum() if removed.any() else np.nan,
        "recall": both / touched.sum() if touched.any() and fitted.critic_.removal is not None else np.nan,
    }


class Results:
    """Looks rows up by experiment, scene and cell; all values come as arrays over replicates."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows
        self._values: dict[tuple[Any, ...], dict[int, dict[str, Any]]] = {}
        for row in rows:
            setting = tuple(None if row[name] != row[name] else row[name] for name in ("ratio", "strength", "tau"))
            key = (row["experiment"], row["data_set"], row["mechanism"], row["method"], row["filter"], *setting)
            self._values.setdefault(key, {})[row["replicate"]] = row

    def cell(self, experiment: str, scene: Scene, cell: Cell, measure: str = ELRAR) -> NDArray[np.float64]:
        """One value per replicate."""
        return self._list_values((experiment, *scene, *cell), measure)

    def reference(self, scene: Scene, policy: str, measure: str = ELRAR) -> NDArray[np.float64]:
        """The same for `never`, `always`, `coin` or `oracle-myopic`."""
        return self._list_values(("reference", *scene, policy, "", None, None, None), measure)

    def _list_values(self, key: tuple[Any, ...], measure: str) -> NDArray[np.float64]:
        rows = self._values[key]
        return np.array([rows[replicate][measure] for replicate in sorted(rows)])
