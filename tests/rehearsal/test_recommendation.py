"""Numbers over trials with their Monte Carlo errors, and the rule of the recommendation."""

import numpy as np
import pytest
from scipy import stats

from surefoot import Study
from surefoot.rehearsal import NO_EFFECT, Candidate, CandidateAnswers
from surefoot.rehearsal.plan import COIN, NEVER, SafetyRule
from surefoot.rehearsal.recommendation import NONE, recommend, recommend_overall

RULE = SafetyRule()
TRIALS = 60


def make_answers(rng, trials=40, *, candidate="mine", shift=0.0, is_null=False, drawn=None, people=0, **changes):
    values = {
        name: rng.random(trials)
        for name in (*("outcome", "lower_quarter", "sent", "sent_low", "sent_high", "effective_share"),
                     *("fallback", "left", "updates_waiting", "updates_failed"))
    }  # fmt: skip
    values |= {"over_coin": rng.normal(shift, 1, trials), "over_never": rng.normal(shift, 1, trials)}
    values |= {"harmed": np.zeros(trials), "updates_done": np.full(trials, 3.0), "updates_refused": np.ones(trials)}
    values |= {"p_value": rng.random(trials), "estimate": rng.normal(size=trials), "standard_error": 1 + rng.random(trials)}
    values |= {"outcome_by_day": rng.random((trials, 3)), "sent_by_day": rng.random((trials, 3))}
    return CandidateAnswers("here", candidate, None, 0.05, is_null, values | changes, drawn or {}, people)


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


def test_honest_errors_give_one():
    rng = np.random.default_rng(5)
    one = make_answers(rng, 4000, estimate=rng.normal(0, 2, 4000), standard_error=np.full(4000, 2.0))
    assert abs(one.honesty.value - 1) < 3 * one.honesty.standard_error


def test_refused_updates_are_a_share_of_those_with_a_policy():
    assert make_answers(np.random.default_rng(6)).refused_updates.value == 0.25


def test_blocks_are_joined_in_their_order():
    first = {"outcome": [1.0, 2.0], "no_analysis": ["", "why"], "refused_by": [["rate"], []], "failures": ["", "x"]}
    second = {"outcome": [3.0], "no_analysis": ["why"], "refused_by": [["influence", "rate"]], "failures": ["x"]}
    candidate = Candidate.fixed(Study.parse('[columns]\nparticipant = "p"\ntime = "t"\n[state.mood]'), 0.5, "a")
    found = CandidateAnswers.join(NO_EFFECT, candidate, 0.05, [{"a": first}, {"a": second}])
    assert found.values["outcome"].tolist() == [1, 2, 3]
    assert found.reasons == ("why",)
    assert found.refusals == {"rate": 2, "influence": 1}
    assert found.failures == ("x",)


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
        ("Statistically indistinguishable from it: one", "Statistically indistinguishable from it: two")
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"over_coin": np.tile([-1.0, 1.0], TRIALS // 2)}, "not significantly higher than the coin's"),
        ({"over_never": np.full(TRIALS, -0.1)}, "not likely higher than never's"),
        ({"harmed": np.full(TRIALS, 0.3)}, "harms 30.0 % of people, and a coin 0.0 %"),
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


def test_the_pilots_uncertainty_is_in_every_interval_and_the_simulations_apart():
    rng = np.random.default_rng(2)
    values = rng.normal(1, 0.1, TRIALS)
    drawn = values + rng.normal(0, 2, TRIALS)
    answers = make_answers(rng, TRIALS, over_coin=values, drawn={"over_coin": drawn}, people=9)
    interval = answers.mean("over_coin")
    simulated = values.std(ddof=1) / np.sqrt(TRIALS)
    assert answers.simulation_error("over_coin") == pytest.approx(simulated)
    assert interval.standard_error == pytest.approx(np.hypot(simulated, (drawn - values).std(ddof=1)))
    degrees = 1 / (1 / 8 + 1 / (TRIALS - 1))
    assert interval.high - interval.value == pytest.approx(stats.t.ppf(0.975, degrees) * interval.standard_error)
    assert answers.lower_limit("over_coin", 0.95) < 0 < interval.value


def test_power_is_as_uncertain_as_the_effect_in_the_pilot():
    rng = np.random.default_rng(3)
    given = {"estimate": np.full(40, 2.0), "standard_error": np.full(40, 0.5), "p_value": np.full(40, 0.001)}
    sure = make_answers(rng, **given)
    unsure = make_answers(rng, **given, drawn={"estimate": rng.normal(2.0, 1.0, 40)}, people=9)
    assert sure.rejections.low > 0.9
    assert unsure.rejections.low == pytest.approx(0.05, abs=0.01)


def test_over_all_a_candidate_must_be_safe_everywhere():
    fine = recommend(cells(mine=(0.5, {}), other=(0.3, {})), null("mine", "other"), RULE)
    bad = recommend(cells(mine=(-0.5, {}), other=(0.0, {})), null("mine", "other"), RULE)
    assert fine.candidate == "mine"
    assert recommend_overall([fine], 1.0, ()).candidate == "mine"
    both = recommend_overall([fine, bad], 1.0, ())
    assert both.candidate is None
    assert "not safe in another" in both.reason


def test_a_model_that_does_not_show_the_pilots_effects_stops_a_recommendation():
    fine = recommend(cells(mine=(0.5, {})), null("mine"), RULE)
    stopped = recommend_overall([fine], 1.0, ["tired: response 1 later: 0.45 in the pilot, 0.1 simulated"])
    assert stopped.candidate is None
    assert "the model is unsafe" in stopped.reason


def test_the_ends_of_what_comes_later_are_not_judged():
    fine = recommend(cells(mine=(0.5, {})), null("mine"), RULE)
    end = recommend(cells(mine=(-0.5, {})), null("mine"), RULE, is_judged=False)
    assert recommend_overall([fine, end], 1.0, ()).candidate == "mine"
