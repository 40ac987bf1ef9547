"""Effects that change for everybody, and a baseline of any shape, from a method's point of view."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtr

import surefoot as sf
from surefoot.data.trajectories import Trajectories
from surefoot.learning.baselines import Smooth
from surefoot.learning.penalties import list_coefficient_names
from surefoot.learning.shared_effects import StudyTime
from tests.reference import mixed_effects as literal

SMOOTH = {"pooling": {"name": "partial", "time": "smooth"}, "baseline": "smooth"}
FADING = np.array([2.0, -1.0])


def fade(time, points):
    """What the effect's intercept has lost by then."""
    return -FADING[0] * time / points


def draw_logs(people=20, points=40, seed=0, *, fading=True, curve=3.0, artefacts=0.0):
    """One state; an effect of 2 − s that loses its intercept over the study, and a sine as baseline."""
    rng = np.random.default_rng(seed)
    state = rng.uniform(-2, 2, (people, points, 1))
    action = rng.integers(0, 2, (people, points))
    time = np.arange(points)
    effect = FADING[0] + FADING[1] * state[..., 0] + fade(time, points) * fading
    outcome = curve * np.sin(2 * state[..., 0]) + action * (effect + 0.3 * rng.standard_normal((people, 1)))
    outcome = outcome + rng.standard_normal((people, points)) + rng.standard_normal((people, 1))
    dirty = rng.random((people, points)) < artefacts
    outcome = np.where(dirty, 40.0, outcome)
    return Trajectories.from_arrays(state, action, outcome, probability=np.full((people, points), 0.5)), dirty.ravel()


def test_time_is_counted_from_everybodys_first_decision_point():
    logs = Trajectories.from_arrays(
        np.zeros((2, 4, 1)), np.zeros((2, 4)), np.ones((2, 4)), lengths=[2, 4], time=[[7, 8, 0, 0], [0, 1, 2, 3]]
    )
    time = StudyTime.of_logs(logs, most=2)
    assert time.position[logs.participant_index == 0].tolist() == [0.0, 1.0]
    assert time.following.tolist() == [2.0, 4.0]
    assert time.knots.tolist() == [0.0, 1.0, 4.0]
    assert_allclose(time.ramps(time.following), [[1, 1 / 3], [1, 1]])
    assert_allclose(time.widths**2, [0.5, 1.5])


@pytest.mark.parametrize("longest", [1, 2, 5, 16, 17, 60, 1000])
def test_intervals_grow_and_end_at_the_last_decision_point(longest):
    time = StudyTime.of_logs(Trajectories.from_arrays(np.zeros((1, longest, 1)), *np.zeros((2, 1, longest))))
    assert time.knots[[0, -1]].tolist() == [0.0, longest]
    assert time.intervals <= min(16, longest)
    lengths = np.diff(time.knots)
    assert (lengths >= 1).all()
    if longest == 1000:
        # 1 + 5 u is multiplied by the same number from one knot to the next.
        assert time.intervals == 16
        assert_allclose(np.diff(np.log(1 + 5 * time.knots / 1000)), np.log(6) / 16, rtol=0.02)


def test_an_effect_that_fades_is_followed_to_the_next_decision_point():
    logs, _ = draw_logs()
    constant = sf.method("ts", pooling="partial").fit(logs)
    smooth = sf.method("ts", **SMOOTH).fit(logs)
    at_the_end = FADING[0] + fade(40, 40)
    errors = [abs(fitted.critic_coef_[:, 2].mean() - at_the_end) for fitted in (constant, smooth)]
    assert errors[0] > 0.7
    assert errors[1] < 0.35
    first = smooth.posterior_.population[2]
    assert abs(first - FADING[0]) < 0.5
    # Somebody new is at their own first decision point, where the prompt still works.
    state = np.array([[0.0]])
    assert smooth.policies_.probabilities([999], state)[0, 1] > 0.9


