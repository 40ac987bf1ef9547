"""Nothing that moves a shared policy beyond the limit is missed: against refits without every row and every participant."""

from types import SimpleNamespace

import numpy as np

from surefoot import Study, Trajectories
from surefoot.trial_rules import influence
from surefoot.trial_rules.influence import find_influences
from surefoot.trial_rules.standard_errors import find_shared_influences

TEXT = """[columns]
participant = "participant"
time = "time"
[state.s1]
[state.s2]
[method]
name = "NAME"
pooling = "POOLING"
[probability_limits]
minimum = 0.1
maximum = 0.9
"""
ALLOWED = 0.2


def make_study(name, pooling="all"):
    return Study.parse(TEXT.replace("NAME", name).replace("POOLING", pooling))


def make_logs(rng, people=6, points=20):
    """Some people of whom, in two of three problems, one decision point is far off."""
    state, action = rng.normal(size=(people, points, 2)), rng.integers(0, 2, (people, points))
    reward = rng.normal(size=(people, points)) + action * (0.5 + state[..., 0])
    if rng.random() < 2 / 3:
        place = tuple(rng.integers((people, points)))
        state[(*place, 0)] = rng.choice([1.0, 10.0, 100.0])
        reward[place] += rng.choice([-1, 1]) * rng.choice([10.0, 100.0])
    data = Trajectories.from_arrays(state, action, reward, state_names=("s1", "s2"))
    return SimpleNamespace(logs=data, row=np.arange(len(data)), screen=None)


def find(study, logs, allowed=ALLOWED):
    method = study.method().fit_some(logs.logs)
    own = find_shared_influences(method)
    return find_influences(study, logs, method, method.policies_, own, allowed, lambda row: f"row {row}")


def refit_without(study, logs, kept):
    policies = study.method().fit_some(logs.logs).policies_
    return influence._change(study, logs, policies, influence._refit(study, logs.logs[kept]))
