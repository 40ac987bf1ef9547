"""The estimators as estimating functions, the solver that they share, and robust losses.

Every estimator solves Σ ψ_t(θ) = 0 with ψ_t = D_t r_t(θ), a multiplier D_t ∈ ℝᵈ and a scalar residual r_t for each decision
point. With R_t = −∂r_t/∂θ the derivative is A = Σ D_t R_tᵀ and Newton's step A⁻¹ Σ D_t r_t. Mancl and DeRouen's correction
replaces a participant's score u_i = Σ D_t r_t by (I − S_i A⁻¹)⁻¹ u_i, S_i = Σ D_t L_tᵀ, L_t the slope of the fitted mean: a
participant pulls the fit towards their own outcomes, and their residuals are too small by that much. So a participant's
influence is (A − S_i)⁻¹ u_i, and no matrix is larger than d × d.

A row's f holds the moderators and g the controls, both with an intercept; A is the action, p̃ the numerator probability,
I availability, W = I · p̃(A)/p(A) · (weight of the future at a lag).
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag

from surefoot.effects.analysis import ExcursionBatch, Floats
from surefoot.errors import InputError, did_you_mean
from surefoot.numerics.masked_quantiles import MAD_TO_STANDARD_DEVIATION

NEWTON_STEPS = 200
WEIGHTING_STEPS = 500
TOLERANCE = 1e-13
BLOCK_ROWS = 1 << 14  # Rows that are evaluated at a time: they stay in the processor's cache.
SINGULAR = 1e-11
"""A matrix whose reciprocal condition number, columns scaled alike, is below this has no trustworthy inverse."""
NAMED = 8
"""Coefficients that a refusal names."""
Influence = Callable[[Floats], tuple[Floats, Floats]]  # ψ and ψ′ of residuals.


class Evaluation(NamedTuple):
    """ψ = D r of a block of rows at one θ, and its derivative −D Rᵀ."""

    multiplier: Floats  # D, (d, rows).
    residual: Floats  # r, (rows,).
    slope: Floats  # R, (d, rows).
    leverage_slope: Floats  # L, (d, rows); R unless an estimator says otherwise.


@dataclass(frozen=True, eq=False)
class EstimatingFunction:
    """ψ at the rows that count, in standardised columns: years are then no more trouble to the solver than other numbers."""

    batch: ExcursionBatch  # The rows that count, sorted by participant, with standardised moderators and controls.
    names: tuple[str, ...]
    """Of the coefficients: those of controls that are estimated jointly, then those of the effect."""
    evaluate: Callable[[Floats, slice], Evaluation]
    start: Floats
    back: Floats  # B: standardised columns = B · columns.
    nuisance_names: tuple[str, ...]
    nuisance: Floats | None = None  # Coefficients of a first stage, where the controls are not estimated jointly.

    @property
    def controls(self) -> int:
        """How many of the coefficients belong to controls."""
        return 0 if self.nuisance is not None else len(self.nuisance_names)


@dataclass(frozen=True, eq=False)
class Estimate:
    """The root of an estimating function, in the columns' own units."""

    function: EstimatingFunction
    theta: Floats
    plain: Floats  # Covariance of `theta`.
    corrected: Floats  # The same, corrected for small samples.
    people: int
    root: Floats  # θ of the standardised columns.
    bread: Floats  # A, of the standardised columns.
    scores: Floats  # u_i, (people, d).
    corrected_scores: Floats  # (I − S_i A⁻¹)⁻¹ u_i.

    def list_influences(self, *, corrected: bool = True) -> Floats:
        """Of every participant on the coefficients in the columns' own units, (people, d)."""
        scores = self.corrected_scores if corrected else self.scores
        return np.asarray(np.linalg.solve(self.bread, scores.T).T @ self.function.back)


