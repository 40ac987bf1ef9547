"""Missing outcomes: complete rows, weights by the probability of being observed, or multiple imputation.

Imputations are combined by Rubin's rules: with estimates θ̂_k and covariances V_k of m completed data sets the estimate is
their mean, its covariance T = V̄ + (1 + 1/m) B, B the covariance of the θ̂_k. For a combination cᵀθ the fraction of missing
information is λ = (1 + 1/m) cᵀBc/cᵀTc, and with ν₀ = n − p − q the degrees of freedom are those of Barnard and Rubin (1999):
1/ν = λ²/(m − 1) + 1/(ν₀ (ν₀ + 1)/(ν₀ + 3) (1 − λ)).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from surefoot.effects.adaptive_errors import adapt_errors
from surefoot.effects.analysis import Codes, ExcursionBatch, Floats
from surefoot.effects.doubly_robust import predict_outcomes
from surefoot.effects.estimators import Estimate, Estimator, refuse_few, solve
from surefoot.effects.imputation import Draws, impute
from surefoot.effects.observation_model import (
    ObservationModel,
    OutcomeSeries,
    count_estimated_weights,
    fit_observation,
    make_series,
)
from surefoot.errors import InputError, did_you_mean
from surefoot.inference.adaptive_sandwich import UpdateHistory


@dataclass(frozen=True, eq=False)
class Imputations:
    """Completed outcomes, and how far the estimates from them differ."""

    series: OutcomeSeries
    draws: Draws
    predicted: Floats  # As in `ExcursionBatch`, the same for all of them.
    between: Floats  # B, of all coefficients.
    unobserved_people: int = 0  # Participants without any outcome.

    def __len__(self) -> int:
        return len(self.draws)

    @property
    def rows(self) -> int:
        """Number of imputed outcomes that the analysis needs."""
        return int(self.series.possible[self.draws.entries].sum())

    def complete(self, batch: ExcursionBatch, outcomes: Floats) -> ExcursionBatch:
        """The batch with these outcomes in place of the missing entries."""
        entries = np.full(len(self.series.rows), np.nan)
        entries[self.draws.entries] = outcomes
        index = self.series.index
        filled = np.where(np.isnan(batch.outcome) & (index >= 0), entries[index], batch.outcome)
        return replace(batch, outcome=filled, predicted=self.predicted)

    def find_fractions(self, matrix: Floats, covariance: Floats) -> Floats:
        """λ of every row of a matrix of combinations; `between` and `covariance` are of the same coefficients."""
        first = len(self.between) - matrix.shape[1]
        between = np.einsum("ij,jk,ik->i", matrix, self.between[first:, first:], matrix)
        total = np.einsum("ij,jk,ik->i", matrix, covariance, matrix)
        share = (1 + 1 / len(self)) * np.divide(between, total, out=np.zeros_like(total), where=total > 0)
        return np.asarray(np.minimum(share, 1.0))

    def find_degrees(self, fractions: Floats, complete: int) -> Floats:
        """Barnard and Rubin's degrees of freedom, `complete` those without missing outcomes.

        Participants without any outcome say nothing about the effect, so they add no degrees of freedom.
        """
        observed = complete * (complete + 1) / (complete + 3) * np.maximum(1 - fractions, 1e-12)
        degrees = 1 / (fractions**2 / (len(self) - 1) + 1 / observed)
        return np.asarray(np.minimum(degrees, complete - self.unobserved_people))


@dataclass(frozen=True, eq=False)
class MissingFit:
    """An estimate with its treatment of missing outcomes."""

    batch: ExcursionBatch
    estimate: Estimate
    observation: ObservationModel | None = None
    imputations: Imputations | None = None


def _fit_complete(batch: ExcursionBatch, chosen: Estimator) -> MissingFit:
    prepared = predict_outcomes(batch, batch.analysis.learner) if chosen.learns else batch
    return MissingFit(prepared, solve(chosen.make(prepared)))


def _fit_weighted(batch: ExcursionBatch, chosen: Estimator) -> MissingFit:
    model = fit_observation(batch, distal=chosen.distal)
    if model is None:
        return _fit_complete(batch, chosen)
    weighted = _fit_complete(model.weigh(batch), chosen)
    return replace(weighted, estimate=count_estimated_weights(weighted.estimate, batch, model), observation=model)


def _fit_imputed(batch: ExcursionBatch, chosen: Estimator) -> MissingFit:
    series = make_series(batch, distal=chosen.distal)
    if not (series.missing & series.possible).any():
        return _fit_complete(batch, chosen)
    draws = impute(series, imputations=batch.analysis.imputations, seed=batch.analysis.seed)
    imputations = Imputations(series, draws, batch.predicted, np.empty((0, 0)))
    if chosen.learns:
        # Any prediction leaves the effect as it is, so the one from the mean of the imputations serves all of them.
        learned = predict_outcomes(imputations.complete(batch, draws.outcomes.mean(axis=0)), batch.analysis.learner)
        imputations = replace(imputations, predicted=learned.predicted)
    estimates = [solve(chosen.make(imputations.complete(batch, outcomes))) for outcomes in draws.outcomes]
    pooled, between = pool(estimates)
    observed = len(np.unique(batch.counted_only.person))
    refuse_few(observed, pooled.function.names)
    imputations = replace(imputations, between=between, unobserved_people=pooled.people - observed)
    return MissingFit(batch, pooled, imputations=imputations)


def pool(estimates: Sequence[Estimate]) -> tuple[Estimate, Floats]:
    """The mean of estimates with its covariance by Rubin's rules, and the covariance between them."""
    between = np.atleast_2d(np.cov(np.stack([estimate.theta for estimate in estimates]), rowvar=False))
    further = (1 + 1 / len(estimates)) * between

    def average(values: Sequence[Floats]) -> Floats:
        return np.asarray(np.mean(np.stack(values), axis=0))

    pooled = replace(
        estimates[0],
        theta=average([estimate.theta for estimate in estimates]),
        root=average([estimate.root for estimate in estimates]),
        plain=average([estimate.plain for estimate in estimates]) + further,
        corrected=average([estimate.corrected for estimate in estimates]) + further,
        scores=average([estimate.scores for estimate in estimates]),
        corrected_scores=average([estimate.corrected_scores for estimate in estimates]),
    )
    return pooled, between


