"""The registry of estimators: weighted and centred least squares, EMEE, EMEE2 and the distal DCEE; and robust losses.

A row's f holds the moderators and g the controls, both with an intercept; A is the action, p̃ the numerator probability,
I availability, W = I · p̃(A)/p(A) · (weight of the future at a lag).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import block_diag

from surefoot.effects.analysis import Floats
from surefoot.effects.estimating_equations import Estimate, EstimatingEquation, Evaluation, find_root, solve
from surefoot.effects.excursion_batch import ExcursionBatch
from surefoot.errors import InputError, did_you_mean
from surefoot.numerics.masked_quantiles import MAD_TO_STANDARD_DEVIATION

STEPS = 500
Influence = Callable[[Floats], tuple[Floats, Floats]]
"""ψ and ψ′ of residuals."""


@dataclass(frozen=True)
class Estimator:
    """One line of the registry."""

    label: str
    estimand: str
    binary: bool
    """Whether the outcome must be 0 or 1, and the effect is a log relative risk."""
    estimate: Callable[[ExcursionBatch], Estimate]
    distal: bool = False
    """Whether a participant has one outcome, at the end."""


@dataclass(frozen=True, eq=False)
class _JointDesign:
    """The rows that count, with standardised moderators and controls, for equations of both.

    Years and clock times are then no more trouble to the solver than other numbers.
    """

    batch: ExcursionBatch
    back: Floats
    """B: standardised columns (controls, then moderators of every action) = B · columns."""
    treated: Floats
    """1{A = k} for every action but nothing, (actions − 1, rows)."""

    @classmethod
    def of_batch(cls, batch: ExcursionBatch) -> _JointDesign:
        counted = batch.counted_only
        moderators = _find_standardiser(counted.moderators)
        controls = _find_standardiser(counted.controls)
        treatments = len(batch.action_names) - 1
        return cls(
            replace(counted, moderators=moderators @ counted.moderators, controls=controls @ counted.controls),
            block_diag(controls, *[moderators] * treatments),
            (counted.action == np.arange(1, treatments + 1)[:, None]).astype(np.float64),
        )

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.batch.control_names, *(f"treatment × {name}" for name in self.batch.effect_names))

    def cross_moderators(self, factors: Floats, rows: slice) -> Floats:
        """(actions − 1, rows) ⊗ f, action by action."""
        f = self.batch.moderators[:, rows]
        return (factors[:, rows][:, None] * f).reshape(-1, f.shape[1])

    def solve(self, evaluate: Callable[[Floats, slice], Evaluation], start: Floats) -> Estimate:
        """Controls and effect from one equation, in the columns' own units."""
        estimate = solve(EstimatingEquation(self.names, evaluate, start), self.batch.order, self.back)
        q = len(self.batch.control_names)
        return replace(estimate, controls=q, nuisance_names=self.batch.control_names, nuisance=estimate.theta[:q])

    def evaluate_linear(self, influence: Influence | None = None) -> Callable[[Floats, slice], Evaluation]:
        """Σ W Xᵀ ψ(Y − Xθ), X = [g, (1{A = k} − p̃_k) f]; without ψ weighted and centred least squares."""
        batch = self.batch
        weight = batch.weight
        centred = self.treated - batch.numerator[1:]

        def evaluate(theta: Floats, rows: slice) -> Evaluation:
            design = np.concatenate([batch.controls[:, rows], self.cross_moderators(centred, rows)])
            residual = batch.outcome[rows] - theta @ design
            slope = design
            if influence is not None:
                residual, derivative = influence(residual)
                slope = derivative * design
            return Evaluation(weight[rows] * design, residual, slope, slope)

        return evaluate

    def solve_log_linear(self, moved: Floats, centred: Floats, weight: Floats, *, of_fitted_mean: bool) -> Estimate:
        """Σ weight (e^(−moved fᵀβ) Y − e^(gᵀα)) [g; centred f] = 0, from α₀ = log of the mean outcome.

        With `of_fitted_mean` the leverage is that of e^(gᵀα + moved fᵀβ), times the e^(−moved fᵀβ) that is left out of the
        multiplier.
        """
        batch = self.batch
        q = len(batch.control_names)
        mean = np.average(batch.outcome, weights=weight)
        if not 0 < mean < 1:
            raise InputError(f"the outcome is {mean:g} at every row that counts; a relative risk needs both 0 and 1")

        def evaluate(theta: Floats, rows: slice) -> Evaluation:
            g = batch.controls[:, rows]
            f = self.cross_moderators(moved, rows)
            base = np.exp(theta[:q] @ g)
            removed = np.exp(-(theta[q:] @ f)) * batch.outcome[rows]
            multiplier = weight[rows] * np.concatenate([g, self.cross_moderators(centred, rows)])
            slope = np.concatenate([base * g, removed * f])
            leverage = np.concatenate([base * g, base * f]) if of_fitted_mean else slope
            return Evaluation(multiplier, removed - base, slope, leverage)

        return self.solve(evaluate, np.array([np.log(mean), *np.zeros(len(self.names) - 1)]))


