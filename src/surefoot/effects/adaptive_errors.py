"""Standard errors of excursion effects after policies that learned from all participants while the trial ran."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from surefoot.effects.analysis import ExcursionBatch, Floats
from surefoot.effects.estimators import Estimate, EstimatingFunction
from surefoot.inference.adaptive_sandwich import STEP, TrialEquations, UpdateHistory, find_ends

Make = Callable[[ExcursionBatch], EstimatingFunction]


def adapt_errors(
    estimate: Estimate, batch: ExcursionBatch, make: Make, history: UpdateHistory, *, distal: bool = False
) -> Estimate:
    """The same estimate with covariances that account for the policy's updates.

    Parameters
    ----------
    estimate
        `solve(make(batch))`.
    batch
        All rows of the trial; the rows of `history` are its rows.
    make
        The estimator.
    history
        The updates of the policy.
    distal
        Whether every decision of a participant could change the outcome of all of their rows.

    Returns
    -------
    Estimate
    """
    equations = make_equations(estimate, batch, make, distal=distal)
    people = np.unique(estimate.function.batch.person)
    scores = np.zeros((2, len(batch.order.participants), len(estimate.root)))
    scores[:, people] = estimate.scores, estimate.corrected_scores
    back = estimate.function.back
    plain, corrected = (back.T @ covariance @ back for covariance in history.find_covariances(equations, list(scores)))
    return replace(estimate, plain=plain, corrected=corrected)


def make_equations(estimate: Estimate, batch: ExcursionBatch, make: Make, *, distal: bool = False) -> TrialEquations:
    """The estimating equations of the standardised columns at all rows of the batch."""
    functions = evaluate_rows(estimate.function, batch, estimate.root)
    moved = [evaluate_rows(make(scale_taken(batch, np.exp(step))), batch, estimate.root) for step in (STEP, -STEP)]
    by_probability = (moved[0] - moved[1]) / (2 * STEP)
    last = None
    if distal:
        last = find_ends(batch.person)
    elif batch.analysis.lag and batch.analysis.future == "observed":
        last = np.minimum(np.arange(len(batch)) + batch.analysis.lag, find_ends(batch.person))
    # With a future without treatment ψ is divided by the probabilities of decisions in between, which cancels their part.
    return TrialEquations(batch.person, estimate.bread, functions, by_probability, last=last)


def evaluate_rows(function: EstimatingFunction, batch: ExcursionBatch, theta: Floats) -> Floats:
    """ψ of every row of the batch, (rows, d); 0 for rows that do not count."""
    evaluation = function.evaluate(theta, slice(0, len(function.batch)))
    values = np.zeros((len(batch), len(theta)))
    # A decision point has several equations where an effect has several parts.
    np.add.at(values, function.batch.order.find_in(batch.order), (evaluation.multiplier * evaluation.residual).T)
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
