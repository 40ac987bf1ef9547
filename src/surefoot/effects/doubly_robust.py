"""The outcome model of doubly robust WCLS: predictions of a regressor, cross-fitted by participant (arXiv 2306.16297)."""

from dataclasses import replace
from typing import Any

import numpy as np

from surefoot.effects.analysis import ExcursionBatch, Floats
from surefoot.effects.estimators import fit_least_squares, make_linear, solve
from surefoot.effects.formulas import INTERCEPT
from surefoot.errors import InputError

FOLDS = 5
DIVISIONS = 5
"""Predictions are means over this many divisions of the participants into folds."""
NOTHING = 1e-9
"""Predictions with a standard deviation below this share of the outcome's are rounding."""
LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {
    "boosting": ("GradientBoostingRegressor", {"n_estimators": 50, "max_depth": 2, "subsample": 0.5, "random_state": 0}),
    "forest": ("RandomForestRegressor", {"n_estimators": 100, "min_samples_leaf": 20, "random_state": 0}),
}
"""Classes of `sklearn.ensemble` and their parameters, by the names of the study file."""


def predict_outcomes(batch: ExcursionBatch, learner: Any) -> ExcursionBatch:
    """The same rows with γ m̂(H), a prediction of the outcome from controls and moderators, in `predicted`.

    The outcome model is μ_a(H) = gᵀα + γ m̂(H) + (a − p̃) fᵀβ. With it the doubly robust estimating function
    p̃(1 − p̃) (μ₁ − μ₀ + (A − p)/(p(1 − p)) (Y − μ_A) − fᵀβ) f is that of WCLS for Y − γ m̂. The effect is consistent for
    any m̂ under the probabilities used, and for any probabilities under the right outcome model.
    """
    return shrink_predictions(batch, predict_residuals(batch, learner))


def predict_residuals(batch: ExcursionBatch, learner: Any) -> Floats:
    """m̂ at the rows that count: predictions of the residuals of least squares on g, fitted to participants of other
    folds."""
    from sklearn.base import clone

    variables = dict(zip((*batch.control_names, *batch.moderator_names), (*batch.controls, *batch.moderators), strict=True))
    del variables[INTERCEPT]
    if not variables:
        raise InputError("doubly robust WCLS predicts the outcome from controls and moderators; name at least one")
    regressor = make_learner(learner)
    counted = batch.counted_only
    features = np.column_stack([values[batch.counted] for values in variables.values()])
    g = counted.controls
    rng = np.random.default_rng(0)
    predictions = np.zeros(len(counted))
    for _ in range(DIVISIONS):
        folds = rng.permutation(len(batch.order.participants))[counted.person] % FOLDS
        for fold in np.unique(folds):
            inside = folds == fold
            if inside.all():
                raise InputError("doubly robust WCLS needs participants in several folds; use the estimator 'wcls'")
            others = counted.outcome[~inside]
            others = others - fit_least_squares(g[:, ~inside], others) @ g[:, ~inside]
            model = clone(regressor).fit(features[~inside], others)
            predictions[inside] += model.predict(features[inside]) / DIVISIONS
    return predictions


def shrink_predictions(batch: ExcursionBatch, predictions: Floats) -> ExcursionBatch:
    """The same rows with γ m̂ in `predicted`; γ makes the standard errors of the effect's coefficients small.

    The influence of a participant on coefficient j is ψ_ij − γ φ_ij, that of WCLS for Y less γ times that for m̂. γ minimises
    Σ_j V_j(γ)/V_j(0), V_j(γ) = Σ_i (ψ_ij − γ φ_ij)², over 0 ≤ γ ≤ min(1, min_j 2 Σ_i ψ_ij φ_ij/Σ_i φ_ij²). Up to the last
    bound V_j(γ) ≤ V_j(0): no standard error is larger than that of WCLS.
    """
    counted = batch.counted_only
    if predictions.std() <= NOTHING * counted.outcome.std():
        return batch
    values = np.full(len(batch), np.nan)
    values[batch.counted] = predictions
    influence = _list_influences(batch)
    learned = _list_influences(replace(batch, outcome=values))
    variance = np.square(influence).sum(axis=0)
    product = (influence * learned).sum(axis=0)
    square = np.square(learned).sum(axis=0)
    best = (product / variance).sum() / (square / variance).sum()
    share = max(0.0, min(best, 1.0, (2 * product / square).min()))
    return replace(batch, predicted=np.where(batch.counted, share * np.nan_to_num(values), 0.0))


def _list_influences(batch: ExcursionBatch) -> Floats:
    """Of every participant on the effect's coefficients by WCLS, corrected for small samples, (people, coefficients)."""
    estimate = solve(make_linear(batch))
    return estimate.list_influences()[:, estimate.function.controls :]


def make_learner(learner: Any) -> Any:
    """A regressor of scikit-learn, given as such or by its name in `LEARNERS`; a forest unless named."""
    if learner is None:
        learner = "forest"
    if not isinstance(learner, str):
        return learner
    if learner not in LEARNERS:
        raise InputError(f"no learner '{learner}'; choose from {list(LEARNERS)}, or give a regressor of scikit-learn")
    from sklearn import ensemble

    name, parameters = LEARNERS[learner]
    return getattr(ensemble, name)(**parameters)
