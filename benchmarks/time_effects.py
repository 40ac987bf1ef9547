"""How often the band of effects that change for everybody holds the truth: 30 people, 60 decision points.

    python -m benchmarks.time_effects

writes `time_effects.json`: the coverage of the 95 % bands of γ_t and of the population's effect θ + γ_t, over all t and both
coefficients of the effect, and the coverage of θ + γ_t at the first decision point. Outcomes have noise of standard
deviation 1. The effect walks in 12 steps of 0.5 (0.15, 0.05, 0), falls by 1 in a straight line, or wears off by
2 − 2 / (1 + 6 u), as in RoME's simulator, where u runs from 0 to 1 over the study; its slope changes by half of that.
"""

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import surefoot as sf
from surefoot.data.trajectories import Trajectories
from surefoot.errors import FitWarning

Floats = NDArray[np.float64]
Change = Callable[[np.random.Generator, Floats], Floats]
"""γ_t, (times, 2), of times from 0 to 1."""
STUDIES = 200
EFFECT = np.array([1.0, 0.5])
"""θ, on [1, s]."""
SCALE = np.array([1.0, 0.5])
"""How much the effect and its slope change, relative to each other."""


def walk(step: float) -> Change:
    """In 12 normal steps of this standard deviation, with straight lines between."""

    def draw(rng: np.random.Generator, time: Floats) -> Floats:
        knots = np.vstack([np.zeros((1, 2)), np.cumsum(step * rng.standard_normal((12, 2)) * SCALE, axis=0)])
        return np.stack([np.interp(12 * time, np.arange(13), knots[:, column]) for column in (0, 1)], axis=1)

    return draw


CHANGES: dict[str, Change] = {
    "large steps": walk(0.5),
    "small steps": walk(0.15),
    "tiny steps": walk(0.05),
    "no steps": walk(0.0),
    "line": lambda rng, time: -time[:, None] * SCALE,
    "wears off": lambda rng, time: (2 / (1 + 6 * time) - 2)[:, None] * SCALE,
}


def draw_study(seed: int, draw: Change, people: int = 30, points: int = 60) -> tuple[Trajectories, Floats]:
    """Logs with a sine as baseline, and the true γ_t, (decision points + 1, 2)."""
    rng = np.random.default_rng(seed)
    state = rng.uniform(-2, 2, (people, points, 1))
    action = rng.integers(0, 2, (people, points))
    change = draw(rng, np.arange(points + 1) / points)
    effect = EFFECT[0] + change[:points, 0] + (EFFECT[1] + change[:points, 1]) * state[..., 0]
    effect = effect + 0.3 * rng.standard_normal((people, 1))
    outcome = 2 * np.sin(2 * state[..., 0]) + action * effect + rng.standard_normal((people, 1))
    outcome = outcome + rng.standard_normal((people, points))
    logs = Trajectories.from_arrays(state, action, outcome, probability=np.full(action.shape, 0.5))
    return logs, change


def measure_coverage(seed: int, draw: Change) -> tuple[float, float, float]:
    """The share of (t, coefficient) at which the bands of γ_t and of θ + γ_t hold the truth, and that at t = 0."""
    logs, change = draw_study(seed, draw)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        effects = sf.method("ts", pooling="partial", time="smooth", baseline="smooth").fit(logs).time_effects_
    if effects is None:
        raise RuntimeError("the fit has no time effects")

    def find_share(error: Floats, covariance: Floats) -> float:
        half = 1.959964 * np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
        return float((np.abs(error) <= half).mean())

    error = effects.effect_mean - EFFECT - change
    return (
        find_share((effects.mean - change)[1:], effects.covariance[1:]),
        find_share(error, effects.effect_covariance),
        find_share(error[:1], effects.effect_covariance[:1]),
    )


def main() -> None:
    results = {}
    for name, draw in CHANGES.items():
        shares = np.array([measure_coverage(1000 + seed, draw) for seed in range(STUDIES)])
        errors = shares.std(axis=0, ddof=1) / STUDIES**0.5
        bands = zip(("change", "effect", "first effect"), shares.mean(axis=0), errors, strict=True)
        results[name] = {
            band: {"coverage": round(float(mean), 4), "standard_error": round(float(error), 4)}
            for band, mean, error in bands
        }
        print(name, results[name], flush=True)
    Path(__file__).with_suffix(".json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
