"""Standard errors of excursion effects after policies that learned from all participants while the trial ran."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from surefoot.effects.analysis import ExcursionBatch, Floats
from surefoot.effects.estimators import Estimate, EstimatingFunction
from surefoot.inference.adaptive_sandwich import (
    STEP,
    PolicyUpdate,
    TrialEquations,
    adaptive_covariance,
    find_ends,
)

Make = Callable[[ExcursionBatch], EstimatingFunction]


def adapt_errors(
    estimate: Estimate, batch: ExcursionBatch, make: Make, updates: Iterable[PolicyUpdate], *, distal: bool = False
) -> Estimate:
    """The same estimate with covariances that account for the policy's updates.

    Parameters
    ----------
    estimate
        `solve(make(batch))`.
    batch
        All rows of the trial; the rows of `updates` are its rows.
    make
        The estimator.
    updates
        Of the policy, in their order.
    distal
        Whether every decision of a participant could change the outcome of all of their rows.

    Returns
    -------
    Estimate
    """
    updates = list(updates)
    covariances = []
    for scores in (estimate.scores, estimate.corrected_scores):
        equations = make_equations(estimate, batch, make, scores, distal=distal)
        covariance = adaptive_covariance(equations, updates, whole_trial=False)
        covariances.append(estimate.function.back.T @ covariance @ estimate.function.back)
    return replace(estimate, plain=covariances[0], corrected=covariances[1])


def make_equations(
    estimate: Estimate, batch: ExcursionBatch, make: Make, scores: Floats, *, distal: bool = False
) -> TrialEquations:
    """The estimating equations of the standardised columns at all rows of the batch."""
    functions = evaluate_rows(estimate.function, batch, estimate.root)
    moved = [evaluate_rows(make(scale_taken(batch, np.exp(step))), batch, estimate.root) for step in (STEP, -STEP)]
    by_probability = (moved[0] - moved[1]) / (2 * STEP)
    rows = np.arange(len(batch))
    last = None
    if distal:
        last = find_ends(batch.person)
    elif batch.analysis.lag:
        last = np.minimum(rows + batch.analysis.lag, find_ends(batch.person))
        if batch.analysis.future == "none":
            # ψ is divided by the probability of nothing at every decision in between.
            for step in range(1, batch.analysis.lag + 1):
                between = np.minimum(rows + step, len(batch) - 1)
                np.add.at(by_probability, between, -functions)
    all_scores = np.zeros((len(batch.order.participants), len(estimate.root)))
    all_scores[np.unique(estimate.function.batch.person)] = scores
    return TrialEquations(batch.person, estimate.bread, functions, by_probability, all_scores, last)


def evaluate_rows(function: EstimatingFunction, batch: ExcursionBatch, theta: Floats) -> Floats:
    """ψ of every row of the batch, (rows, d); 0 for rows that do not count."""
    counted = np.isin(batch.order.row, function.batch.order.row)
    evaluation = function.evaluate(theta, slice(0, len(function.batch)))
    values = np.zeros((len(batch), len(theta)))
    values[counted] = (evaluation.multiplier * evaluation.residual).T
    return values


def scale_taken(batch: ExcursionBatch, factor: float) -> ExcursionBatch:
    """With other probabilities of the actions that were taken; of two actions the other one has the remainder."""
    taken = factor * batch.taken
    probabilities = batch.probabilities.copy()
    rows = np.arange(len(batch))
    if len(probabilities) == 2:
        probabilities[1 - batch.action, rows] = 1 - taken
    probabilities[batch.action, rows] = taken
    return replace(batch, probabilities=probabilities)
