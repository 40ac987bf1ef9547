import numpy as np
from numpy.testing import assert_allclose

from surefoot.learning.critics.critic import join_rewards, joined_residuals
from surefoot.learning.critics.high_breakdown import fit_sets, fit_trimmed
from tests.problems import ridge


def literal_trimmed_residuals(x, r):
    """Least trimmed squares of one arm, step by step, from the three starts."""
    size = min((len(r) + x.shape[1] + 1) // 2, len(r))

    def half(values):
        return values <= np.sort(values)[size - 1]

    def fit(weights):
        root = np.sqrt(weights.astype(float))
        return r - x @ np.linalg.lstsq(x * root[:, None], r * root, rcond=None)[0]

    absolute = r - np.median(r)
    least = 1e-3 * np.median(np.abs(absolute))
    for _ in range(6):
        absolute = fit(1 / np.maximum(np.abs(absolute), least))
    found = []
    for start in (absolute, *(absolute - quartile for quartile in np.quantile(absolute, (0.25, 0.75)))):
        left = start
        for _ in range(2):
            left = fit(half(np.abs(left)))
        found.append(((left[half(np.abs(left))] ** 2).sum(), left))
    best = min(found, key=lambda one: one[0])[1]
    for _ in range(3):
        best = fit(half(np.abs(best)))
    return best


def test_the_trimmed_fit_is_the_literal_one():
    """Two fifths displaced to one side, so that the starts lead to different fits."""
    rng = np.random.default_rng(12)
    x = np.concatenate([np.ones((40, 30, 1)), rng.standard_normal((40, 30, 2))], axis=-1)
    r = x @ np.array([1.0, 0.5, -0.5]) + 0.2 * rng.standard_normal((40, 30))
    r += np.where(np.arange(30) < 12, np.where(np.arange(40)[:, None] % 2, 3.0, -3.0), 0.0)
    arm = np.ones((40, 30), dtype=bool)
    arm[:, -3:] = False
    found = fit_trimmed(join_rewards(x, r), arm)
    for one in range(40):
        assert_allclose(found[one, :-3], literal_trimmed_residuals(x[one, :-3], r[one, :-3]), rtol=1e-6, atol=1e-8)


def test_every_set_of_weights_has_its_own_fit():
    """Also of somebody whose features are nearly dependent, in one of the sets only."""
    rng = np.random.default_rng(5)
    x, r = rng.standard_normal((4, 32, 3)), rng.standard_normal((4, 32))
    x[1, 4:, 2] = x[1, 4:, 1] + 1e-4 * x[1, 4:, 2]
    weights = rng.uniform(size=(2, 4, 32))
    weights[1, 1, :4] = 0.0
    joined = join_rewards(x, r)
    coef = fit_sets(joined, weights)
    for place in range(2):
        assert_allclose(coef[place], ridge(x, r, weights[place], np.zeros(3)), rtol=1e-8)
        assert_allclose(joined_residuals(joined, coef)[place], r - (x @ coef[place][..., None])[..., 0], atol=1e-10)
