"""Mediated causal excursion effects, row by row as published (arXiv 2506.20027), with scipy's root finder for the logit."""

import numpy as np
from scipy.optimize import root
from scipy.special import expit


def mediated_effects(person, available, action, p, mediator, outcome, controls, basis, weight):
    """(direct, indirect) coefficients and their covariance; treatment at an unavailable row counts as it stands."""
    person, available, action = np.asarray(person), np.asarray(available), np.asarray(action)
    y, weight = np.asarray(outcome, float), np.asarray(weight, float)
    g = np.column_stack([np.ones(len(y)), *controls])
    h = np.column_stack([g, mediator])
    f = np.column_stack(basis)
    free = available == 1
    score = lambda theta: h[free].T @ (action[free] - expit(h[free] @ theta))  # noqa: E731
    slope = lambda theta: -(h[free].T * (expit(h[free] @ theta) * expit(-h[free] @ theta))) @ h[free]  # noqa: E731
    q = expit(h @ root(score, np.zeros(h.shape[1]), jac=slope, tol=1e-14).x)
    as_treated, as_untreated = (action == 1) | ~free, action == 0
    fit = lambda x, target, rows: x @ np.linalg.lstsq(x[rows], target[rows], rcond=None)[0]  # noqa: E731
    eta1, eta0, mu1 = fit(g, y, as_treated), fit(g, y, as_untreated), fit(h, y, as_treated)
    nu1 = fit(g, mu1, as_untreated)
    direct, indirect = np.zeros(len(y)), np.zeros(len(y))
    for t in range(len(y)):
        p1, p0 = (p[t], 1 - p[t]) if free[t] else (1.0, 1.0)
        q1, q0 = (q[t], 1 - q[t]) if free[t] else (1.0, 1.0)
        phi11 = as_treated[t] / p1 * y[t] - (as_treated[t] - p1) / p1 * eta1[t]
        phi00 = as_untreated[t] / p0 * y[t] - (as_untreated[t] - p0) / p0 * eta0[t]
        phi10 = as_treated[t] * q0 * (y[t] - mu1[t]) / (p0 * q1) + as_untreated[t] * (mu1[t] - nu1[t]) / p0 + nu1[t]
        direct[t], indirect[t] = phi10 - phi00, phi11 - phi10
    bread = np.linalg.inv((f * weight[:, None]).T @ f)
    theta = [bread @ f.T @ (weight * part) for part in (direct, indirect)]
    total = 0.0
    for name in np.unique(person):
        rows = person == name
        parts = zip((direct, indirect), theta, strict=True)
        pull = [bread @ f[rows].T @ (weight[rows] * (part[rows] - f[rows] @ beta)) for part, beta in parts]
        total = total + np.outer(np.concatenate(pull), np.concatenate(pull))
    return np.concatenate(theta), total
