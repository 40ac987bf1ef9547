"""One unit of work: simulate, contaminate, fit every method, run every policy, and measure."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import FitWarning
from surefoot.experiments.paper_methods import make_method
from surefoot.experiments.settings import DATA_SETS, SCENES, Cell, Settings, Unit
from surefoot.learning.methods import Method
from surefoot.policies import coin
from surefoot.simulators import Contaminated, Simulator, contaminate
from surefoot.simulators.measures import coefficient_error, reference_policies, reference_states, regret_at

REFERENCE_STATES = 200
"""States per participant at which the immediate regret is taken."""
COLUMNS = {
    **dict.fromkeys(("experiment", "data_set", "mechanism", "method", "filter"), str),
    **dict.fromkeys(("ratio", "strength", "tau"), float),
    "replicate": int,
    **dict.fromkeys(("long_run_average_reward", "share_treated", "immediate_regret", "coefficient_error"), float),
    **dict.fromkeys(("share_removed", "precision", "recall"), float),
}
"""The columns of `runs`, in order, with their types. A measure that does not apply is NaN."""


def run_unit(unit: Unit, settings: Settings) -> list[dict[str, Any]]:
    """The rows of one replicate of one scene; they depend on the unit and the settings alone."""
    simulator = DATA_SETS[unit.data_set](participants=settings.participants)
    # A replicate of a data set has the same people under every mechanism.
    place = list(DATA_SETS).index(unit.data_set)
    seeds = [np.random.SeedSequence(settings.seed, spawn_key=(place, unit.replicate, use)) for use in range(4)]
    clean = simulator.collect(coin(2), decision_points=settings.decision_points, seed=seeds[0])
    asked = list(settings.cells(unit.data_set))
    dirty: dict[tuple[float, float], Contaminated] = {}
    fitted: dict[Cell, Method] = {}
    for cell in dict.fromkeys(cell for _, cell in asked):
        key = (cell.ratio, cell.strength)
        if key not in dirty:
            dirty[key] = contaminate(
                clean, mechanism=unit.mechanism, ratio=cell.ratio, strength=cell.strength, seed=seeds[1]
            )
        fitted[cell] = _fit(cell, dirty[key])
    deciding: dict[Any, Any] = {cell: found.policies_ for cell, found in fitted.items()}
    deciding |= reference_policies(simulator)
    runs = simulator.run(deciding, steps=settings.steps, keep=settings.keep, seed=seeds[2])
    states = reference_states(simulator, REFERENCE_STATES, seeds[3])

    def measure(who: Any) -> dict[str, float]:
        return {
            "long_run_average_reward": float(runs[who].reward.mean()),
            "share_treated": float(runs[who].share_treated.mean()),
            "immediate_regret": regret_at(simulator, deciding[who], states).mean,
        }

    measures = {who: measure(who) for who in deciding}
    for cell, found in fitted.items():
        measures[cell] |= _critic_measures(simulator, found, dirty[cell.ratio, cell.strength].touched)
    where = {"data_set": unit.data_set, "mechanism": unit.mechanism, "replicate": unit.replicate}
    rows = [{"experiment": experiment, **where, **cell._asdict(), **measures[cell]} for experiment, cell in asked]
    nothing = {"filter": "", "ratio": np.nan, "strength": np.nan, "tau": np.nan}
    unmeasured = dict.fromkeys(("coefficient_error", "share_removed", "precision", "recall"), np.nan)
    for name in reference_policies(simulator):
        rows.append({"experiment": "reference", **where, "method": name, **nothing, **measures[name], **unmeasured})
    return [{column: kind(row[column]) for column, kind in COLUMNS.items()} for row in rows]


def _fit(cell: Cell, dirty: Contaminated) -> Method:
    parameters: dict[str, Any] = {"tau": cell.tau}
    if cell.filter:
        parameters["filter"] = cell.filter
    with warnings.catch_warnings():
        # In a small τ's or a short study's fit somebody may lose all treated decision points; the measures show what that
        # costs.
        warnings.simplefilter("ignore", FitWarning)
        return make_method(cell.method, **parameters).fit(dirty.logs)


def _critic_measures(simulator: Simulator, fitted: Method, touched: NDArray[np.bool_]) -> dict[str, float]:
    """Coefficient error, share removed, and whether what was removed had been touched, and the other way round."""
    removed = fitted.weights_ == 0
    both = float((removed & touched).sum())
    return {
        "coefficient_error": coefficient_error(simulator, fitted).mean,
        "share_removed": float(removed.mean()),
        "precision": both / removed.sum() if removed.any() else np.nan,
        "recall": both / touched.sum() if touched.any() and fitted.critic_.removal is not None else np.nan,
    }


def scene_title(data_set: str, mechanism: str) -> str:
    """As it reads in tables and figures."""
    name = {"heartsteps": "HeartSteps", "chain-walk": "Chain walk"}[data_set]
    return f"{name}, {mechanism} outliers" if sum(scene[0] == data_set for scene in SCENES) > 1 else name
