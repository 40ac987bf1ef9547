"""Where the evaluation's warnings begin, and its intervals put together by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import surefoot as sf
from surefoot.evaluation import evaluate
from surefoot.evaluation.cross_fitting import assign_folds
from surefoot.evaluation.long_run import PEOPLE_DIFFER, LongRunLogs, value_long_run
from surefoot.evaluation.values import LongRunValue
from surefoot.inference.intervals import Interval, difference_interval, ratio_interval


def make_logs(people, points, probability, seed=0):
    """Everybody is always sent something, with the given probabilities."""
    rng = np.random.default_rng(seed)
    state, reward = rng.standard_normal((people, points, 1)), rng.standard_normal((people, points))
    action = np.ones((people, points), dtype=int)
    return sf.Trajectories.from_arrays(state, action, reward, probability=np.broadcast_to(probability, (people, points)))


def find_overlap(logs, policy="always"):
    return next(row for row in evaluate(logs, {}).overlap if row.policy == policy)


@pytest.mark.parametrize(("points", "warned"), [(10, False), (9, True)])
def test_a_hundred_decision_points_are_enough(points, warned):
    found = find_overlap(make_logs(10, points, 1.0))
    assert (found.effective_sample_size, found.largest_ratio, found.send_rate) == (pytest.approx(10 * points), 1, 1)
    assert bool(found.warning) == warned


def test_a_policy_that_never_did_what_was_done_has_no_sample():
    found = find_overlap(make_logs(10, 30, 1.0), "never")
    assert (found.effective_sample_size, found.largest_ratio, found.send_rate) == (0.0, 0.0, 0.0)
    assert "as much about this policy as 0 decision points would (of 300)" in found.warning


@pytest.mark.parametrize(("weight", "warning"), [(105, ""), (106, "one decision point carries 5 % of the weight")])
def test_one_decision_point_may_hold_a_twentieth_of_the_weight(weight, warning):
    """1,999 weights of 1 and one of w: w / (1999 + w) is a twentieth at w = 105.2."""
    probability = np.ones((20, 100))
    probability[3, 4] = 1 / weight
    found = find_overlap(make_logs(20, 100, probability))
    assert_allclose(found.effective_sample_size, (1999 + weight) ** 2 / (1999 + weight**2))
    assert found.warning.split(":")[0] == warning


def test_values_are_paired_within_people():
    """Intervals are those of the totals of every participant; the direct method has none."""
    logs = sf.simulators.HeartSteps(participants=32).collect(sf.policies.coin(2), decision_points=10, seed=2)
    found = evaluate(logs, {"mostly": sf.policies.fixed([0.3, 0.7])}, seed=3)
    ratio = np.where(logs.action == 1, 0.7, 0.3) / 0.5
    index = logs.participant_index
    totals = [np.bincount(index, values) for values in (ratio * logs.reward, ratio, logs.reward, np.ones(len(logs)))]
    one = found.value("mostly", "snips")
    assert_allclose(one.value, ratio_interval(*totals[:2]))
    assert_allclose(one.difference, difference_interval(*totals))
    assert_allclose(found.value("mostly", "ips").value, ratio_interval(totals[0], totals[3]))
    assert_allclose(found.value("as logged").value, ratio_interval(*totals[2:]))
    assert found.value("as logged").difference == Interval(0.0, 0.0, 0.0, 0.0)
    direct = found.value("mostly", "direct")
    assert np.isnan(direct.value[1:]).all()
    assert np.isnan(direct.difference[1:]).all()
    assert_allclose(direct.difference.value, direct.value.value - logs.reward.mean())
    assert (found.people, found.decision_points, found.cross_fit, found.critic) == (32, len(logs), "person", "ridge")
    (contrast,) = found.contrasts
    assert (contrast.policy, contrast.other) == ("always", "never")
    never, always = (found.value(name).value.value for name in ("never", "always"))
    assert_allclose(contrast.difference.value, always - never)
    assert contrast.difference.low < always - never < contrast.difference.high
    frame = found.to_frame().to_pydict()
    at = [place for place, name in enumerate(frame["policy"]) if name == "mostly"]
    assert [frame["estimator"][place] for place in at] == ["ips", "snips", "direct", "doubly robust"]
    for column, expected in (("value", one.value.value), ("low", one.value.low), ("standard_error", one.value[1])):
        assert frame[column][at[1]] == expected
    assert (frame["difference"][at[1]], frame["difference_low"][at[1]]) == (one.difference.value, one.difference.low)
    assert frame["difference_high"][at[1]] == one.difference.high
    plain = found.to_dict()
    assert plain["values"][at[1]]["difference"] == one.difference._asdict()
    assert plain["contrasts"][0]["difference"] == contrast.difference._asdict()
    assert plain["long_run"] == []


def test_folds_are_even_and_in_order():
    """By participant every fold has as many people, by time every stretch as many usable decision points."""
    logs = sf.simulators.HeartSteps(participants=7).collect(sf.policies.coin(2), decision_points=20, seed=2)
    fold = assign_folds(logs, "person", 3, 0)
    own = [np.unique(fold[logs.participant_index == one]) for one in range(7)]
    assert all(len(one) == 1 for one in own)
    assert sorted(np.bincount(np.concatenate(own))) == [2, 2, 3]
    assert_array_equal(np.concatenate(own), np.random.default_rng(0).permutation(7) % 3)
    assert len(np.unique(assign_folds(logs, "person", 50, 0))) == 7
    reward = np.where(logs.time == 0, np.nan, logs.reward)
    reward[(logs.participant_index == 2) & (logs.time > 4)] = np.nan
    fold = assign_folds(logs.with_values(reward=reward), "time", 4, 0)
    usable = ~np.isnan(reward)
    assert_array_equal(fold[(logs.participant_index == 1) & usable], np.arange(19) * 4 // 19)
    assert_array_equal(fold[(logs.participant_index == 2) & usable], [0, 1, 2, 3])
    assert (fold.min(), fold.max()) == (0, 3)
    for cross_fit, folds in (("person", 1), ("time", 1)):
        with pytest.raises(sf.InputError, match="at least 2"):
            assign_folds(logs, cross_fit, folds, 0)
    assert assign_folds(logs, "time", 2, 0).max() == 1


@pytest.mark.parametrize(
    ("low", "high", "immediate", "said"),
    [
        (-3, -1, 2, "its prompts pay now and cost later"),
        (1, 3, -2, "its prompts cost now and pay later"),
        (-3, 0, 2, ""),
        (0, 3, -2, ""),
        (-3, -1, 0, ""),
        (1, 3, 0, ""),
        (-3, -1, -2, ""),
        (1, 3, 2, ""),
    ],
)
def test_a_disagreement_needs_a_sure_sign(low, high, immediate, said):
    found = LongRunValue("p", Interval(0, 1, -1, 1), Interval((low + high) / 2, 1, low, high), immediate)
    assert found.disagreement == said


def test_long_run_intervals_are_students_over_people():
    logs = sf.simulators.HeartSteps(participants=12).collect(sf.policies.coin(2), decision_points=60, seed=1)
    data = LongRunLogs.of_logs(logs, sf.method("accb").make_critic())
    decisions = {name: np.tile(row, (len(data.rows), 1)) for name, row in (("never", [1.0, 0]), ("half", [0.5, 0.5]))}
    (never, half), notes = value_long_run(data, decisions, {"never": 10.0, "half": 14.0})
    differ = data.solve(decisions["never"]).p_value < PEOPLE_DIFFER
    assert any("people differ in how they react" in note for note in notes) == differ
    value, own = data.solve(decisions["half"]).correct(differ)
    nothing, own_nothing = data.solve(decisions["never"]).correct(differ)
    assert (never.difference.value, never.immediate_difference, half.immediate_difference) == (0, 0, 4)
    for found, middle, pull in ((half.value, value, own), (half.difference, value - nothing, own - own_nothing)):
        error = np.sqrt((pull**2).sum() * 12 / 11)
        assert_allclose(found, (middle, error, *stats.t.interval(0.95, 11, middle, error)))