def test_probabilities_are_those_of_the_dense_posterior():
    people, points = 6, 24
    logs, _ = draw_logs(people, points)
    # The slope of the effect changes too, and the mean state is not zero.
    change = 3 * logs.action * logs.state[:, 0] * np.tile(np.arange(points), people) / points
    logs = logs.with_values(state=logs.state + 1, outcome=logs.outcome + change)
    fitted = sf.method("ts", pooling=SMOOTH["pooling"], baseline=Smooth(8), critic_penalty=0.0).fit(logs)
    posterior = fitted.posterior_
    assert (posterior.shared.variances[[0, 2]] > 0).all() and posterior.spread[0, 0] > 0
    state, action = logs.state[:, 0], logs.action
    columns = fitted.joint_.shared.design.columns
    angles = (state - columns.scaling.centre[0]) / columns.scaling.width[0]
    angles = angles[:, None] * Smooth(8).draw_directions(1)
    curves = np.hstack([np.cos(angles), np.sin(angles)])
    linear = np.column_stack([np.ones(len(logs)), state])
    curves = curves - linear @ np.linalg.lstsq(linear, curves)[0]
    centred = np.column_stack([action, action * (state - state.mean())])
    knots = np.unique(np.round(points * (6 ** (np.arange(17) / 16) - 1) / 5))
    lengths = np.diff(knots)
    intervals = len(lengths)
    ramps = np.clip((np.tile(np.arange(points), people)[:, None] - knots[:-1]) / lengths, 0, 1)
    walks = (ramps[:, :, None] * centred[:, None, :]).reshape(len(logs), -1)
    # By their next decision point everybody has made every step; a slope at the mean state moves the intercept too.
    current = np.zeros((4, curves.shape[1] + walks.shape[1]))
    current[2:, curves.shape[1] :] = np.tile([[1.0, -state.mean()], [0.0, 1.0]], intervals)
    groups = np.append(np.zeros(curves.shape[1], dtype=int), np.tile([1, 2], intervals))
    # At a steady pace a step's variance is proportional to its interval's length, at a slowing one to its inverse.
    relative = (lengths / lengths.mean()) ** (1 - 2 * posterior.likelihood.pace)
    paces = np.append(np.ones(curves.shape[1]), np.repeat(relative, 2))
    rows = [
        np.split(values, people)
        for values in (np.column_stack([linear, action, action * state]), np.hstack([curves, walks]), logs.outcome)
    ]
    _, _, _, mean, covariance = literal.solve_shared(
        *rows, posterior.spread, posterior.shared.variances[groups] * paces, posterior.noise, [current] * people
    )
    assert_allclose(fitted.critic_coef_, mean, rtol=1e-4, atol=1e-5)
    features = np.array([1.0, 0.8])
    # The spread of the outcome counts as one more decision point.
    free = len(logs) - 4
    inflation = (free + columns.scaling.reward[0] ** 2 / posterior.noise) / (free + 1)
    spread = np.sqrt(inflation * np.einsum("i,pij,j->p", features, covariance[:, 2:, 2:], features))
    ours = fitted.policies_.probabilities(np.arange(people), np.full((people, 1), 0.8))[:, 1]
    assert_allclose(ours, ndtr(mean[:, 2:] @ features / spread), rtol=1e-4)


def test_the_baseline_is_found_and_leaves_the_residuals():
    logs, _ = draw_logs(fading=False)
    fitted = sf.method("ts", pooling="all", baseline="smooth").fit(logs)
    linear = sf.method("ts", pooling="all").fit(logs)
    truth = 3 * np.sin(2 * logs.state[:, 0])
    design = np.column_stack([np.ones(len(logs)), logs.state])
    curve = truth - design @ np.linalg.lstsq(design, truth, rcond=None)[0]
    assert np.corrcoef(fitted.fitted_.baseline, curve)[0, 1] > 0.99
    assert fitted.scale_[0] < 1.6
    assert linear.scale_[0] > 2.0
    assert_allclose(fitted.critic_coef_[0, 2:], FADING, atol=0.3)
    assert abs((design * fitted.fitted_.baseline[:, None]).mean(axis=0)).max() < 1e-6


def test_nothing_is_found_where_nothing_is():
    logs, _ = draw_logs(fading=False, curve=0.0, seed=3)
    plain = sf.method("ts", pooling="partial").fit(logs)
    smooth = sf.method("ts", **SMOOTH).fit(logs)
    width = np.sqrt(np.diagonal(plain.posterior_.covariance, axis1=1, axis2=2))
    assert (abs(smooth.critic_coef_ - plain.critic_coef_) < 0.75 * width).all()