def solve(function: EstimatingFunction) -> Estimate:
    """The root, and its covariance with and without the correction for small samples."""
    person = function.batch.person
    starts = function.batch.starts
    size = len(function.start)
    refuse_few(len(starts), function.names)
    first = np.unique(np.searchsorted(starts, np.arange(0, len(person), BLOCK_ROWS)))
    edges = np.append(starts, len(person))
    pairs = itertools.pairwise([*first[first < len(starts)].tolist(), len(starts)])
    blocks = [(slice(a, b), slice(edges[a], edges[b])) for a, b in pairs]
    theta = find_root(function, [rows for _, rows in blocks])
    bread = np.zeros((size, size))
    scores = np.empty((len(starts), size))
    leverage = np.empty((len(starts), size, size))
    for people, rows in blocks:
        evaluation = function.evaluate(theta, rows)
        begins = starts[people] - rows.start
        bread += evaluation.multiplier @ evaluation.slope.T
        scores[people] = np.add.reduceat(evaluation.multiplier * evaluation.residual, begins, axis=1).T
        for j in range(size):
            products = evaluation.multiplier[j] * evaluation.leverage_slope
            leverage[people, j] = np.add.reduceat(products, begins, axis=1).T
    remainder = np.eye(size) - leverage @ np.linalg.inv(bread)
    alone = np.flatnonzero(np.linalg.cond(remainder) > 1 / SINGULAR)
    if alone.size:
        participant = function.batch.order.participants[person[starts[alone[0]]]].item()
        raise InputError(
            f"participant {participant!r} alone decides a coefficient of {', '.join(function.names)}, so its uncertainty "
            "cannot be estimated; name fewer moderators and controls",
            participant=participant,
        )
    back = function.back
    corrected_scores = np.asarray(np.linalg.solve(remainder, scores[:, :, None])[:, :, 0], dtype=np.float64)
    plain = np.linalg.solve(bread, scores.T).T @ back
    corrected = np.linalg.solve(bread, corrected_scores.T).T @ back
    return Estimate(
        function=function,
        theta=back.T @ theta,
        plain=plain.T @ plain,
        corrected=corrected.T @ corrected,
        people=len(starts),
        root=theta,
        bread=bread,
        scores=scores,
        corrected_scores=corrected_scores,
    )


def refuse_few(people: int, names: Sequence[str]) -> None:
    """Refuse to estimate these coefficients from so few participants."""
    size = len(names)
    if people <= size:
        listed = ", ".join(names[:NAMED]) + ", …" * (size > NAMED)
        counts = f"{people} participant{' is' if people == 1 else 's are'} too few for {size} coefficient{'s' * (size > 1)}"
        raise InputError(f"{counts} ({listed}); name fewer moderators and controls, or wait for more participants")


def find_root(function: EstimatingFunction, blocks: Sequence[slice]) -> Floats:
    """Newton's method; a step that makes the equations worse is halved."""

    def sum_blocks(theta: Floats) -> tuple[Floats, Floats]:
        """Σ D r and Σ D Rᵀ."""
        score = np.zeros(len(theta))
        bread = np.zeros((len(theta), len(theta)))
        for rows in blocks:
            evaluation = function.evaluate(theta, rows)
            score += evaluation.multiplier @ evaluation.residual
            bread += evaluation.multiplier @ evaluation.slope.T
        return score, bread

    theta = function.start
    score, bread = sum_blocks(theta)
    for _ in range(NEWTON_STEPS):
        _refuse_singular(bread, function.names)
        step = np.linalg.solve(bread, score)
        size = np.linalg.norm(score)
        if np.abs(step).max() <= TOLERANCE * (1 + np.abs(theta).max()):
            return np.asarray(theta + step)
        for _ in range(30):
            with np.errstate(over="ignore", invalid="ignore"):
                score, bread = sum_blocks(theta + step)
            # At the root rounding decides; a step that small is taken in any case.
            if np.linalg.norm(score) <= size or np.abs(step).max() <= 1e-9 * (1 + np.abs(theta).max()):
                break
            step = step / 2
        theta = theta + step
    raise InputError(
        f"the estimating equations for {', '.join(function.names)} have no root that could be found; perhaps the outcome "
        "hardly varies under one action: name fewer moderators and controls"
    )