def _find_standardiser(columns: Floats) -> Floats:
    """B: standardised columns = B · columns. Any centre and scale near the true ones will do: a sample of rows is enough."""
    sample = columns[:, :: max(1, columns.shape[1] // 10_000)]
    centre = sample.mean(axis=1)
    scale = sample.std(axis=1)
    scale[~(scale > 1e-10 * np.abs(centre))] = 1.0
    standardiser = np.diag(1 / scale)
    standardiser[1:, 0] = -centre[1:] / scale[1:]
    return standardiser


def estimate_wcls(batch: ExcursionBatch) -> Estimate:
    """Weighted and centred least squares: θ̂ = (Σ XᵀWX)⁻¹ Σ XᵀWY."""
    design = _JointDesign.of_batch(batch)
    return design.solve(design.evaluate_linear(), np.zeros(len(design.names)))


def estimate_emee(batch: ExcursionBatch) -> Estimate:
    """EMEE: Σ W e^(−A fᵀβ) (Y − e^(gᵀα + A fᵀβ)) [g; (A − p̃) f] = 0."""
    design = _JointDesign.of_batch(batch)
    centred = design.treated - design.batch.numerator[1:]
    return design.solve_log_linear(design.treated, centred, design.batch.weight, of_fitted_mean=True)


def estimate_emee2(batch: ExcursionBatch) -> Estimate:
    """EMEE2: Σ I (e^(−(A − p) fᵀβ) Y − e^(gᵀα)) [g; (A − p) f] = 0, without weights."""
    _require_two_actions(batch, "emee2", "emee")
    design = _JointDesign.of_batch(batch)
    shift = (design.batch.action - _find_send_probability(design.batch))[None]
    return design.solve_log_linear(shift, shift, design.batch.future, of_fitted_mean=False)


def estimate_dcee(batch: ExcursionBatch) -> Estimate:
    """Linear DCEE: β = (Σ ffᵀ)⁻¹ Σ I (−1)^(1−A)/p(A) (Y − (1 − p) μ₁ − p μ₀) f over all rows; μ_a = gᵀα_a by least squares.

    The arms' regressions do not enter the covariance: with known probabilities the estimating function does not depend on
    them to first order.
    """
    _require_two_actions(batch, "dcee", "wcls")
    treated = batch.action == 1
    p = _find_send_probability(batch)
    f = batch.moderators
    g = batch.controls
    known = ~(np.isnan(batch.outcome) | np.isnan(f).any(axis=0))
    complete = known & ~np.isnan(g).any(axis=0)
    arms = [fit_least_squares(g[:, complete & arm], batch.outcome[complete & arm]) for arm in (~treated, treated)]
    rows = known & (complete | ~batch.available)
    expected = np.nan_to_num((1 - p) * (arms[1] @ g) + p * (arms[0] @ g))
    contrast = batch.available * np.where(treated, 1.0, -1.0) / batch.taken * (batch.outcome - expected)
    back = _find_standardiser(f[:, rows])
    design = back @ f[:, rows]
    target = contrast[rows]

    def evaluate(theta: Floats, block: slice) -> Evaluation:
        columns = design[:, block]
        return Evaluation(columns, target[block] - theta @ columns, columns, columns)

    equation = EstimatingEquation(batch.effect_names, evaluate, np.zeros(len(design)))
    names = tuple(f"{action}: {name}" for action in batch.action_names for name in batch.control_names)
    estimate = solve(equation, batch.order.take(rows), back)
    return replace(estimate, nuisance_names=names, nuisance=np.concatenate(arms), is_corrected=False)


def fit_least_squares(design: Floats, outcome: Floats) -> Floats:
    """Of the outcome on columns (d, rows)."""
    scaling = _find_standardiser(design)
    scaled = scaling @ design
    return np.asarray(scaling.T @ np.linalg.lstsq(scaled @ scaled.T, scaled @ outcome, rcond=None)[0])


def _find_send_probability(batch: ExcursionBatch) -> Floats:
    return np.where(batch.action == 1, batch.taken, 1 - batch.taken)


def _require_two_actions(batch: ExcursionBatch, name: str, other: str) -> None:
    treatments = len(batch.action_names) - 1
    if treatments > 1:
        raise InputError(
            f"{name} compares one treatment with nothing, here there are {treatments}; use {other}, or one treatment at a "
            "time"
        )


ESTIMATORS = {
    "wcls": Estimator("weighted and centred least squares", "difference of means", False, estimate_wcls),
    "emee": Estimator("EMEE", "log relative risk", True, estimate_emee),
    "emee2": Estimator("EMEE2", "log relative risk", True, estimate_emee2),
    "dcee": Estimator("linear DCEE", "difference of means", False, estimate_dcee, distal=True),
}


def _huber(scaled: Floats) -> tuple[Floats, Floats]:
    return np.clip(scaled, -1.345, 1.345), (np.abs(scaled) <= 1.345).astype(np.float64)


def _bisquare(scaled: Floats) -> tuple[Floats, Floats]:
    inside = np.maximum(1 - (scaled / 4.685) ** 2, 0.0)
    return scaled * inside**2, inside * (1 - 5 * (scaled / 4.685) ** 2)


ROBUST_LOSSES: dict[str, tuple[str, Influence]] = {"huber": ("Huber", _huber), "bisquare": ("bisquare", _bisquare)}
"""Labels and influence functions of standardised residuals."""


def estimate_robustly(batch: ExcursionBatch, loss: str) -> Estimate:
    """WCLS with a robust loss, the scale fixed at 1.4826 MAD of the residuals of plain WCLS.

    A sensitivity analysis of another estimand: valid under no effect and under a constant shift. Where a prompt makes a few
    people walk a lot, the mean moves and these estimates hardly do.
    """
    if loss not in ROBUST_LOSSES:
        raise InputError(
            f"no robust loss '{loss}'{did_you_mean(loss, ROBUST_LOSSES)}; choose from {list(ROBUST_LOSSES)}. Leaving out "
            "what a robust fit left over and analysing the rest is refused: whether a row is left out depends on the "
            "outcome, and so on treatment"
        )
    design = _JointDesign.of_batch(batch)
    evaluate = design.evaluate_linear()
    all_rows = slice(0, len(design.batch))
    theta = find_root(EstimatingEquation(design.names, evaluate, np.zeros(len(design.names))), [all_rows])
    rows = evaluate(theta, all_rows)
    scale = MAD_TO_STANDARD_DEVIATION * np.median(np.abs(rows.residual - np.median(rows.residual)))
    if scale == 0:
        raise InputError("more than half of the residuals are equal: there is no robust scale; leave the robust losses out")

    def influence(residuals: Floats) -> tuple[Floats, Floats]:
        value, derivative = ROBUST_LOSSES[loss][1](residuals / scale)
        return scale * value, derivative

    # Least squares with weights ψ(r)/r descend for every loss, where Newton's steps may not.
    residual = rows.residual
    for _ in range(STEPS):
        value, _ = influence(residual)
        multiplier = rows.multiplier * np.divide(value, residual, out=np.ones_like(value), where=residual != 0)
        step = np.linalg.solve(multiplier @ rows.slope.T, multiplier @ residual)
        theta = theta + step
        residual = residual - step @ rows.slope
        if np.abs(step).max() <= 1e-9 * (1 + np.abs(theta).max()):
            break
    return design.solve(design.evaluate_linear(influence), theta)