def test_a_curve_is_not_mistaken_for_outliers():
    logs, dirty = draw_logs(curve=8.0, artefacts=0.05)
    linear = sf.method("ro-ts", pooling="partial").fit(logs)
    smooth = sf.method("ro-ts", **SMOOTH).fit(logs)
    assert smooth.removed_[dirty].mean() > 0.99
    assert smooth.removed_[~dirty].mean() < 0.12
    assert abs(smooth.critic_coef_[:, 2] - FADING[0] - fade(40, 40)).mean() < 0.6
    assert linear.scale_.mean() > smooth.scale_.mean()


@pytest.mark.parametrize("parts", [SMOOTH, {**SMOOTH, "baseline": "linear"}, {"pooling": "all", "baseline": "smooth"}])
def test_rare_successes_are_not_mistaken_for_outliers(parts):
    """Without what everybody shares, outcomes of 0 and 1 are no longer alike."""
    rng = np.random.default_rng(1)
    state = rng.standard_normal((20, 50, 1))
    action = rng.integers(0, 2, (20, 50))
    outcome = (rng.random((20, 50)) < np.where(action == 1, 0.14, 0.03)).astype(float)
    logs = Trajectories.from_arrays(state, action, outcome)
    fitted = sf.method("hb-ts", **parts).fit(logs)
    assert fitted.removed_[logs.outcome == 1].mean() < 0.1
    assert fitted.policies_.probabilities([999], [[0.0]])[0, 1] > 0.9


def test_the_time_effects_hold_the_curve():
    logs, _ = draw_logs(people=40)
    effects = sf.method("ts", **SMOOTH).fit(logs).time_effects_
    assert effects.times[[0, -1]].tolist() == [0, 40]
    assert_allclose(effects.mean[0], 0, atol=1e-12)
    assert_allclose(effects.covariance[0], 0, atol=1e-12)
    error = np.sqrt(effects.covariance[1:, 0, 0])
    assert (abs(effects.mean[1:, 0] - fade(effects.times[1:], 40)) < 4 * error).all()
    assert sf.method("ts", pooling="partial").fit(logs).time_effects_ is None


@pytest.mark.parametrize("step", [0.4, 0.1])
def test_the_band_holds_the_truth_where_effects_walk(step):
    """Twelve studies; `python -m benchmarks.time_effects` measures more."""
    shares = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        logs, _ = draw_logs(seed=seed, fading=False, curve=1.0)
        knots = np.append(0.0, np.cumsum(step * rng.standard_normal(10)))
        change = np.interp(np.arange(41), np.arange(0, 41, 4), knots)
        logs = logs.with_values(outcome=logs.outcome + logs.action * change[logs.time.astype(int)])
        effects = sf.method("ts", pooling="partial", time="smooth", baseline="smooth").fit(logs).time_effects_
        error = np.sqrt(effects.covariance[1:, 0, 0])
        assert (error > 0.01).all()
        shares.append((abs(effects.mean[1:, 0] - change[1:]) < 1.96 * error).mean())
    assert np.mean(shares) > 0.85


@pytest.mark.parametrize(("size", "steep"), [(2, 6), (3, 10)])
def test_the_band_holds_the_truth_where_prompts_wear_off_fast_at_first(size, steep):
    """With intervals and steps that are alike over the whole study, these shares are 0.69 and 0.48."""
    shares = []
    for seed in range(12):
        logs, _ = draw_logs(people=60, points=60, seed=seed, fading=False, curve=1.0)
        change = size / (1 + steep * np.arange(61) / 60) - size
        logs = logs.with_values(outcome=logs.outcome + logs.action * change[logs.time.astype(int)])
        effects = sf.method("ts", **SMOOTH).fit(logs).time_effects_
        error = np.sqrt(effects.covariance[1:, 0, 0])
        shares.append((abs(effects.mean[1:, 0] - change[1:]) < 1.96 * error).mean())
    assert np.mean(shares) > 0.8


def test_the_band_of_the_effect_holds_the_truth_where_variances_are_uncertain():
    """θ is at the first decision point: what is not known of the walk's variance is not known of it either."""
    shares = []
    for seed in range(12):
        logs, _ = draw_logs(seed=seed, fading=False, curve=1.0)
        effects = sf.method("ts", **SMOOTH).fit(logs).time_effects_
        assert np.linalg.eigvalsh(effects.effect_covariance).min() > 0
        error = np.sqrt(np.diagonal(effects.effect_covariance, axis1=1, axis2=2))
        shares.append((abs(effects.effect_mean - FADING) < 2.1 * error).mean())
    assert np.mean(shares) > 0.93


