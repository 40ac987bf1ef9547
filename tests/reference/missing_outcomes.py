"""Literal forms of the models of missing outcomes: explicit loops, and densities that are summed up."""

import numpy as np
from scipy.special import expit, ndtr


def stacked_equations(alpha, theta, people, penalty):
    """Σ over participants of (Σ (R − π) z, Σ R/π w (y − xᵀθ) x), minus the penalty of α; and the terms of each."""
    terms = []
    for person in people:
        total = np.zeros(len(alpha) + len(theta))
        for z, seen, x, weight, y in person:
            chance = expit(z @ alpha)
            total[: len(alpha)] += (seen - chance) * z
            if seen:
                total[len(alpha) :] += weight / chance * (y - x @ theta) * x
        terms.append(total)
    total_score = np.sum(terms, axis=0)
    total_score[: len(alpha)] -= penalty * np.r_[0.0, alpha[1:]]
    return total_score, np.array(terms)


def differentiate(function, at, step=1e-6):
    columns = []
    for j in range(len(at)):
        move = np.zeros(len(at))
        move[j] = step
        columns.append((function(at + move) - function(at - move)) / (2 * step))
    return np.column_stack(columns)


def normal_moments(mean, slope, next_outcome, next_base, variance):
    """Of N(y; mean, variance) N(next; next_base + slope y, variance), by summing over a fine grid."""
    grid = np.linspace(mean - 12, mean + 12, 200_001)
    log_density = -((grid - mean) ** 2 + (next_outcome - next_base - slope * grid) ** 2) / (2 * variance)
    density = np.exp(log_density - log_density.max())
    density /= density.sum()
    first = (density * grid).sum()
    return first, (density * (grid - first) ** 2).sum()


def binary_chance(mean, slope, next_outcome, next_base, low, high):
    """P(1) of two values, each with its own chance of the next outcome."""
    likelihoods = []
    for chance, value in ((1 - ndtr(mean), low), (ndtr(mean), high)):
        following = ndtr(next_base + slope * value)
        likelihoods.append(chance * (following if next_outcome else 1 - following))
    return likelihoods[1] / sum(likelihoods)


def rubin(estimates, covariances, degrees):
    """Mean, variance, fraction of missing information and Barnard and Rubin's degrees of freedom of one coefficient."""
    count = len(estimates)
    mean = sum(estimates) / count
    within = sum(covariances) / count
    between = sum((estimate - mean) ** 2 for estimate in estimates) / (count - 1)
    total = within + between + between / count
    fraction = (between + between / count) / total
    old = (count - 1) / fraction**2
    observed = (degrees + 1) / (degrees + 3) * degrees * (1 - fraction)
    return mean, total, fraction, old * observed / (old + observed)
