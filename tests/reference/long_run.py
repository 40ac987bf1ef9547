"""Long-run values written out: a column of ones for every participant, and one equation after the other."""

import numpy as np


def solve_by_dummies(features, difference, reward, person, weights):
    """(η, w): every participant's intercept is a coefficient, and φ and the intercepts are the instruments."""
    present = np.unique(person)
    ones = (person[:, None] == present).astype(float)
    instruments, columns = np.hstack([ones, features]), np.hstack([ones, difference])
    system, right = np.zeros((columns.shape[1],) * 2), np.zeros(columns.shape[1])
    for row in range(len(reward)):
        system += weights[row] * np.outer(instruments[row], columns[row])
        right += weights[row] * instruments[row] * reward[row]
    return np.linalg.solve(system, right)[len(present) :]


def jackknife_halves(features, difference, reward, person, early, weights=None):
    """η by the half-panel jackknife of w."""
    weights = np.ones(len(reward)) if weights is None else weights
    whole = solve_by_dummies(features, difference, reward, person, weights)
    halves = [
        solve_by_dummies(features[half], difference[half], reward[half], person[half], weights[half])
        for half in (early, ~early)
    ]
    coef = 2 * whole - (halves[0] + halves[1]) / 2
    return float((weights * (reward - difference @ coef)).sum() / weights.sum())


def correct_for_people(features, difference, reward, person, early):
    """What people whose wᵢ differ add to η: how their states go with their wᵢ, each taken from another half."""
    ones = np.ones(len(reward))
    whole = _centre(features, difference, reward, person)
    system = whole[0].T @ whole[1] / len(reward)
    ratio = np.linalg.solve(system.T, difference.mean(axis=0))
    total = 0.0
    for first, second in ((early, ~early), (~early, early)):
        phi, u, _ = _centre(features[first], difference[first], reward[first], person[first])
        psi, v, r = _centre(features[second], difference[second], reward[second], person[second])
        coef = solve_by_dummies(features[second], difference[second], reward[second], person[second], ones[second])
        common = psi.T @ v / len(r)
        for participant in np.unique(person):
            here, there = person[first] == participant, person[second] == participant
            states = difference[first][here].mean(axis=0) - (phi[here].T @ u[here] / here.sum()).T @ ratio
            left = r[there] - v[there] @ coef
            differs = np.linalg.solve(common, psi[there].T @ left / there.sum())
            total += (person == participant).mean() * states @ differs / 2
    return float(total)


def _centre(*columns_and_person):
    """Everything less the participants' means."""
    *columns, person = columns_and_person
    moved = [column.astype(float).copy() for column in columns]
    for participant in np.unique(person):
        rows = person == participant
        for column in moved:
            column[rows] -= column[rows].mean(axis=0)
    return moved
