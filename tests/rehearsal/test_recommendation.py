"""The rule of the recommendation, on numbers made up so that each of its conditions decides."""

import numpy as np
import pytest
from scipy import stats

from surefoot.rehearsal.candidates import COIN, NEVER
from surefoot.rehearsal.plan import SafetyRule
from surefoot.rehearsal.recommendation import NONE, compare_pairs, recommend, recommend_overall
from tests.rehearsal.test_candidate_answers import make_answers

RULE = SafetyRule()
TRIALS = 60


def cells(*, is_null=False, **candidates):
    """Answers where the coin and never are alike, and candidates differ from them by so much."""
    rng = np.random.default_rng(0)
    level = rng.random(TRIALS)
    zero = np.zeros(TRIALS)
    strong = np.full(TRIALS, 0.001)
    found = {
        COIN: make_answers(rng, TRIALS, candidate=COIN, outcome=level, over_coin=zero, over_never=zero, p_value=strong),
        NEVER: make_answers(
            rng, TRIALS, candidate=NEVER, outcome=level, over_coin=zero, over_never=zero, p_value=zero + np.nan
        ),
    }
    for name, (gain, changes) in candidates.items():
        noise = rng.normal(0, 0.1, TRIALS)
        moved = gain + noise - noise.mean()
        given = {"outcome": level + moved, "over_coin": moved, "over_never": moved, "p_value": strong} | changes
        found[name] = make_answers(rng, TRIALS, candidate=name, is_null=is_null, **given)
    return found


def null(*names):
    return {name: make_answers(np.random.default_rng(1), TRIALS, candidate=name, is_null=True) for name in names}


def test_a_significantly_better_candidate_is_recommended_and_the_best_of_those():
    found = recommend(cells(good=(0.5, {}), better=(0.9, {}), same=(0.0, {})), null("good", "better", "same"), RULE)
    assert found.candidate == "better"
    assert "above the coin's by 0.9" in found.reason
    assert "indistinguishable" not in found.reason


def test_those_that_are_not_told_apart_are_named():
    found = recommend(cells(one=(0.5, {}), two=(0.5, {})), null("one", "two"), RULE)
    assert found.reason.endswith(
        ("statistically indistinguishable from it: one", "statistically indistinguishable from it: two")
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"over_coin": np.tile([-1.0, 1.0], TRIALS // 2)}, "not significantly higher than the coin's"),
        ({"over_never": np.full(TRIALS, -0.1)}, "not significantly higher than never's"),
        ({"harmed": np.full(TRIALS, 0.3)}, "harms 30.0 % of people against never, a coin 0.0 %"),
        ({"p_value": np.full(TRIALS, 0.8)}, "power of 0 %, after a coin 100 %"),
    ],
)
def test_each_condition_can_stop_a_recommendation(changes, reason):
    found = recommend(cells(mine=(0.5, changes)), null("mine"), RULE)
    assert found.candidate is None
    assert reason in found.reason
    assert found.sentence.startswith(NONE)


def test_an_analysis_that_finds_effects_where_there_are_none_stops_it():
    wrong = {"mine": make_answers(np.random.default_rng(1), TRIALS, is_null=True, p_value=np.full(TRIALS, 0.01))}
    found = recommend(cells(mine=(0.5, {})), wrong, RULE)
    assert "finds an effect in 100.0 % of trials without one" in found.reason


def test_where_a_coin_harms_as_many_the_harm_is_not_the_candidates():
    made = cells(mine=(0.5, {"harmed": np.full(TRIALS, 0.3)}))
    made[COIN].values["harmed"][:] = 0.4
    assert recommend(made, null("mine"), RULE).candidate == "mine"


def test_never_is_said_to_be_better_where_it_is():
    made = cells(mine=(-0.5, {}))
    made[NEVER].values["over_coin"][:] = 0.3
    assert "Sending nothing is better than a coin here, by 0.3" in recommend(made, null("mine"), RULE).reason


def test_intervals_hold_for_all_comparisons_together():
    values = np.random.default_rng(2).normal(size=30)
    low, high = stats.t.interval(1 - 0.05 / 4, 29, values.mean(), stats.sem(values))
    found = compare_pairs(values, 4)
    assert (found.low, found.high) == pytest.approx((low, high))


def test_over_all_a_candidate_must_be_safe_everywhere():
    fine = recommend(cells(mine=(0.5, {}), other=(0.3, {})), null("mine", "other"), RULE)
    bad = recommend(cells(mine=(-0.5, {}), other=(0.0, {})), null("mine", "other"), RULE)
    assert fine.candidate == "mine"
    assert recommend_overall([fine], 1.0).candidate == "mine"
    both = recommend_overall([fine, bad], 1.0)
    assert both.candidate is None
    assert "not safe in another" in both.reason