def adapt_fit(fit: MissingFit, chosen: Estimator, history: UpdateHistory) -> Estimate:
    """With standard errors that count what another run of the trial would have learned."""
    imputations = fit.imputations
    if imputations is None:
        return adapt_errors(fit.estimate, fit.batch, chosen.make, history, distal=chosen.distal)
    adapted = []
    for outcomes in imputations.draws.outcomes:
        completed = imputations.complete(fit.batch, outcomes)
        estimate = solve(chosen.make(completed))
        adapted.append(adapt_errors(estimate, completed, chosen.make, history, distal=chosen.distal))
    return pool(adapted)[0]


@dataclass(frozen=True)
class MissingMethod:
    """One line of the registry."""

    label: str
    assumption: str
    """Under which the effect is estimated without bias."""
    fit: Callable[[ExcursionBatch, Estimator], MissingFit]
    predicts: bool = True
    """Whether it predicts missing outcomes, or which are missing."""


MISSING_METHODS = {
    "complete": MissingMethod(
        "complete rows",
        "whether an outcome is missing depends on nothing that changes the effect",
        _fit_complete,
        predicts=False,
    ),
    "weighted": MissingMethod(
        "weighted by the inverse probability of being observed",
        "state, action, past and attendance explain which outcomes are missing",
        _fit_weighted,
    ),
    "imputed": MissingMethod(
        "multiple imputation",
        "given state, action, past and attendance, missing outcomes are like observed ones",
        _fit_imputed,
    ),
}


def fit_missing(batch: ExcursionBatch, chosen: Estimator) -> MissingFit:
    """The estimate with missing outcomes treated as the analysis says."""
    name = batch.analysis.missing
    if name not in MISSING_METHODS:
        raise InputError(f"missing is '{name}'{did_you_mean(name, MISSING_METHODS)}; choose from {list(MISSING_METHODS)}")
    method = MISSING_METHODS[name]
    if method.predicts and batch.analysis.outcome in batch.analysis.defined_missing:
        raise InputError(
            f"missing_as defines the outcome '{batch.analysis.outcome}' where it is missing, so missing = '{name}' has "
            "nothing to do; leave out one of the two"
        )
    return method.fit(batch, chosen)


def find_missing_rows(batch: ExcursionBatch) -> Codes:
    """Rows that count but for their outcome."""
    return np.flatnonzero(batch.possible & batch.described & np.isnan(batch.outcome))
