"""The probability that each of several normal values is the largest, by SciPy and by draws."""

import numpy as np
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import multivariate_normal


def by_scipy(mean, covariance):
    """Each variable's probability of being the largest of itself, the others and zero, one integral after the other."""
    size = len(mean)
    found = []
    for a in range(size + 1):
        # Differences of the others to variable a, as a linear map of the d variables.
        one = np.zeros(size) if a == 0 else np.eye(size)[a - 1]
        others = [(np.zeros(size) if b == 0 else np.eye(size)[b - 1]) - one for b in range(size + 1) if b != a]
        to = np.array(others)
        normal = multivariate_normal(to @ mean, to @ covariance @ to.T, abseps=2e-6, releps=2e-6, maxpts=10**5, seed=0)
        found.append(float(normal.cdf(np.zeros(size))))
    return np.array(found)


def by_draws(mean, covariance, draws, rng):
    """Shares of the largest among draws, and the standard errors of these shares."""
    effects = rng.multivariate_normal(mean, covariance, draws, method="cholesky")
    best = np.where(effects.max(axis=1) > 0, effects.argmax(axis=1) + 1, 0)
    share = np.bincount(best, minlength=len(mean) + 1) / draws
    return share, np.sqrt(share * (1 - share) / draws)


def by_integral(mean, deviation):
    """P of independent values, one integral after the other."""
    found = []
    for a, (m, s) in enumerate(zip(mean, deviation, strict=True)):
        others = np.arange(len(mean)) != a

        def density(x, m=m, s=s, others=others):
            return np.exp(-(((x - m) / s) ** 2) / 2) / (s * np.sqrt(2 * np.pi)) * ndtr((x - mean) / deviation)[others].prod()

        found.append(quad(density, m - 9 * s, m + 9 * s, limit=200, points=np.clip(mean, m - 8 * s, m + 8 * s))[0])
    return np.array(found)
