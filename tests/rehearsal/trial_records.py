"""Trials made by hand."""

import numpy as np

from surefoot.data.trajectories import Trajectories
from surefoot.rehearsal.trial_run import DECIDERS, TrialRecord
from surefoot.study import Study, StudyLogs

STUDY = Study.parse('[columns]\nparticipant = "participant"\ntime = "time"\n[state.s1]\n')


def make_record(rng, people=7, points=12, per_day=3, lengths=None):
    lengths = np.full(people, points) if lengths is None else np.asarray(lengths)
    action = rng.integers(0, 2, (people, points))
    available = rng.random((people, points)) < 0.8
    action = np.where(available, action, 0)
    outcome = rng.normal(size=(people, points))
    source = np.where(available, rng.choice([DECIDERS.index("policy"), DECIDERS.index("fallback")], (people, points)),
                      DECIDERS.index("unavailable"))  # fmt: skip
    probability = np.where(available, 0.5, 1.0)
    logs = Trajectories.from_arrays(
        rng.normal(size=(people, points, 1)), action, outcome, available=available, probability=probability, lengths=lengths
    )
    inside = np.arange(points) < lengths[:, None]
    day = np.broadcast_to(np.arange(points) // per_day, inside.shape)
    made = TrialRecord(
        study=STUDY, reported=StudyLogs(logs, logs.outcome, {}, np.arange(len(logs))),
        version=np.zeros(len(logs), dtype=int), day=day[inside], own_day=day[inside], outcome=outcome[inside],
        source=source[inside], updates=[], left=np.where(lengths < points, lengths // per_day, np.nan),
    )  # fmt: skip
    return made, outcome, np.where(available, action, np.nan), np.where(available, source, -1)
