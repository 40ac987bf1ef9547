"""Effects on one distal outcome, direct and through a mediator, and the nuisance models behind them.

Nuisance models are linear (the chance of treatment given the mediator logistic), fitted once to all participants, or any
regressor, fitted to the participants of other folds (cross-fitting).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import block_diag
from scipy.special import expit

from surefoot.effects.analysis import Codes, ExcursionBatch, Floats, Mask
from surefoot.effects.doubly_robust import DIVISIONS, FOLDS, make_learner
from surefoot.effects.estimators import (
    ESTIMATORS,
    EstimatingFunction,
    Estimator,
    Evaluation,
    find_standardiser,
    fit_least_squares,
)
from surefoot.errors import InputError

MEDIATED = ("direct", "indirect")
"""Parts of a mediated effect, in the order of its coefficients."""
TOTAL = "total"
"""The sum of these parts."""
LINEAR = "linear"
CLOSEST = 0.01
"""A regressor's chance of treatment given the mediator stays this far from 0 and 1."""
LOGISTIC_STEPS = 50
Stage = Callable[[Mask], tuple[Floats, ...]]
"""Models fitted to the chosen rows, and what they predict at all rows."""


def make_dcee(batch: ExcursionBatch) -> EstimatingFunction:
    """DCEE: ω (I (−1)^(1−A)/p(A) (Y − (1 − p) μ₁ − p μ₀) − fᵀβ) f over all rows; μ_a predicts Y in an arm from g.

    The arms' regressions do not enter the covariance: with known probabilities the estimating function does not depend on
    them to first order.
    """
    treated = batch.action == 1
    p = batch.send_probability
    known = ~(np.isnan(batch.outcome) | np.isnan(batch.moderators).any(axis=0))
    complete = known & ~np.isnan(batch.controls).any(axis=0)
    models = NuisanceModels.of(batch)

    def predict_arms(training: Mask) -> tuple[Floats, ...]:
        arms = (~treated, treated)
        return tuple(models.predict(batch.controls, batch.outcome, training & complete & arm) for arm in arms)

    untreated_mean, treated_mean = models.average(predict_arms)
    expected = np.nan_to_num((1 - p) * treated_mean + p * untreated_mean)
    contrast = batch.available * np.where(treated, 1.0, -1.0) / batch.taken * (batch.outcome - expected)
    rows = known & (complete | ~batch.available)
    counted = batch.take(rows)
    target = contrast[rows]
    weight = counted.point_weight * counted.observation_weight
    back = find_standardiser(counted.moderators)
    design = back @ counted.moderators

    def evaluate(theta: Floats, block: slice) -> Evaluation:
        columns = design[:, block]
        return Evaluation(weight[block] * columns, target[block] - theta @ columns, columns, columns)

    # Coefficients of the arms, where the models have some.
    arms = models.list_coefficients(batch.controls, batch.outcome, [complete & ~treated, complete & treated])
    names = tuple(f"{action}: {name}" for action in batch.action_names for name in batch.control_names)
    start = np.zeros(len(design))
    return EstimatingFunction(counted, batch.effect_names, evaluate, start, back, names if arms.size else (), arms)


def make_mcee(batch: ExcursionBatch) -> EstimatingFunction:
    """MCEE: ω (φ₁₀ − φ₀₀ − fᵀα) f for the direct and ω (φ₁₁ − φ₁₀ − fᵀβ) f for the indirect effect, over all rows.

    With p the logged and q the chance of treatment given the mediator, η_a = E(Y | A = a, g), μ_a = E(Y | A = a, g, M) and
    ν = E(μ₁ | A = 0, g), at available rows

    φ_aa = 1{A = a}/p_a (Y − η_a) + η_a,  φ₁₀ = A q₀/(p₀ q₁) (Y − μ₁) + (1 − A)/p₀ (μ₁ − ν) + ν;

    at unavailable rows treatment is impossible and all three are Y (Qian 2025, arXiv 2506.20027).
    """
    available = batch.available
    known = ~(np.isnan(batch.outcome) | np.isnan(batch.moderators).any(axis=0))
    with_mediator = np.concatenate([batch.controls, batch.mediators])
    complete = known & ~np.isnan(with_mediator).any(axis=0)
    models = NuisanceModels.of(batch)

    def predict_nuisance(training: Mask) -> tuple[Floats, ...]:
        """q₁, η₀, η₁, μ₁ and ν. Where nobody can be treated, both arms are the same."""
        fitted = training & complete
        untreated = fitted & (batch.action == 0)
        treated = fitted & ((batch.action == 1) | ~available)
        chance = models.predict_chance(with_mediator, batch.action == 1, fitted & available)
        mean = [models.predict(batch.controls, batch.outcome, arm) for arm in (untreated, treated)]
        mediated = models.predict(with_mediator, batch.outcome, treated)
        return (chance, *mean, mediated, models.predict(batch.controls, mediated, untreated))

    q, mean0, mean1, mediated, crossed = models.average(predict_nuisance)
    p = np.where(available, batch.send_probability, 0.5)  # Any, where nobody can be treated.
    a = batch.action
    y = batch.outcome
    both_treated = a / p * (y - mean1) + mean1
    both_untreated = (1 - a) / (1 - p) * (y - mean0) + mean0
    mixed = a * (1 - q) / ((1 - p) * q) * (y - mediated) + (1 - a) / (1 - p) * (mediated - crossed) + crossed
    rows = known & (complete | ~available)
    # Two rows for every decision point: the direct effect, then the indirect one.
    pairs = np.stack([mixed - both_untreated, both_treated - mixed], axis=-1)
    target = np.where(available[:, None], pairs, 0.0)[rows].ravel()
    counted = batch.take(rows).repeat(2)
    weight = counted.point_weight * counted.observation_weight
    standardiser = find_standardiser(counted.moderators)
    columns = standardiser @ counted.moderators
    size = len(columns)
    design = np.zeros((2 * size, len(counted)))
    design[:size, ::2] = columns[:, ::2]
    design[size:, 1::2] = columns[:, 1::2]

    def evaluate(theta: Floats, block: slice) -> Evaluation:
        chosen = design[:, block]
        return Evaluation(weight[block] * chosen, target[block] - theta @ chosen, chosen, chosen)

    names = tuple(f"{part}: {name}" for part in MEDIATED for name in batch.moderator_names)
    back = block_diag(standardiser, standardiser)
    return EstimatingFunction(counted, names, evaluate, np.zeros(2 * size), back, (), np.empty(0))