def test_the_band_follows_a_prior_and_forgets_a_vague_one():
    """The mean of a prior is no part of the likelihood, whichever pace that is of."""
    logs, _ = draw_logs()
    parts = {"pooling": {"name": "partial", "time": "smooth"}, "critic_penalty": 0.0}
    names = list_coefficient_names(logs.state_names, logs.action_names)
    without = sf.method("ts", **parts).fit(logs).time_effects_
    vague = sf.method("ts", **parts, prior={name: {"mean": 50.0, "scale": 1e5} for name in names}).fit(logs).time_effects_
    assert_allclose(vague.effect_mean, without.effect_mean, atol=2e-3)
    assert_allclose(vague.effect_covariance, without.effect_covariance, rtol=0.02, atol=1e-4)
    narrow = sf.method("ts", **parts, prior={"send": {"mean": 9.0, "scale": 1e-3}}).fit(logs).time_effects_
    assert_allclose(narrow.effect_mean[0, 0], 9.0, atol=0.1)


@pytest.mark.parametrize("correlated", [False, True])
def test_the_band_of_an_effect_is_a_number_in_small_logs(correlated):
    rng = np.random.default_rng(0)
    state, action = rng.standard_normal((8, 25, 2)), rng.integers(0, 4, (8, 25))
    outcome = np.where(rng.random((8, 25)) < 0.3, np.nan, state.sum(axis=2) + (action > 0) + rng.standard_normal((8, 25)))
    logs = Trajectories.from_arrays(state, action, outcome, actions=4)
    pooling = {"name": "partial", "time": "smooth", "correlated_differences": correlated}
    effects = sf.method("ts", pooling=pooling).fit(logs).time_effects_
    assert np.linalg.eigvalsh(effects.effect_covariance).min() > 0


@pytest.mark.filterwarnings("ignore::surefoot.FitWarning")
@pytest.mark.parametrize("name", ["ts", "accb", "saccb", "linucb", "hb-ahead"])
@pytest.mark.parametrize("pooling", ["partial", "all"])
def test_every_rule_and_horizon_takes_them(name, pooling, tmp_path):
    logs, _ = draw_logs(people=8, points=30)
    parts = SMOOTH if pooling == "partial" else {"pooling": "all", "baseline": "smooth"}
    fitted = sf.method(name, **parts).fit(logs)
    probabilities = fitted.predict_proba(logs)
    assert np.isfinite(probabilities).all()
    fitted.save(tmp_path / "fitted.npz")
    again = sf.Method.load(tmp_path / "fitted.npz")
    assert_allclose(again.predict_proba(logs), probabilities, rtol=0, atol=0)
    assert again.get_params()["baseline"] == Smooth()


def test_people_who_do_not_differ_have_policies_that_differ_in_time_alone():
    logs, _ = draw_logs(people=6)
    early = logs[(logs.participant != 0) | (logs.time < 10)]
    fitted = sf.method("ts", pooling={"name": "partial", "time": "smooth", "differences": False}).fit(early)
    coef = fitted.critic_coef_
    assert_allclose(coef[1:], coef[1:2] + 0 * coef[1:], atol=1e-9)
    assert abs(coef[0] - coef[1]).max() > 0.1


@pytest.mark.parametrize(("name", "horizon"), [("ts", "immediate"), ("accb", "immediate"), ("ts", "long-run")])
@pytest.mark.filterwarnings("ignore::surefoot.FitWarning")
def test_people_with_few_outcomes_have_the_effect_of_their_time(name, horizon):
    """A prompt that helps at first harms in the end; of the first two participants hardly an outcome is known."""
    logs, _ = draw_logs(fading=False)
    change = 4 * logs.action * logs.time / 40
    unknown = (logs.participant == 0) | ((logs.participant == 1) & (logs.time % 20 > 0))
    logs = logs.with_values(outcome=np.where(unknown, np.nan, logs.outcome - change))
    fitted = sf.method(name, pooling={"name": "partial", "time": "smooth"}, horizon=horizon).fit(logs)
    sent = fitted.policies_.probabilities([0, 1, 2, 999], np.zeros((4, 1)))[:, 1]
    assert (sent[:3] < 0.3).all()
    assert sent[3] > 0.7


