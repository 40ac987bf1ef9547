import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

import surefoot as sf
from surefoot.rehearsal import estimate_pilot_effect
from surefoot.rehearsal.pilot_data import StudyClock
from surefoot.rehearsal.pilot_fit import redraw_actions
from tests.rehearsal.pilots import STUDY, make_frame, needs_v1, read_frame, read_v1

study = sf.Study.parse(STUDY)


def test_drawn_anew_the_actions_of_simulated_pilots_do_nothing():
    scores = []
    for seed in range(4):
        found = estimate_pilot_effect(read_frame(make_frame(seed=seed, effect=0.8), study), study, redraws=15, seed=seed)
        assert found.estimate > 3 * found.standard_error
        scores += [estimate / error for estimate, error in found.null]
    # Standard normal, if the error is honest: 95 % within 2, with a mean of 0 ± 1 / √60.
    assert np.mean(np.abs(scores) <= 2) >= 0.88
    assert abs(np.mean(scores)) < 3 / np.sqrt(60)
    assert 0.75 < np.std(scores) < 1.25


@needs_v1
def test_the_effect_of_heartsteps_v1_is_imputed_with_its_error_and_is_nothing_without_it():
    logs, v1 = read_v1()
    found = estimate_pilot_effect(logs, v1, redraws=40, seed=1)
    assert_allclose([found.estimate, found.standard_error], [0.149, 0.075], atol=0.002)
    mean, error = found.null_mean
    assert abs(mean) <= 2 * error
    assert found.null_is_zero


def test_every_trial_draws_the_effect_from_its_uncertainty():
    logs = read_frame(make_frame(effect=0.8), study)
    found = estimate_pilot_effect(logs, study, redraws=0)
    model = sf.rehearsal.fit_pilot(logs, study, outcome="hurdle").in_environment(found.environment)
    people = model.draw_people(30, seed=list(range(300)))
    effects = people.environment.effects[0].individual.individual[0].mean(axis=1) * found.spread
    assert_allclose(effects.mean(), found.estimate, atol=4 * effects.std() / np.sqrt(300))
    expected = np.sqrt(found.standard_error**2 + found.between**2 / 30)
    assert_allclose(effects.std(), expected, rtol=0.15)
    again = model.draw_people(30, seed=7).environment.effects[0].individual.individual
    assert_array_equal(again, people.environment.effects[0].individual.individual[:, 7])


def test_drawing_anew_changes_nothing_but_actions():
    logs = read_frame(make_frame(people=5, points=20), study).logs
    other = redraw_actions(logs, np.random.default_rng(0))
    assert_array_equal(other.reward, logs.reward)
    assert (other.action[~logs.available] == 0).all()
    assert (other.action != logs.action).any()


def test_the_clock_has_levels_of_the_time_of_day_and_the_day():
    features = StudyClock(per_day=3, middle=2.0, width=2.0).features(np.array([0.0, 4.0]))
    assert_allclose(features, [[0, 1], [0, 0], [-1, -0.5]])
    assert len(StudyClock(per_day=12, middle=2.0, width=2.0).features(np.arange(24.0))) == 5
