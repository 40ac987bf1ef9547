"""What the audit says about values that repeat."""

import numpy as np
import pytest

import surefoot as sf
from surefoot.audit import audit
from surefoot.audit.standing_still import check_standing_still
from surefoot.screening import screen
from surefoot.simulators import contaminate


def study(seed, people=30):
    return sf.simulators.HeartSteps(participants=people).collect(sf.policies.coin(2), decision_points=210, seed=seed)


def still(logs):
    return check_standing_still(logs, logs.reward)


def test_identical_zeros_in_runs_are_named_even_without_a_screen():
    logs = contaminate(study(1), mechanism="nonwear", ratio=0.2, run_length=20, seed=2).logs
    found = audit(sf.method("accb").fit(logs)).check("values that stand still")
    assert found.verdict == "unsafe"
    assert 0.15 < found.numbers["identical"] < 0.2
    assert found.numbers["zeros"] == pytest.approx(0.2, abs=0.005)
    assert found.numbers["zeros_in_runs"] > 0.8
    assert "[screen]" in found.remedy


def test_a_dead_sensor_is_named_and_the_screen_settles_it():
    logs = contaminate(study(3), mechanism="stuck", ratio=0.2, run_length=20, seed=4).logs
    assert "'reward', whose values hardly ever recur otherwise" in still(logs).reason
    assert still(screen(logs).logs).verdict == "fine"


def test_honest_data_may_repeat():
    clean = study(5)
    rng = np.random.default_rng(6)
    for reward in (clean.reward, np.maximum(np.round(clean.reward / 100), 0), rng.integers(0, 2, len(clean)).astype(float)):
        assert still(clean.with_values(reward=reward)).verdict == "fine"
    walk = sf.simulators.ChainWalk(participants=20).collect(sf.policies.coin(2), decision_points=210, seed=7)
    assert still(walk).verdict != "unsafe"


def test_the_chance_of_runs_is_that_of_independent_zeros():
    logs = study(8, people=200)
    zeros = np.random.default_rng(9).random(len(logs)) < 0.5
    numbers = still(logs.with_values(reward=np.where(zeros, 0.0, 1.0 + logs.reward**2))).numbers
    assert numbers["by_chance"] == pytest.approx(0.5**4 * (5 - 4 * 0.5), rel=0.1)
    assert numbers["zeros_in_runs"] == pytest.approx(numbers["by_chance"], rel=0.1)


def repeat(share, column="reward", rows=1000):
    """One participant with two continuous columns, of which one repeats the value before at a share of the rows."""
    rng = np.random.default_rng(0)
    values = {"state": rng.standard_normal(rows), "reward": 100 + rng.standard_normal(rows)}
    for row in np.arange(1, rows, 2)[: round(share * rows)]:
        for name in ("state", "reward") if column == "both" else (column,):
            values[name][row] = values[name][row - 1]
    return sf.Trajectories.from_arrays(values["state"][None, :, None], np.zeros((1, rows)), values["reward"][None])


@pytest.mark.parametrize(
    ("share", "verdict"),
    [(0.0, "fine"), (0.02, "fine"), (0.021, "look"), (0.1, "look"), (0.101, "unsafe"), (0.499, "unsafe")],
)
@pytest.mark.parametrize("column", ["reward", "state", "both"])
def test_as_much_may_repeat_as_the_limits_say(share, verdict, column):
    logs = repeat(share, column)
    found = still(logs)
    assert found.verdict == verdict and bool(found.remedy) == (verdict != "fine")
    assert found.numbers["identical"] == (share if column == "both" else 0.0)
    names = {"both": ("s1", "reward"), "state": ("s1",), "reward": ("reward",)}[column]
    assert found.numbers["repeats"] == ({} if share <= 0.02 else dict.fromkeys(names, share))
    assert found.reason.startswith(f"{100 * share if column == 'both' else 0:.1f} % of the decision points have exactly")
    assert ("hardly ever recur otherwise, repeats at" in found.reason) == (share > 0.02)


def test_what_repeats_by_nature_is_not_odd():
    found = still(repeat(0.5))
    assert found.numbers["repeats"] == {} and found.verdict == "fine"
    yes_no = sf.Trajectories.from_arrays(np.ones((1, 100, 1)), np.zeros((1, 100)), np.ones((1, 100)))
    found = still(yes_no)
    assert (found.numbers["identical"], found.verdict) == (0.99, "fine"), "nothing there is continuous"


def test_the_first_decision_point_of_a_participant_repeats_nobody():
    state = np.random.default_rng(1).standard_normal((3, 4, 1))
    state[1, 0], state[2, 0] = state[0, 3], state[1, 3]
    reward = np.ones((3, 4))
    assert still(sf.Trajectories.from_arrays(state, np.zeros((3, 4)), reward)).numbers["identical"] == 0.0


def test_zeros_in_runs_by_hand():
    """Runs of 5 and 4 zeros, one across two people, and a lonely zero; a missing reward is no zero."""
    reward = np.array([[0, 0, 0, 0, 0, 1, 0, 2, 3, 0], [0, 0, 0, 0, 5, 6, 7, 8, 9, np.nan]])
    logs = sf.Trajectories.from_arrays(np.arange(20.0).reshape(2, 10, 1), np.zeros((2, 10)), reward)
    found = still(logs)
    assert found.numbers["zeros"] == pytest.approx(11 / 19)
    assert found.numbers["zeros_in_runs"] == pytest.approx(5 / 11)
    p = np.array([7 / 10, 4 / 9])
    assert found.numbers["by_chance"] == pytest.approx((np.array([7, 4]) * p**4 * (5 - 4 * p)).sum() / 11)
    assert "57.9 % of 'reward' are 0, 45 % of these in runs of 5 or more (by chance" in found.reason


@pytest.mark.parametrize(("run", "verdict"), [(50, "fine"), (60, "look"), (300, "look")])
def test_zeros_that_chance_does_not_explain_are_looked_at_and_never_unsafe(run, verdict):
    """A run of zeros among 1,000 rows, with a state that never repeats."""
    rng = np.random.default_rng(2)
    reward = 1 + rng.random(1000)
    reward[:run] = np.where(np.arange(run) % 2, 0.0, 0.0)
    logs = sf.Trajectories.from_arrays(rng.standard_normal((1, 1000, 1)), np.zeros((1, 1000)), np.round(reward[None], 1))
    found = still(logs)
    excess = found.numbers["zeros"] * (found.numbers["zeros_in_runs"] - found.numbers["by_chance"])
    assert found.verdict == verdict == ("look" if excess > 0.05 else "fine")