@pytest.mark.parametrize("parts", [SMOOTH, {"pooling": "partial"}, {"pooling": "all", "baseline": "smooth"}])
def test_an_update_equals_a_fit_to_all(parts):
    logs, _ = draw_logs(people=10)
    fitted = sf.method("ts", **parts).fit(logs[logs.time < 20])
    for time in range(20, 40, 5):
        fitted.update(logs[(logs.time >= time) & (logs.time < time + 5)])
    scratch = sf.method("ts", **parts).fit(logs)
    assert_allclose(fitted.critic_coef_, scratch.critic_coef_, rtol=1e-5, atol=1e-5)
    assert_allclose(fitted.predict_proba(logs), scratch.predict_proba(logs), atol=1e-5)


@pytest.mark.parametrize(("people", "points"), [(1, 1), (1, 5), (2, 1), (2, 3), (3, 5)])
@pytest.mark.filterwarnings("ignore::surefoot.FitWarning")
def test_tiny_logs(people, points):
    logs, _ = draw_logs(people=people, points=points)
    fitted = sf.method("ts", **SMOOTH).fit(logs)
    assert np.isfinite(fitted.predict_proba(logs)).all()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.filterwarnings("ignore::surefoot.FitWarning")
def test_no_variance_of_an_effect_is_negative_in_tiny_logs(seed):
    logs, _ = draw_logs(people=1, points=4, seed=seed)
    effects = sf.method("ts", pooling={"name": "partial", "time": "smooth"}).fit(logs).time_effects_
    variance = np.diagonal(effects.effect_covariance, axis1=1, axis2=2)
    assert (variance >= -1e-9 * variance.max()).all()


@pytest.mark.filterwarnings("ignore::surefoot.FitWarning")
@pytest.mark.parametrize(("constant", "spread"), [(0.1, 0.0), (0.3, 0.0), (1.7e9, 1.0)])
def test_a_state_without_usable_differences_changes_nothing(constant, spread):
    logs, _ = draw_logs(people=6, points=25)
    state = logs.state.reshape(6, 25, 1)
    useless = constant + spread * np.random.default_rng(0).standard_normal(state.shape)
    shapes = [values.reshape(6, 25) for values in (logs.action, logs.outcome)]
    wider = Trajectories.from_arrays(np.concatenate([state, useless], axis=2), *shapes)
    pooling = {"name": "partial", "time": "smooth"}
    expected = sf.method("ts", pooling=pooling).fit(logs)
    fitted = sf.method("ts", pooling=pooling).fit(wider)
    assert_allclose(fitted.critic_coef_[:, [0, 1, 3, 4]], expected.critic_coef_, atol=1e-6)
    assert_allclose(fitted.time_effects_.effect_covariance[:, :2, :2], expected.time_effects_.effect_covariance, atol=1e-6)
    assert fitted.time_effects_.variances[2] == 0


@pytest.mark.filterwarnings("ignore::surefoot.FitWarning")
def test_a_participant_without_outcomes_and_three_actions():
    logs, _ = draw_logs(people=6)
    action = np.where(logs.action == 1, 1 + logs.time % 2, 0)
    outcome = np.where(logs.participant == 2, np.nan, logs.outcome)
    three = Trajectories.from_arrays(logs.state.reshape(6, 40, 1), action.reshape(6, 40), outcome.reshape(6, 40), actions=3)
    fitted = sf.method("ts", **SMOOTH).fit(three)
    assert fitted.time_effects_.mean.shape == (41, 4)
    assert np.isfinite(fitted.predict_proba(three)).all()


def test_what_does_not_go_together_is_refused():
    for parts, message in (
        ({"baseline": "smooth"}, "learned from everybody together"),
        ({"pooling": "partial", "random_walk": "estimate", "baseline": "smooth"}, "fitted with a linear baseline"),
        ({"pooling": "partial", "random_walk": "estimate", "time": "smooth"}, "leave out one of them"),
        ({"pooling": "partial", "time": "smooth", "forgetting": 0.9}, "leave forgetting out"),
        ({"pooling": "partial", "time": "smoth"}, "did you mean 'smooth'"),
        ({"pooling": "all", "time": "smooth"}, "'time' is a parameter of pooling = 'partial'"),
        ({"pooling": "partial", "baseline": "smooth", "baseline_features": 1}, "whole number from 2 to 500"),
    ):
        with pytest.raises(sf.InputError, match=message):
            sf.method("ts", **parts)
