"""Coefficients that move: against the joint normal distribution of all outcomes, and simulations whose truth is known."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import surefoot as sf
from surefoot.learning.pooling.mixed_effects import Moments, fit_mixed_effects
from surefoot.learning.pooling.random_walk import TimeBlocks, Walk, WalkLikelihood, fit_random_walk

BETA, PSI = np.array([1.0, 2.0, -1.0]), np.array([1.0, 0.5, 0.3])


def draw(people, points, q, seed=0):
    """x, y and everybody's path of w, which moves at every decision point."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((people, points, 3))
    x[..., 0] = 1.0
    steps = rng.standard_normal((people, points, 3)) * np.sqrt(q * PSI)
    steps[:, 0] = rng.standard_normal((people, 3)) * np.sqrt(PSI)
    path = BETA + steps.cumsum(axis=1)
    return x, (x * path).sum(axis=-1) + 1.5 * rng.standard_normal((people, points)), path


def cut(x, y, step, lengths=None):
    """The moments of all, and of the blocks; people may have fewer decision points, the first ones."""
    people, points, _ = x.shape
    lengths = np.full(people, points) if lengths is None else lengths
    there = np.arange(points) < lengths[:, None]
    logs = sf.Trajectories.from_arrays(x, np.zeros((people, points)), y)[there.ravel()]
    blocks, place = TimeBlocks.of_logs(logs), np.full((people, points), -1)
    place[there] = blocks.block
    parts = [Moments.of_rows(x, y[..., None], 1.0 * (place == block)) for block in range(blocks.count)]
    return Moments.of_rows(x, y[..., None], 1.0 * there), Walk(blocks, tuple(parts), step), place


def literal(x, y, place, psi, noise, step):
    """−2 log restricted likelihood, β, and mean and covariance of everybody's last w, by matrices of all outcomes."""
    rows = [np.flatnonzero(own >= 0) for own in place]
    xs, ys = ([part[i][own] for i, own in enumerate(rows)] for part in (x, y))
    since = [own[there] - own[there].min() for own, there in zip(place, rows, strict=True)]
    whole = [1 + step * np.minimum(t[:, None], t) for t in since]
    inverses = [
        np.linalg.inv(noise * np.eye(len(k)) + k * (own @ np.diag(psi) @ own.T)) for own, k in zip(xs, whole, strict=True)
    ]
    information = sum(own.T @ v @ own for own, v in zip(xs, inverses, strict=True))
    known = np.linalg.inv(information)
    beta = known @ sum(own.T @ v @ out for own, v, out in zip(xs, inverses, ys, strict=True))
    left = [out - own @ beta for own, out in zip(xs, ys, strict=True)]
    deviance = np.linalg.slogdet(information)[1] - sum(np.linalg.slogdet(v)[1] for v in inverses)
    deviance += sum(e @ v @ e for e, v in zip(left, inverses, strict=True))
    mean, covariance = [], []
    for own, v, e, t in zip(xs, inverses, left, since, strict=True):
        last = place.max() - place[place >= 0].min() if len(t) == 0 else t.max()
        toward = np.diag(psi) @ (own * (1 + step * np.minimum(t, last))[:, None]).T
        mean.append(beta + toward @ v @ e)
        direct = np.eye(3) - toward @ v @ own
        covariance.append((1 + step * last) * np.diag(psi) - toward @ v @ toward.T + direct @ known @ direct.T)
    return deviance, beta, np.array(mean), np.array(covariance)


@pytest.mark.parametrize("lengths", [None, np.array([40, 40, 13, 27, 40, 6])])
def test_it_is_the_joint_normal_distribution_of_all_outcomes(lengths):
    x, y, _ = draw(6, 40, 0.02)
    moments, walk, place = cut(x, y, 0.02, lengths)
    found = fit_random_walk(fit_mixed_effects(moments, np.zeros(3)), walk)
    assert found.converged and found.walk == pytest.approx(0.02)
    step, psi = 0.02 * walk.blocks.points, np.diagonal(found.spread)
    deviance, beta, mean, covariance = literal(x, y, place, psi, found.noise, step)
    assert_allclose(found.population, beta, rtol=1e-8)
    assert_allclose(found.mean, mean, rtol=1e-7)
    assert_allclose(found.covariance, covariance, rtol=1e-6, atol=1e-9)
    free, unit = (place >= 0).sum() - 3, 2 * np.log(np.diagonal(found.likelihood.basis)).sum()
    assert_allclose(found.deviance + free - unit, deviance, rtol=1e-9)
    for factor in (0.8, 1.25):  # No other Ψ or σ² is better.
        for j in range(3):
            other = psi * np.where(np.arange(3) == j, factor, 1.0)
            assert literal(x, y, place, other, found.noise, step)[0] > deviance - 1e-6
        assert literal(x, y, place, psi, factor * found.noise, step)[0] > deviance


def test_slopes_are_those_of_the_deviance():
    moments, walk, _ = cut(*draw(6, 40, 0.02)[:2], 0.02, np.array([40, 40, 13, 27, 40, 6]))
    likelihood = WalkLikelihood.of_walk(fit_mixed_effects(moments, np.full(3, 0.1)).likelihood, walk, 0)
    at = np.log([0.3, 0.2, 0.1, 0.15])

    def point(values):
        return likelihood.at(np.exp(values[:3]), float(np.exp(values[3])))

    numeric = [(point(at + 1e-5 * one).deviance - point(at - 1e-5 * one).deviance) / 2e-5 for one in np.eye(4)]
    assert_allclose(point(at).slopes(), numeric, rtol=1e-6)


