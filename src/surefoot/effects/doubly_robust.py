"""The outcome model of doubly robust WCLS: predictions of a regressor, cross-fitted by participant (arXiv 2306.16297)."""

from dataclasses import replace
from typing import Any

import numpy as np

from surefoot.effects.analysis import ExcursionBatch
from surefoot.effects.estimators import fit_least_squares
from surefoot.effects.formulas import INTERCEPT
from surefoot.errors import InputError

FOLDS = 5
DIVISIONS = 5
"""Predictions are means over this many divisions of the participants into folds."""
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

    m̂ predicts the residuals of least squares on g; both are fitted to participants of other folds. γ, the
    least-squares coefficient of the residuals, lies between 0 and 1: a negative one would be the trace of a participant's
    own outcomes in the means of the others.
    """
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
    residuals = counted.outcome - fit_least_squares(g, counted.outcome) @ g
    square = predictions @ predictions
    share = np.clip(residuals @ predictions / square, 0.0, 1.0) if square > 0 else 0.0
    predicted = np.zeros(len(batch))
    predicted[batch.counted] = share * predictions
    return replace(batch, predicted=predicted)


def make_learner(learner: Any) -> Any:
    """A regressor of scikit-learn, given as such or by its name in `LEARNERS`."""
    if not isinstance(learner, str):
        return learner
    if learner not in LEARNERS:
        raise InputError(f"no learner '{learner}'; choose from {list(LEARNERS)}, or give a regressor of scikit-learn")
    from sklearn import ensemble

    name, parameters = LEARNERS[learner]
    return getattr(ensemble, name)(**parameters)
