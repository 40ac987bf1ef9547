from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import surefoot as sf
from surefoot.rehearsal import Burden, Environment, Fading, PeopleDiffer, Standardised, standardised_effect
from surefoot.rehearsal.environments import BestPlan
from surefoot.rehearsal.pooled_regression import Varying
from tests.rehearsal.pilots import STUDY, make_frame, read_frame

study = sf.Study.parse(STUDY)
NEVER, ALWAYS = sf.policies.never(2), sf.policies.always(2)
DAY = np.array([0.0, 7.0, 14.0])
POINTS = 9


@pytest.fixture(scope="module")
def model():
    return sf.rehearsal.fit_pilot(read_frame(make_frame(), study), study, outcome="hurdle")


def difference(model, points=60, people=60):
    """Reward under always less that under never, with the same chance, at available decision points, and its spread."""
    made = model.draw_people(people, seed=[1, 2, 3])
    sent, none = (made.start(seed=[4, 5, 6]).advance(policy, points) for policy in (ALWAYS, NEVER))
    free = sent.available
    assert_array_equal(free, none.available)
    return np.where(free, sent.rewards - none.rewards, np.nan), none.rewards[free].std()


def test_without_effect_nothing_that_is_sent_matters(model):
    moved, _ = difference(model)
    assert np.nanmax(np.abs(moved)) == 0


def estimate(model, people=200, points=60):
    """The mean difference between decision points with and without a prompt, in standard deviations."""
    made = model.draw_people(people, seed=[1, 2, 3]).start(seed=[4, 5, 6]).advance(sf.policies.coin(2), points)
    sent, none = (made.rewards[made.available & (made.actions == code)] for code in (1, 0))
    return (sent.mean() - none.mean()) / none.std()


@pytest.mark.parametrize("d", [0.1, 0.3, -0.2])
def test_a_standardised_effect_moves_the_mean_by_so_many_standard_deviations(model, d):
    assert_allclose(estimate(model.in_environment(standardised_effect(d))), d, atol=0.05)


def test_effects_in_binary_outcomes_are_of_the_same_size():
    frame = make_frame()
    frame["outcome"] = np.where(np.isnan(frame["outcome"]), np.nan, frame["outcome"] > 0)
    binary = sf.rehearsal.fit_pilot(read_frame(frame, study), study)
    assert binary.choice.name == "binary"
    acting = binary.in_environment(standardised_effect(0.2))
    assert_allclose(estimate(acting), 0.2, atol=0.04)
    moved, _ = difference(acting, points=1)
    assert set(np.unique(moved[~np.isnan(moved)])) == {0.0, 1.0}


def test_effects_compose():
    rows = np.array([[0.0, 1.0, 2.0]])
    both = Environment("both", (Standardised(0.4), Fading(7.0), Burden(response=0.25, baseline=0.1)), scale=2.0)
    sent = np.ones(3)
    assert_allclose(both.shift(rows, sent, DAY), 2 * (0.4 * 0.5 ** (DAY / 7) * (1 - 0.25 * rows[0]) - 0.1 * rows[0]))
    assert_allclose(both.shift(rows, 0 * sent, DAY), -2 * 0.1 * rows[0])
    assert_allclose(both.advance(rows, sent), 0.8 * rows + 1)
    assert both.rows == 1
    assert standardised_effect(0.3, Fading(7.0), Burden()).name == "effect 0.3, fading, burden"


def test_an_effect_fades_by_half(model):
    moved, _ = difference(model.in_environment(standardised_effect(0.5, Fading(half_life=5.0))), points=33)
    first, later = np.nanmean(moved[..., :3]), np.nanmean(moved[..., 15:18])
    assert_allclose(later / first, 0.5, atol=0.2)


def test_people_differ_and_burden_costs_later(model):
    spread_out = model.in_environment(standardised_effect(0.3, PeopleDiffer.by(1.5)))
    drawn = spread_out.draw_people(400, seed=1).environment.effects[1].individual.individual[0]
    assert_allclose([drawn.mean(), drawn.std()], [1, 1.5], atol=0.15)
    tiring = model.in_environment(standardised_effect(0.2, Burden(response=0.0, baseline=0.3, recovery=0.5)))
    moved, _ = difference(tiring)
    assert np.nanmean(moved[..., 0]) > 0
    assert np.nanmean(moved[..., 5:]) < 0


def test_the_same_chance_meets_all_environments(model):
    one, other = (
        model.in_environment(standardised_effect(d)).draw_people(5, seed=1).start(seed=2).advance(NEVER, 20)
        for d in (0.1, 0.4)
    )
    assert_array_equal(one.rewards, other.rewards)


def test_effects_that_make_no_sense_are_refused():
    for call, words in (
        (lambda: Fading(half_life=0), "half_life is 0"),
        (lambda: Burden(recovery=1.0), "recovery is 1.0"),
        (lambda: PeopleDiffer.by(-1), "spread is -1"),
        (lambda: standardised_effect(np.inf), "d is inf"),
    ):
        with pytest.raises(sf.InputError, match=words):
            call()


def total(environment, actions, days):
    """The sum of shifts over a sequence of actions, literally."""
    rows, found = environment.begin((1,)), 0.0
    for action, day in zip(actions, days, strict=True):
        found += float(np.squeeze(environment.shift(rows, np.full(1, float(action)), np.asarray(day))))
        rows = environment.advance(rows, np.full(1, float(action)))
    return found


def follow(environment, days):
    plan = BestPlan.find(environment, (1,), days, 1.0)
    rows, actions = environment.begin((1,)), []
    for point in range(len(days)):
        memory = rows[0] if environment.rows else np.zeros(1)
        actions.append(int(plan.sends(point, memory)[0]))
        rows = environment.advance(rows, np.full(1, float(actions[-1])))
    return actions


@pytest.mark.parametrize(
    "environment",
    [
        standardised_effect(0.3, Burden(response=0.3, baseline=0.05, recovery=0.7)),
        standardised_effect(0.3, Burden(baseline=0.12, recovery=0.5)),
        standardised_effect(0.2, Fading(2.0), Burden(response=0.5, recovery=0.6)),
        standardised_effect(-0.1, Burden(baseline=0.01)),
    ],
)
def test_the_plan_is_as_good_as_the_best_of_all_sequences(environment):
    days = np.arange(POINTS) // 3
    best = max(total(environment, actions, days) for actions in product((0, 1), repeat=POINTS))
    assert total(environment, follow(environment, days), days) == pytest.approx(best, abs=0.02 * abs(best) + 1e-9)


def test_without_a_memory_the_best_is_the_best_immediate_action():
    days = np.arange(POINTS) // 3
    assert follow(standardised_effect(0.2, Fading(1.0)), days) == [1] * POINTS
    assert follow(standardised_effect(-0.2), days) == [0] * POINTS


def test_everybody_has_a_plan_of_their_own():
    effect = PeopleDiffer(Varying.normal(np.ones(1), np.zeros(1)))
    own = Varying(np.array([[1.0, -1.0, 2.0]]), effect.individual.models, effect.individual.roots)
    environment = Environment("differ", (Standardised(0.2), PeopleDiffer(own)))
    plan = BestPlan.find(environment, (3,), np.zeros(2), 1.0)
    assert plan.sends(0, np.zeros(3)).tolist() == [True, False, True]
