"""Random problems for the solvers."""

from __future__ import annotations

import numpy as np

import surefoot as sf
from surefoot.learning.batch import Batch
from surefoot.learning.critics import Capped, HighBreakdown, fit_ridge


def critic_problems(rng, people):
    """A padded batch: features (people, decision points, d), outcomes, weights; contaminated, ragged, some
    ill-conditioned."""
    features = int(rng.integers(1, 13))
    lengths = rng.integers(5, 301, size=people)
    x = rng.standard_normal((people, lengths.max(), features))
    x[..., 0] = 1.0
    scales = 10.0 ** rng.uniform(-3, 3, size=(people, 1, features))
    x *= np.where(rng.random((people, 1, 1)) < 0.3, scales, 1.0)
    if features > 1:  # nearly the same column twice, for a fifth of the people
        near = x[..., :1] + 10.0 ** rng.uniform(-4, -2, size=(people, 1, 1)) * x[..., -1:]
        x[..., -1:] = np.where(rng.random((people, 1, 1)) < 0.2, near, x[..., -1:])
    weights = (np.arange(x.shape[1]) < lengths[:, None]).astype(float)
    r = (x @ rng.standard_normal((people, features, 1)))[..., 0] + rng.standard_normal(x.shape[:2])
    outlier = rng.random(x.shape[:2]) < rng.uniform(0, 0.3, size=(people, 1))
    r += np.where(outlier, rng.choice([-1, 1], size=x.shape[:2]) * rng.exponential(20, size=x.shape[:2]), 0.0)
    return x * weights[..., None], r * weights, weights


def actor_problems(rng, people, actions, points, scale):
    """z (people, decision points, m), advantages (people, decision points, actions − 1) linear in z, and 0/1 weights."""
    z = np.concatenate([rng.standard_normal((people, points, 3)), np.ones((people, points, 1))], axis=-1)
    z[..., :3] *= 10.0 ** rng.uniform(-1, 1, size=(people, 1, 3))
    advantage = scale * z @ rng.standard_normal((people, 4, actions - 1))
    return z, advantage, (rng.random((people, points)) < 0.9).astype(float)


def trade_off_problems(rng, people, points=60):
    """As `actor_problems`, two actions; some policies gain by sacrificing rows in rare places for smaller coefficients."""
    z = np.concatenate([rng.standard_normal((people, points, 2)), np.zeros((people, points, 2))], axis=-1)
    place = rng.random((people, points))
    z[..., 2], z[..., 3] = place < 0.15, place > 0.6
    z = np.concatenate([z, np.ones((people, points, 1))], axis=-1)
    return z, z @ (rng.standard_normal((people, 5, 1)) * [[1.0], [1.0], [2.0], [1.0], [1.5]]), np.ones((people, points))


def three_actions(people=4, points=80, seed=0):
    """Logs of people to whom walking or stretching is suggested."""
    rng = np.random.default_rng(seed)
    state, action = rng.standard_normal((people, points, 2)), rng.integers(0, 3, (people, points))
    effect = np.where(action == 1, 0.5 + state[..., 0], 0) + np.where(action == 2, 1.0 - state[..., 1], 0)
    outcome = 3 + state[..., 0] + effect + 0.5 * rng.standard_normal((people, points))
    return sf.Trajectories.from_arrays(state, action, outcome, actions=["none", "walk", "stretch"])


def effect_problems(rng, size, count, kind):
    """Means and covariances of effects: ordinary, nearly singular, of very different widths."""
    mean = rng.standard_normal((count, size)) * rng.choice([0.05, 0.5, 1.5], (count, 1))
    root = rng.standard_normal((count, size, size + 2))
    if kind == "nearly singular":
        root = rng.standard_normal((count, size, 1)) @ rng.standard_normal((count, 1, size + 2)) + 1e-3 * root
    if kind == "different widths":
        root = root * 10.0 ** rng.uniform(-3, 1, (count, size, 1))
    return mean, root @ np.swapaxes(root, 1, 2)


def ridge(features, outcomes, weights, penalty):
    """The coefficients of weighted ridge regression."""
    return fit_ridge(features, outcomes, weights, penalty=penalty).coef


def residuals(features, outcomes, coef):
    return outcomes - (features @ coef[..., None])[..., 0]


def fit_capped(features, outcomes, weights, *, penalty, arms=1, max_iter=1000, **more):
    """Of features without states of their own, so that nothing but `arms` says how many actions there are."""
    batch = Batch(features, features[..., :0], 0 * weights, outcomes, weights, arms, penalty)
    return Capped(**more).fit(batch, max_iter)


def fit_high_breakdown(features, outcomes, weights, *, state, action, penalty, **more):
    actions = features.shape[-1] // (state.shape[-1] + 1)
    return HighBreakdown(**more).fit(Batch(features, state, action, outcomes, weights, actions, penalty))


def capped_objective(features, outcomes, weights, coef, threshold, penalty):
    """Σ_i v_i min{(r_i − x_iᵀw)², ε} + Σ_j ζ_j w_j² for each participant, v the weights that mark usable decision points."""
    capped = np.minimum(residuals(features, outcomes, coef) ** 2, threshold[:, None])
    return (weights * capped).sum(axis=1) + (penalty * coef**2).sum(axis=1)
