import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import surefoot as sf
from surefoot.rehearsal import Burden, Environment, Fading, PeopleDiffer, Standardised, standardised_effect
from tests.rehearsal.pilots import STUDY, make_frame, read_frame

study = sf.Study.parse(STUDY)
NEVER, ALWAYS = sf.policies.never(2), sf.policies.always(2)
DAY = np.array([0.0, 7.0, 14.0])


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
    drawn = spread_out.draw_people(400, seed=1).environment.effects[1].own.own[0]
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
