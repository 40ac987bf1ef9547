"""Literal forms of the estimators, with a matrix for each participant, to compare with."""

import numpy as np


def corrected_emee2_as_in_r(frame, *, moderators, controls, alpha, beta):
    """The corrected covariance of EMEE2 as R has it: unavailable rows stand in the hat matrix, with their outcomes."""
    f = np.column_stack([np.ones(len(frame)), *(frame[name] for name in moderators)])
    g = np.column_stack([np.ones(len(frame)), *(frame[name] for name in controls)])
    shift, present = (frame["sent"] - frame["p"]).to_numpy(), frame["available"].to_numpy(float)
    base = np.exp(g @ alpha)
    removed = np.exp(-shift * (f @ beta)) * frame["b"].to_numpy(float)
    design = np.hstack([g, shift[:, None] * f])
    slope = np.hstack([base[:, None] * g, (shift * removed)[:, None] * f])
    bread = np.linalg.inv((present[:, None] * design).T @ slope)
    total = np.zeros_like(bread)
    for person in frame["person"].unique():
        own = (frame["person"] == person).to_numpy()
        hat = slope[own] @ bread @ design[own].T
        residual = np.linalg.solve(np.eye(own.sum()) - hat, (removed - base)[own])
        pull = bread @ (present[own, None] * design[own]).T @ residual
        total += np.outer(pull, pull)
    return total


def corrected_wcls(design, weight, residual, person):
    """Mancl and DeRouen's correction with the T × T matrices (I − H_ii)⁻¹."""
    bread = np.linalg.inv((weight[:, None] * design).T @ design)
    total = np.zeros_like(bread)
    for own in (person == name for name in np.unique(person)):
        hat = design[own] @ bread @ (weight[own, None] * design[own]).T
        pull = bread @ (weight[own, None] * design[own]).T @ np.linalg.solve(np.eye(own.sum()) - hat, residual[own])
        total += np.outer(pull, pull)
    return total