def _refuse_singular(bread: Floats, names: tuple[str, ...]) -> None:
    scale = np.sqrt(np.abs(np.diagonal(bread)))
    if not (np.isfinite(bread).all() and (scale > 0).all()):
        zero = [name for name, size in zip(names, scale, strict=True) if not size > 0]
        raise InputError(f"{zero or list(names)} cannot be estimated: it never varies among the rows that count")
    _, values, vectors = np.linalg.svd(bread / np.outer(scale, scale))
    if values[-1] < SINGULAR * values[0]:
        tied = [name for name, weight in zip(names, vectors[-1], strict=True) if abs(weight) > 1e-3]
        raise InputError(f"{tied} say the same among the rows that count, so no effect of each exists; name fewer of them")


def find_standardiser(columns: Floats) -> Floats:
    """B: standardised columns = B · columns. Any centre and scale near the true ones will do: a sample of rows is enough."""
    sample = columns[:, :: max(1, columns.shape[1] // 10_000)]
    centre = sample.mean(axis=1)
    scale = sample.std(axis=1)
    scale[~(scale > 1e-10 * np.abs(centre))] = 1.0
    standardiser = np.diag(1 / scale)
    standardiser[1:, 0] = -centre[1:] / scale[1:]
    return standardiser


def _standardise(batch: ExcursionBatch) -> tuple[ExcursionBatch, tuple[str, ...], Floats]:
    """The rows that count with standardised columns, the names of all coefficients, and B."""
    counted = batch.counted_only
    moderators = find_standardiser(counted.moderators)
    controls = find_standardiser(counted.controls)
    scaled = replace(counted, moderators=moderators @ counted.moderators, controls=controls @ counted.controls)
    names = (*batch.control_names, *(f"treatment × {name}" for name in batch.effect_names))
    return scaled, names, block_diag(controls, *[moderators] * (len(batch.action_names) - 1))


def _cross(factors: Floats, moderators: Floats) -> Floats:
    """(actions − 1, rows) ⊗ f, action by action."""
    return (factors[:, None] * moderators).reshape(-1, moderators.shape[1])


def make_linear(batch: ExcursionBatch, influence: Influence | None = None) -> EstimatingFunction:
    """W Xᵀ ψ(Y − γ m̂ − Xθ), X = [g, (1{A = k} − p̃_k) f]; without ψ weighted and centred least squares."""
    scaled, names, back = _standardise(batch)
    weight = scaled.weight
    centred = scaled.treated - scaled.numerator[1:]
    outcome = scaled.outcome - scaled.predicted

    def evaluate(theta: Floats, rows: slice) -> Evaluation:
        design = np.concatenate([scaled.controls[:, rows], _cross(centred[:, rows], scaled.moderators[:, rows])])
        residual = outcome[rows] - theta @ design
        slope = design
        if influence is not None:
            residual, derivative = influence(residual)
            slope = derivative * design
        return Evaluation(weight[rows] * design, residual, slope, slope)

    return EstimatingFunction(scaled, names, evaluate, np.zeros(len(names)), back, batch.control_names)


def make_emee(batch: ExcursionBatch) -> EstimatingFunction:
    """EMEE: W e^(−A fᵀβ) (Y − e^(gᵀα + A fᵀβ)) [g; (A − p̃) f]."""
    return _make_log_linear(batch, weighted=True)


def make_emee2(batch: ExcursionBatch) -> EstimatingFunction:
    """EMEE2: I (e^(−(A − p) fᵀβ) Y − e^(gᵀα)) [g; (A − p) f], without weights."""
    return _make_log_linear(batch, weighted=False)


def _make_log_linear(batch: ExcursionBatch, *, weighted: bool) -> EstimatingFunction:
    """weight (e^(−moved fᵀβ) Y − e^(gᵀα)) [g; centred f], from α₀ = log of the mean outcome.

    With weights the leverage is that of the fitted mean e^(gᵀα + moved fᵀβ), times the e^(−moved fᵀβ) that the multiplier
    leaves out.
    """
    scaled, names, back = _standardise(batch)
    weight = scaled.weight if weighted else scaled.future * scaled.observation_weight
    moved = scaled.treated if weighted else scaled.treated - scaled.send_probability
    centred = moved - scaled.numerator[1:] if weighted else moved
    q = len(scaled.control_names)
    mean = np.average(scaled.outcome, weights=weight)
    if not 0 < mean < 1:
        raise InputError(f"the outcome is {mean:g} at every row that counts; a relative risk needs both 0 and 1")

    def evaluate(theta: Floats, rows: slice) -> Evaluation:
        g = scaled.controls[:, rows]
        f = _cross(moved[:, rows], scaled.moderators[:, rows])
        base = np.exp(theta[:q] @ g)
        removed = np.exp(-(theta[q:] @ f)) * scaled.outcome[rows]
        multiplier = weight[rows] * np.concatenate([g, _cross(centred[:, rows], scaled.moderators[:, rows])])
        slope = np.concatenate([base * g, removed * f])
        leverage = np.concatenate([base * g, base * f]) if weighted else slope
        return Evaluation(multiplier, removed - base, slope, leverage)

    start = np.array([np.log(mean), *np.zeros(len(names) - 1)])
    return EstimatingFunction(scaled, names, evaluate, start, back, batch.control_names)


def make_mean(batch: ExcursionBatch) -> EstimatingFunction:
    """The mean outcome of the trial, Y − μ at all rows with an outcome, whatever was sent."""
    known = batch.take(~np.isnan(batch.outcome))
    ones = np.ones((1, len(known)))

    def evaluate(theta: Floats, rows: slice) -> Evaluation:
        design = ones[:, rows]
        return Evaluation(design, known.outcome[rows] - theta @ design, design, design)

    return EstimatingFunction(known, ("mean outcome",), evaluate, np.zeros(1), np.eye(1), ("mean outcome",))


def fit_least_squares(design: Floats, outcome: Floats) -> Floats:
    """Of the outcome on columns (d, rows)."""
    scaling = find_standardiser(design)
    scaled = scaling @ design
    return np.asarray(scaling.T @ np.linalg.lstsq(scaled @ scaled.T, scaled @ outcome, rcond=None)[0])


@dataclass(frozen=True)
class Estimator:
    """One line of the registry."""

    label: str
    estimand: str
    make: Callable[[ExcursionBatch], EstimatingFunction]
    binary: bool = False
    """Whether the outcome must be 0 or 1, and the effect is a log relative risk."""
    several_by: str | None = None  # The estimator for several treatments, where this one takes a single one.
    distal: bool = False
    """Whether a participant has one outcome, at the end; its published covariance is not corrected for small samples."""
    learns: bool = False
    """Whether a regressor first predicts the outcome."""
    weighs: bool = True
    """Whether rows have weights p̃(A)/p(A)."""
    parts: tuple[str, ...] = ()
    """Parts of the effect that add up to the whole, in the order of its coefficients: direct and indirect."""


ESTIMATORS = {  # `distal` adds those of one outcome at the end.
    "wcls": Estimator("weighted and centred least squares", "difference of means", make_linear),
    "dr-wcls": Estimator("doubly robust WCLS", "difference of means", make_linear, learns=True),
    "emee": Estimator("EMEE", "log relative risk", make_emee, binary=True),
    "emee2": Estimator("EMEE2", "log relative risk", make_emee2, binary=True, several_by="emee", weighs=False),
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
    plain = make_linear(batch)
    all_rows = slice(0, len(plain.batch))
    theta = find_root(plain, [all_rows])
    rows = plain.evaluate(theta, all_rows)
    scale = MAD_TO_STANDARD_DEVIATION * np.median(np.abs(rows.residual - np.median(rows.residual)))
    if scale == 0:
        raise InputError("more than half of the residuals are equal: there is no robust scale; leave the robust losses out")

    def influence(residuals: Floats) -> tuple[Floats, Floats]:
        value, derivative = ROBUST_LOSSES[loss][1](residuals / scale)
        return scale * value, derivative

    # Least squares with weights ψ(r)/r descend for every loss, where Newton's steps may not.
    residual = rows.residual
    for _ in range(WEIGHTING_STEPS):
        value, _ = influence(residual)
        multiplier = rows.multiplier * np.divide(value, residual, out=np.ones_like(value), where=residual != 0)
        bread = multiplier @ rows.slope.T
        _refuse_singular(bread, plain.names)
        step = np.linalg.solve(bread, multiplier @ residual)
        theta = theta + step
        residual = residual - step @ rows.slope
        if np.abs(step).max() <= 1e-9 * (1 + np.abs(theta).max()):
            break
    return solve(replace(make_linear(batch, influence), start=theta))
