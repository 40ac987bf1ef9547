"""How often the band of effects that change for everybody holds the truth: 30 people, 60 decision points.

    python -m benchmarks.time_effects

writes `time_effects.json`: the coverage of the 95 % bands of γ_t and of the population's effect θ + γ_t, over all t and both
coefficients of the effect. The effect walks by 0.5 (0.15, 0.05, 0) noise standard deviations between two of 13 knots,
and its slope by half of that.
"""

import json
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import surefoot as sf
from surefoot.data.trajectories import Trajectories
from surefoot.errors import FitWarning

STUDIES = 400
EFFECT = np.array([1.0, 0.5])
"""θ, on [1, s]."""
STEPS = {"large": 0.5, "small": 0.15, "tiny": 0.05, "none": 0.0}
"""Standard deviation of a step of the effect's intercept."""


def draw_study(seed: int, step: float, people: int = 30, points: int = 60) -> tuple[Trajectories, NDArray[np.float64]]:
    """Logs with a sine as baseline, and the true γ_t, (decision points + 1, 2)."""
    rng = np.random.default_rng(seed)
    state = rng.uniform(-2, 2, (people, points, 1))
    action = rng.integers(0, 2, (people, points))
    walk = np.cumsum(step * rng.standard_normal((12, 2)) * np.array([1.0, 0.5]), axis=0)
    knots = np.vstack([np.zeros((1, 2)), walk])
    time = np.arange(points + 1) * 12 / points
    change = np.stack([np.interp(time, np.arange(13), knots[:, column]) for column in (0, 1)], axis=1)
    effect = EFFECT[0] + change[:points, 0] + (EFFECT[1] + change[:points, 1]) * state[..., 0]
    effect = effect + 0.3 * rng.standard_normal((people, 1))
    outcome = 2 * np.sin(2 * state[..., 0]) + action * effect + rng.standard_normal((people, 1))
    outcome = outcome + rng.standard_normal((people, points))
    logs = Trajectories.from_arrays(state, action, outcome, probability=np.full(action.shape, 0.5))
    return logs, change


def measure_coverage(seed: int, step: float) -> tuple[float, float]:
    """The share of (t, coefficient) at which the bands of γ_t and of θ + γ_t hold the truth."""
    logs, change = draw_study(seed, step)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        effects = sf.method("ts", pooling="partial", time="smooth", baseline="smooth").fit(logs).time_effects_
    if effects is None:
        raise RuntimeError("the fit has no time effects")

    def find_share(error: NDArray[np.float64], covariance: NDArray[np.float64]) -> float:
        half = 1.959964 * np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
        return float((np.abs(error) <= half).mean())

    return (
        find_share((effects.mean - change)[1:], effects.covariance[1:]),
        find_share(effects.effect_mean - EFFECT - change, effects.effect_covariance),
    )


def main() -> None:
    results = {}
    for name, step in STEPS.items():
        shares = np.array([measure_coverage(1000 + seed, step) for seed in range(STUDIES)])
        error = shares.std(axis=0, ddof=1) / STUDIES**0.5
        results[name] = {
            "step": step,
            **{
                band: {"coverage": round(float(mean), 4), "standard_error": round(float(of_mean), 4)}
                for band, mean, of_mean in zip(("change", "effect"), shares.mean(axis=0), error, strict=True)
            },
        }
        print(name, results[name], flush=True)
    Path(__file__).with_suffix(".json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
