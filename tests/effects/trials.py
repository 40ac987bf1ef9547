"""Made-up trials with known effects."""

import numpy as np
import pandas as pd

COLUMNS = {"participant": "person", "time": "t", "outcome": "y", "treatment": "sent", "probability": "p",
           "probability_of": "sending", "available": "available"}  # fmt: skip


def make_trial(seed=0, people=30, points=20, effect=0.3, actions=2):
    """Effects of `effect` at home = 0 and 0.5 more at home; with more actions each adds `effect` to the one before."""
    rng = np.random.default_rng(seed)
    size = people * points
    frame = pd.DataFrame(
        {"person": np.repeat([f"P{i:03d}" for i in range(people)], points), "t": np.tile(np.arange(points), people)}
    )
    frame["x"] = rng.normal(size=size)
    frame["home"] = rng.integers(0, 2, size)
    frame["day"] = frame["t"] // 5
    frame["available"] = (rng.random(size) < 0.8).astype(int)
    chance = 1 / (1 + np.exp(-0.5 * frame["x"].to_numpy()))
    each = np.column_stack([1 - chance, *([chance / (actions - 1)] * (actions - 1))])
    frame["sent"] = (rng.random(size)[:, None] > each.cumsum(axis=1)).sum(axis=1) * frame["available"]
    frame["p"] = chance / (actions - 1)
    frame["taken"] = each[np.arange(size), frame["sent"]]
    noise = rng.normal(size=size) + np.repeat(rng.normal(size=people), points)
    frame["y"] = frame["x"] + frame["sent"] * (effect + 0.5 * frame["home"] * (frame["sent"] == 1)) + noise
    risk = 0.2 * np.exp(effect * (frame["sent"] > 0))
    frame["b"] = (rng.random(size) < risk).astype(int)
    return frame
