"""Pilots with known truth, and studies that describe them."""

import numpy as np
from scipy.special import expit

from surefoot.data.log_table import LogTable
from surefoot.study.log_reader import parse_logs

STUDY = """
[columns]
participant = "participant"
time = "time"
available = "available"
probability = "probability"
[state.mood]
[state.place]
kind = "category"
levels = ["other", "home", "work"]
[state.weekend]
kind = "yes/no"
[state.alone]
kind = "yes/no"
[state.dose]
derived = "dose"
discount = 0.9
[actions]
column = "action"
[outcome]
column = "outcome"
[trial]
day_boundary = 3
"""
HEARTSTEPS = """
[columns]
participant = "participant"
time = "time"
[state.weather]
[state.engagement]
[state.fatigue]
"""


def two_state(rng, people, points, enter, leave):
    marks = np.zeros((people, points), dtype=bool)
    for t in range(1, points):
        chance = np.where(marks[:, t - 1], 1 - leave, enter)
        marks[:, t] = rng.random(people) < chance
    return marks


def make_frame(people=30, points=90, *, seed=0, effect=0.0, zeros=True):
    """A pilot of everything: a mood that lasts, places by the hour, weekends, gaps, and outcomes with many zeros."""
    rng = np.random.default_rng(seed)
    level = rng.standard_normal(people)
    mood, place = np.zeros((people, points)), np.zeros((people, points), dtype=int)
    for t in range(points):
        before = mood[:, t - 1] if t else level
        mood[:, t] = 0.3 * level + 0.7 * before + 0.5 * rng.standard_normal(people)
        at_home = 0.6 if t % 3 == 2 else 0.2
        fresh = np.where(rng.random(people) < at_home, 1, rng.choice([0, 2], people))
        place[:, t] = np.where((rng.random(people) < 0.5) & (t > 0), place[:, t - 1], fresh)
    available = ~two_state(rng, people, points, 0.1, 0.5)
    action = (rng.random((people, points)) < 0.5) & available
    chance = expit(0.5 + 0.5 * level[:, None] + 0.4 * mood + (np.arange(points) % 3 == 1))
    amount = 4 + 0.3 * level[:, None] + 0.2 * mood + 0.8 * rng.standard_normal((people, points)) + effect * action
    some = rng.random((people, points)) < chance if zeros else np.ones((people, points), dtype=bool)
    outcome = np.where(some, np.ceil(np.exp(amount)), 0.0)
    outcome[two_state(rng, people, points, 0.03, 0.3)] = np.nan
    mood[two_state(rng, people, points, 0.03, 0.4)] = np.nan
    names = np.array(["other", "home", "work"])
    who, when = np.meshgrid(np.arange(people), np.arange(points), indexing="ij")
    return {
        "participant": who.ravel(),
        "time": when.ravel(),
        "available": available.ravel(),
        "probability": np.full(who.size, 0.5),
        "mood": mood.ravel(),
        "place": names[place].ravel(),
        "alone": two_state(rng, people, points, 0.2, 0.3).astype(float).ravel(),
        "weekend": ((when // 3) % 7 >= 5).astype(float).ravel(),
        "action": action.astype(int).ravel(),
        "outcome": outcome.ravel(),
    }


def read_frame(frame, study):
    import pyarrow as pa

    return parse_logs(
        study,
        LogTable.of(pa.table({name: pa.array(values, from_pandas=True) for name, values in frame.items()}), "participant"),
    )
