"""Posterior sampling: how fast it decides, and how far its probabilities are from ten million draws.

    python -m benchmarks.sampling

Writes benchmarks/sampling.json.
"""

import json
from pathlib import Path

import numpy as np

from benchmarks.measuring import best_of
from surefoot.numerics.orthants import probability_of_largest
from surefoot.policies.rules import PosteriorSampling

DECISIONS, VARIABLES, DRAWS = 1_000, 3, 10_000_000


def main():
    results = {"milliseconds for 1,000 decisions": {}, "largest difference from ten million draws": {}}
    for actions in (2, 3, 5):
        rng = np.random.default_rng(actions)
        size = (actions - 1) * (VARIABLES + 1)
        root = rng.standard_normal((DECISIONS, size, size + 2))
        rule = PosteriorSampling(
            rng.standard_normal((DECISIONS, actions - 1, VARIABLES + 1)), root @ np.swapaxes(root, 1, 2)
        )
        states = rng.standard_normal((DECISIONS, VARIABLES))
        one, plain = rule[0].scalar(), states.tolist()
        times = results["milliseconds for 1,000 decisions"]
        times[f"{actions} actions, at once"] = 1e3 * best_of(lambda: rule.probabilities(states), 10)  # noqa: B023
        times[f"{actions} actions, one at a time"] = 1e3 * best_of(lambda: [one(state) for state in plain], 3)  # noqa: B023
        results["largest difference from ten million draws"][f"{actions} actions"] = compare(rng, actions - 1)
    path = Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(path.read_text(encoding="utf-8"))


def compare(rng, effects):
    """The largest difference of a probability, and how many standard errors of the draws that is, over four problems."""
    found = []
    for _ in range(4):
        root = rng.standard_normal((effects, effects + 2))
        mean, covariance = 0.7 * rng.standard_normal(effects), root @ root.T
        count = np.zeros(effects + 1)
        for _ in range(10):
            drawn = rng.multivariate_normal(mean, covariance, DRAWS // 10, method="cholesky")
            best = np.where(drawn.max(axis=1) > 0, drawn.argmax(axis=1) + 1, 0)
            count += np.bincount(best, minlength=effects + 1)
        share = count / DRAWS
        away = np.abs(probability_of_largest(mean, covariance) - share)
        found.append((float(away.max()), float((away / np.sqrt(share * (1 - share) / DRAWS)).max())))
    return dict(zip(("difference", "standard errors"), np.max(found, axis=0).tolist(), strict=True))


if __name__ == "__main__":
    main()