def test_without_steps_it_is_the_plain_fit():
    moments, walk, _ = cut(*draw(8, 30, 0.0)[:2], 0.0)
    plain = fit_mixed_effects(moments, np.full(3, 0.1))
    assert fit_random_walk(plain, walk) is plain
    scale = np.array([0.3, 0.2, 0.1])
    still, walked = plain.likelihood.at(np.sqrt(scale)), WalkLikelihood.of_walk(plain.likelihood, walk, 0).at(scale, 0.0)
    assert_allclose(walked.deviance, still.deviance, rtol=1e-12)
    one, other = walked.posterior(1, 0, True), still.posterior(0, True)
    for name in ("population", "population_covariance", "spread", "noise", "mean", "covariance"):
        assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-11, atol=1e-12)
    assert_allclose(walked.slopes()[:3], np.diagonal(still.slope()), rtol=1e-10)


def test_the_step_is_found_and_the_last_coefficients_with_their_doubt():
    steps, errors, calibration = [], [], []
    for seed in range(3):
        x, y, path = draw(40, 60, 0.03, seed)
        moments, walk, _ = cut(x, y, "estimate")
        plain = fit_mixed_effects(moments, np.zeros(3))
        found = fit_random_walk(plain, walk)
        steps.append(found.walk)
        errors.append([np.sqrt(((one.mean - path[:, -1]) ** 2).mean()) for one in (plain, found)])
        deviation = np.diagonal(found.covariance, axis1=1, axis2=2)
        calibration.append(((found.mean - path[:, -1]) ** 2 / deviation).mean())
    assert 0.01 < np.mean(steps) < 0.06
    assert (np.array(errors)[:, 1] < 0.85 * np.array(errors)[:, 0]).all()
    assert 0.7 < np.mean(calibration) < 1.4


def test_people_who_do_not_move_keep_the_plain_fit():
    moved = 0
    for seed in range(10):
        moments, walk, _ = cut(*draw(15, 24, 0.0, 100 + seed)[:2], "estimate")
        plain = fit_mixed_effects(moments, np.zeros(3))
        found = fit_random_walk(plain, walk)
        moved += found.walk > 0
        if not found.walk:
            assert_array_equal(found.mean, plain.mean)
    assert moved <= 2


@pytest.mark.parametrize(("name", "horizon"), [("linucb", "immediate"), ("hb-ts", "immediate"), ("ahead", "long-run")])
def test_methods_use_the_last_coefficients(name, horizon):
    simulator = sf.simulators.HeartSteps(participants=14, spread=1.0)
    logs = simulator.collect(sf.policies.coin(2), decision_points=40, seed=3)
    faded = logs.with_values(outcome=logs.outcome - 100.0 * logs.time * logs.action)
    plain, still, walked = (
        sf.method(name, pooling="partial", horizon=horizon, random_walk=step).fit(faded) for step in (None, 0.0, 0.05)
    )
    assert_array_equal(plain.critic_coef_, still.critic_coef_)
    now = -4000.0 + 125
    error, usual = (np.abs(one.critic_coef_[:, 4] - now).mean() for one in (walked, plain))
    assert error < 0.8 * usual and walked.posterior_.walk == pytest.approx(0.05)
    given = walked.policies_.probabilities([0, 999], np.zeros((2, 3)))
    assert np.isfinite(given).all()
    assert len(walked.joint_.posteriors) == (4 if horizon == "long-run" else 1)


@pytest.mark.filterwarnings("ignore::surefoot.FitWarning")
def test_who_has_nothing_is_like_anybody_at_first():
    logs = sf.simulators.HeartSteps(participants=8, spread=1.0).collect(sf.policies.coin(2), decision_points=30, seed=3)
    empty = logs.with_values(outcome=np.where(logs.participant_index == 2, np.nan, logs.outcome))
    posterior = sf.method("linucb", pooling="partial", random_walk=0.01).fit(empty).posterior_
    assert_allclose(posterior.mean[2], posterior.population, rtol=1e-9)
    moved = (1 + 0.01 * 27) * posterior.spread + posterior.population_covariance  # Nine of ten blocks of three points.
    assert_allclose(posterior.covariance[2], moved, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("step", [-1.0, np.nan, "slowly", True])
def test_steps_that_cannot_be_are_refused(step):
    with pytest.raises(sf.InputError, match=r"random_walk is .*it is 'estimate', or the variance of a step"):
        sf.method("ts", pooling="partial", random_walk=step)


@pytest.mark.parametrize(
    ("parameters", "remedy"),
    [
        ({"pooling": "person"}, "'random_walk' is a parameter of pooling = 'partial'"),
        ({"correlated_differences": True}, "leave correlated_differences out"),
        ({"forgetting": 0.9}, "leave forgetting out"),
        ({"prior": {"send": {"scale": 1.0}}}, "leave the prior or random_walk out"),
    ],
)
def test_what_does_not_go_with_it_is_refused(parameters, remedy):
    with pytest.raises(sf.InputError, match=remedy):
        sf.method("ts", **{"pooling": "partial", "random_walk": "estimate", **parameters})
