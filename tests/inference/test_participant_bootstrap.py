import numpy as np
from numpy.testing import assert_array_equal

import surefoot as sf
from surefoot.data.frames import make_frame
from surefoot.inference.participant_bootstrap import bootstrap_coefficients


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