@dataclass(frozen=True, eq=False)
class NuisanceModels:
    """Least squares on all participants, or a regressor on those of other folds."""

    regressor: Any | None  # None for least squares.
    person: Codes
    divisions: Sequence[Codes]  # The fold of every row, for each division of the participants; none without cross-fitting.

    @classmethod
    def of(cls, batch: ExcursionBatch) -> "NuisanceModels":
        """As the analysis says: regressors are always cross-fitted, least squares where it names a number of folds."""
        analysis = batch.analysis
        linear = analysis.learner is None or (isinstance(analysis.learner, str) and analysis.learner == LINEAR)
        regressor = None if linear else make_learner(analysis.learner)
        folds = analysis.folds or (None if linear else FOLDS)
        return cls(regressor, batch.person, [] if folds is None else divide(batch, folds))

    def average(self, stage: Stage) -> tuple[Floats, ...]:
        """What a stage predicts for participants that it was not fitted to, mean over the divisions."""
        if not self.divisions:
            return stage(np.ones(len(self.person), dtype=bool))
        means: list[Floats] = []
        for folds in self.divisions:
            for fold in np.unique(folds):
                inside = folds == fold
                predictions = stage(~inside)
                means = means or [np.zeros(len(self.person)) for _ in predictions]
                for mean, prediction in zip(means, predictions, strict=True):
                    mean[inside] += prediction[inside] / len(self.divisions)
        return tuple(means)

    def predict(self, columns: Floats, outcome: Floats, training: Mask) -> Floats:
        """The outcome at all rows, by a model of the training rows; columns are (d, rows), the intercept first."""
        _refuse_empty(training)
        if self.regressor is None:
            return np.asarray(fit_least_squares(columns[:, training], outcome[training]) @ columns)
        from sklearn.base import clone

        if len(columns) == 1:
            return np.full(columns.shape[1], outcome[training].mean())
        model = clone(self.regressor).fit(columns[1:, training].T, outcome[training])
        complete = ~np.isnan(columns).any(axis=0)
        predictions = np.full(len(training), np.nan)
        predictions[complete] = model.predict(columns[1:, complete].T)
        return predictions

    def predict_chance(self, columns: Floats, treated: Mask, training: Mask) -> Floats:
        """P(treated) at all rows: logistic regression, or the regressor's mean within limits."""
        if self.regressor is None:
            return _predict_logistic(columns, treated, training)
        return np.clip(self.predict(columns, treated.astype(np.float64), training), CLOSEST, 1 - CLOSEST)

    def list_coefficients(self, columns: Floats, outcome: Floats, arms: Sequence[Mask]) -> Floats:
        """Of least squares in every arm; none for a regressor."""
        if self.regressor is not None:
            return np.empty(0)
        return np.concatenate([fit_least_squares(columns[:, arm], outcome[arm]) for arm in arms])


def divide(batch: ExcursionBatch, folds: int) -> list[Codes]:
    """Folds of whole participants, several times, with a fixed seed."""
    people = len(batch.order.participants)
    if not 2 <= folds <= people:
        raise InputError(f"folds is {folds}; give a number from 2 to the number of participants, {people}")
    rng = np.random.default_rng(0)
    return [(rng.permutation(people) % folds)[batch.person] for _ in range(DIVISIONS)]


def _predict_logistic(columns: Floats, treated: Mask, training: Mask) -> Floats:
    """Logistic regression by Newton's method."""
    scaled = find_standardiser(columns[:, training]) @ columns
    design = scaled[:, training]
    actions = treated[training]
    theta = np.zeros(len(design))
    for _ in range(LOGISTIC_STEPS):
        chance = expit(theta @ design)
        curvature = (chance * (1 - chance) * design) @ design.T
        step = np.linalg.lstsq(curvature, design @ (actions - chance), rcond=None)[0]
        theta = theta + step
        if np.abs(step).max() <= 1e-10 * (1 + np.abs(theta).max()):
            return np.asarray(expit(theta @ scaled))
    raise InputError(
        "the mediator and the controls tell treated from untreated rows apart, so direct and indirect effects cannot be "
        "separated; name another mediator or fewer controls"
    )


def _refuse_empty(training: Mask) -> None:
    if not training.any():
        raise InputError("an arm has no complete row to fit the nuisance models to; use fewer folds or fewer controls")


ESTIMATORS["dcee"] = Estimator("DCEE", "difference of means", make_dcee, several_by="wcls", distal=True, weighs=False)
ESTIMATORS["mcee"] = Estimator(
    "MCEE", "difference of means", make_mcee, several_by="wcls", distal=True, weighs=False, parts=MEDIATED
)
