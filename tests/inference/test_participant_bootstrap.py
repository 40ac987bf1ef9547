import numpy as np
from numpy.testing import assert_array_equal

import surefoot as sf
from surefoot.data.frames import make_frame
from surefoot.inference.participant_bootstrap import bootstrap_coefficients, choose_people
from surefoot.numerics.random_streams import streams


def test_a_persons_interval_does_not_depend_on_who_else_is_there():
    """The same six people by name, with and without the first of them."""
    logs = sf.simulators.HeartSteps(participants=6).collect(sf.policies.coin(2), decision_points=40, seed=0)
    columns = {
        "who": np.array([f"person-{participant}" for participant in logs.participant]),
        "when": logs.time,
        "sent": logs.action,
        "steps": logs.reward,
        **dict(zip(logs.state_names, logs.state.T, strict=True)),
    }
    roles = {"participant": "who", "time": "when", "action": "sent", "reward": "steps", "state": list(logs.state_names)}
    found = {}
    for company, rows in (("all", logs.participant >= 0), ("fewer", logs.participant > 0)):
        frame = make_frame({name: values[rows] for name, values in columns.items()}, "pyarrow")
        fitted = sf.method("ro-accb").fit(sf.Trajectories.from_frame(frame, **roles))
        assert fitted.participants_[-1] == "person-5"
        found[company] = bootstrap_coefficients(fitted, draws=20, seed=1)
    for name in ("critic_low", "critic_high", "policy_low", "policy_high"):
        assert_array_equal(getattr(found["fewer"], name), getattr(found["all"], name)[1:])
    assert len(np.unique(found["all"].critic_low[:, 0])) == 6


def test_of_many_people_some_are_drawn_and_their_intervals_are_what_they_would_be():
    logs = sf.simulators.HeartSteps(participants=12).collect(sf.policies.coin(2), decision_points=40, seed=0)
    fitted, told = sf.method("ro-accb").fit(logs), []
    everybody = bootstrap_coefficients(fitted, draws=20, seed=1)
    some = bootstrap_coefficients(fitted, draws=20, seed=1, most_people=5, progress=lambda done, of: told.append((done, of)))
    drawn = np.flatnonzero(np.isfinite(some.critic_low[:, 0]))
    assert len(drawn) == 5
    assert_array_equal(some.policy_high[drawn], everybody.policy_high[drawn])
    assert told == [(5, 5)]
    other = bootstrap_coefficients(fitted, draws=20, seed=2, most_people=5)
    assert drawn.tolist() != np.flatnonzero(np.isfinite(other.critic_low[:, 0])).tolist()


def test_whom_a_seed_draws():
    """Those with the least of the numbers that everybody draws for themselves."""
    logs = sf.simulators.HeartSteps(participants=20).collect(sf.policies.coin(2), decision_points=3, seed=0)
    some = logs.with_values(reward=np.where(logs.participant_index == 4, np.nan, logs.reward))
    there = np.delete(np.arange(20), 4)
    for seed in (0, 1, 2):
        numbers = np.array([rng.random() for rng in streams(seed, "sample", logs.participants[there])])
        assert_array_equal(choose_people(some, 5, seed), np.sort(there[np.argsort(numbers)][:5]))
    assert_array_equal(choose_people(some, 19, 0), there)
    assert_array_equal(choose_people(some, None, 0), there)
    assert len(choose_people(some, 18, 0)) == 18


def test_defaults_are_two_hundred_draws_of_seed_zero():
    logs = sf.simulators.HeartSteps(participants=2).collect(sf.policies.coin(2), decision_points=20, seed=0)
    fitted = sf.method("linucb").fit(logs)
    expected = bootstrap_coefficients(fitted, draws=200, seed=0)
    assert_array_equal(bootstrap_coefficients(fitted).critic_low, expected.critic_low)
