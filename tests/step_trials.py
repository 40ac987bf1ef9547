"""Trials like HeartSteps, made up: log steps with many exact zeros that come in spells, and a yes/no outcome."""

from __future__ import annotations

import numpy as np
import pandas as pd

STUDY = """
[columns]
participant = "userid"
time = "decision_point"
available = "avail"
probability = "rand_prob"
probability_of = "sending"
[state.logstep_pre30min]
[state.home_or_work]
kind = "yes/no"
[actions]
column = "intervention"
[outcome]
column = "logstep_30min"
[effects]
controls = ["logstep_pre30min"]
"""


def make_step_trial(seed=0, people=37, points=210, effect=0.15):
    """A frame with the columns of `STUDY`, steps themselves (`steps`) and whether there were none (`sat`).

    A participant sits still in spells of about ten decision points, in which most counts are 0.
    Available participants get a suggestion with probability 0.6, which adds `effect` to the logarithm of other counts.
    """
    rng = np.random.default_rng(seed)
    shape = (people, points)
    sitting = np.empty(shape, dtype=bool)
    sitting[:, 0] = rng.random(people) < 0.3
    for point in range(1, points):
        chance = rng.random(people)
        sitting[:, point] = np.where(sitting[:, point - 1], chance < 0.9, chance < 0.04)
    available = rng.random(shape) < 0.8
    sent = available & (rng.random(shape) < 0.6)
    still = sitting & (rng.random(shape) < rng.uniform(0.7, 1.0, (people, 1)))
    level = 4.5 + 0.4 * rng.standard_normal((people, 1)) + 0.01 * np.arange(points) / 5
    counts = np.round(np.exp(level + effect * sent + 1.3 * rng.standard_normal(shape)))
    before = np.where(sitting & (rng.random(shape) < 0.6), 0.0, np.round(np.exp(level + 1.3 * rng.standard_normal(shape))))
    steps = np.where(still, 0.0, counts)
    columns = {
        "userid": np.repeat(np.arange(1, people + 1), points),
        "decision_point": np.tile(np.arange(1, points + 1), people),
        "avail": available,
        "intervention": sent,
        "rand_prob": np.full(shape, 0.6),
        "home_or_work": rng.random(shape) < 0.5,
        "logstep_pre30min": np.log(before + 0.5),
        "logstep_30min": np.log(steps + 0.5),
        "steps": steps,
        "sat": steps == 0,
    }
    frame = pd.DataFrame({name: np.ravel(values) for name, values in columns.items()})
    return frame.astype(dict.fromkeys(("avail", "intervention", "home_or_work", "sat"), int))
