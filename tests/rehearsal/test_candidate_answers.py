"""Numbers over trials, with their Monte Carlo errors."""

import numpy as np
import pytest
from scipy import stats

from surefoot.rehearsal.candidate_answers import CandidateAnswers, JoinedBlocks


def make_answers(rng, trials=40, *, candidate="mine", shift=0.0, is_null=False, same_truth=True, **changes):
    values = {
        name: rng.random(trials)
        for name in (*("outcome", "lower_quarter", "sent", "sent_low", "sent_high", "regret", "effective_share"),
                     *("fallback", "left", "updates_waiting", "updates_failed"))
    }  # fmt: skip
    values |= {"over_coin": rng.normal(shift, 1, trials), "over_never": rng.normal(shift, 1, trials)}
    values |= {"harmed": np.zeros(trials), "updates_done": np.full(trials, 3.0), "updates_refused": np.ones(trials)}
    values |= {"p_value": rng.random(trials), "estimate": rng.normal(size=trials), "standard_error": 1 + rng.random(trials)}
    values |= {"outcome_by_day": rng.random((trials, 3)), "sent_by_day": rng.random((trials, 3))}
    return CandidateAnswers("here", candidate, None, 0.05, is_null, same_truth, values | changes)


def test_a_mean_has_students_interval():
    one = make_answers(np.random.default_rng(0))
    values = one.values["outcome"]
    low, high = stats.t.interval(0.95, len(values) - 1, values.mean(), stats.sem(values))
    assert one.mean("outcome") == pytest.approx((values.mean(), stats.sem(values), low, high))


def test_power_has_wilsons_interval():
    one = make_answers(np.random.default_rng(1))
    rejected = int((one.values["p_value"] < 0.05).sum())
    wilson = stats.binomtest(rejected, 40).proportion_ci(method="wilson")
    found = one.rejections
    assert (found.value, found.low, found.high) == pytest.approx((rejected / 40, wilson.low, wilson.high))


def test_trials_that_could_not_be_analysed_do_not_count():
    p = np.where(np.arange(40) < 10, np.nan, 0.01)
    one = make_answers(np.random.default_rng(2), p_value=p)
    assert one.rejections.value == 1
    assert one.to_dict()["analysed"] == 30
    assert np.isnan(make_answers(np.random.default_rng(2), p_value=np.full(40, np.nan)).rejections.value)


def test_honesty_is_the_spread_over_the_mean_error_with_a_literal_jackknife():
    one = make_answers(np.random.default_rng(3))
    estimate, error = one.values["estimate"], one.values["standard_error"]

    def ratio(kept):
        return estimate[kept].std(ddof=1) / error[kept].mean()

    everybody = np.arange(40)
    without = np.array([ratio(everybody != left) for left in everybody])
    expected = np.sqrt(39 / 40 * ((without - without.mean()) ** 2).sum())
    assert one.honesty.value == pytest.approx(ratio(everybody >= 0))
    assert one.honesty.standard_error == pytest.approx(expected)


def test_honesty_is_not_asked_where_the_truth_differs_between_trials():
    assert np.isnan(make_answers(np.random.default_rng(4), same_truth=False).honesty.value)


def test_honest_errors_give_one():
    rng = np.random.default_rng(5)
    one = make_answers(rng, 4000, estimate=rng.normal(0, 2, 4000), standard_error=np.full(4000, 2.0))
    assert abs(one.honesty.value - 1) < 3 * one.honesty.standard_error


def test_refused_updates_are_a_share_of_those_with_a_policy():
    assert make_answers(np.random.default_rng(6)).refused_updates.value == 0.25


def test_blocks_are_joined_in_their_order():
    first = {"outcome": [1.0, 2.0], "no_analysis": ["", "why"], "refused_by": [["rate"], []]}
    second = {"outcome": [3.0], "no_analysis": ["why"], "refused_by": [["influence", "rate"]]}
    found = JoinedBlocks.of([{"a": first}, {"a": second}], "a")
    assert found.values["outcome"].tolist() == [1, 2, 3]
    assert found.reasons == ("why",)
    assert found.refusals == {"rate": 2, "influence": 1}
