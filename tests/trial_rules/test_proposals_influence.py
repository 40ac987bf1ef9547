"""What moves a policy beyond the limit is found: against refits without every row and every participant."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from surefoot import Study, Trajectories
from surefoot.trial_rules.policy_checks import find_influences
from surefoot.trial_rules.proposals import find_shared_influences

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
METHODS = ("accb", "ro-accb", "saccb", "ro-saccb")
ALLOWED = 0.3


def make_study(name, pooling="all"):
    return Study.parse(TEXT.replace("NAME", name).replace("POOLING", pooling))


def make_logs(rng, people, points, off):
    """People with an effect of some size; where `off`, one decision point is far from all others."""
    state, action = rng.normal(size=(people, points, 2)), rng.integers(0, 2, (people, points))
    outcome = rng.normal(size=(people, points)) + action * rng.choice([0.0, 1.0]) * (0.5 + state[..., 0])
    if off:
        place = (int(rng.integers(people)), int(rng.integers(points)))
        state[(*place, 0)] = rng.choice([1.0, 10.0, 100.0])
        outcome[place] += rng.choice([-1, 1]) * rng.choice([10.0, 100.0, 1000.0])
    data = Trajectories.from_arrays(state, action, outcome, state_names=("s1", "s2"))
    return SimpleNamespace(logs=data, row=np.arange(len(data)), screen=None)


def find(study, logs, allowed=ALLOWED):
    method = study.method().fit_some(logs.logs)
    own = find_shared_influences(method)
    return find_influences(study, logs, method, method.policies_, own, allowed, lambda row: f"row {row}")


def measure_all(name, logs):
    """The change without every row and without every participant: each such set of rows fitted as one person's."""
    data, study = logs.logs, make_study(name, "person")
    kept = [np.arange(len(data))]
    kept += [np.delete(kept[0], row) for row in range(len(data))]
    kept += [np.flatnonzero(data.participant_index != one) for one in range(len(data.participants))]
    chosen, index = np.concatenate(kept), np.repeat(np.arange(len(kept)), [len(rows) for rows in kept])
    sets = Trajectories(
        participants=np.arange(len(kept)),
        participant_index=index,
        time=np.arange(len(chosen)),
        state_names=data.state_names,
        action_names=data.action_names,
        **{name: getattr(data, name)[chosen] for name in ("state", "available", "action", "probability", "outcome")},
    )
    policies = study.method().fit_some(sets).policies_
    send = np.stack([study.clip_probabilities(policies[one].probabilities(data.state))[:, 1] for one in range(len(kept))])
    return np.abs(send[1:] - send[0]).mean(axis=1)


@pytest.fixture(autouse=True)
def without_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def count_missed(problems, seed, people=(4, 8), points=(8, 16)):
    """Of random problems with too large an influence, how many are not found; and how many there are."""
    rng, over, missed = np.random.default_rng(seed), 0, 0
    for problem in range(problems):
        name = METHODS[problem % 4]
        logs = make_logs(rng, int(rng.integers(*people)), int(rng.integers(*points)), off=problem % 3 > 0)
        if measure_all(name, logs).max() > ALLOWED:
            over += 1
            missed += max(one.change for one in find(make_study(name), logs)) <= ALLOWED
    return missed, over


def test_nothing_beyond_the_limit_is_missed_among_few_rows():
    missed, over = count_missed(40, seed=0)
    assert missed == 0 and over >= 8


def test_among_many_rows_only_what_may_matter_is_refitted():
    rng = np.random.default_rng(1)
    calm = find(make_study("ro-saccb"), make_logs(rng, 10, 60, off=False))
    assert not any(one.refitted for one in calm) and max(one.change for one in calm) < ALLOWED / 4
    logs = make_logs(rng, 10, 60, off=False)
    state, outcome = logs.logs.state.copy(), logs.logs.outcome.copy()
    state[17, 0], outcome[17] = 100.0, -3000.0
    logs.logs = logs.logs.with_values(state=state, outcome=outcome)
    worst = max(find(make_study("accb"), logs), key=lambda one: one.change)
    assert worst.refitted and worst.change == pytest.approx(measure_all("accb", logs).max()) and worst.change > ALLOWED


@pytest.mark.parametrize("name", METHODS)
def test_estimates_bound_what_refits_change(name):
    """Of a calm problem with many rows the estimated changes bound those of refits."""
    logs = make_logs(np.random.default_rng(5), 10, 60, off=False)
    found = find(make_study(name), logs)
    changes = measure_all(name, logs)
    for one in found:
        kind, place = one.subject.split()
        true = changes[int(place)] if kind == "row" else changes[600 + int(place)]
        assert true <= 1.5 * one.change


def test_everybodys_own_rows_are_refitted_with_the_same_change_as_alone():
    rng = np.random.default_rng(2)
    logs = make_logs(rng, 3, 20, off=True)
    study, data = make_study("accb", "person"), logs.logs
    for one in find(study, logs):
        place = int(one.subject.split()[1])
        own = data.participant_index == data.participant_index[place]
        whole, without = (study.method().fit_some(data[own & keep]) for keep in (True, np.arange(len(data)) != place))
        before, after = (
            study.clip_probabilities(fit.policies_.rule[0].probabilities(data.state[own])) for fit in (whole, without)
        )
        assert one.change == pytest.approx(np.abs(before - after).max(axis=1).mean(), rel=1e-9)
