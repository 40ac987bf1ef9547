"""Trials with several treatments, whose probabilities may differ between decision points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from surefoot.errors import InputError
from surefoot.sample_size.designs import Design, Matrix, OverDays, SampleSize, Schedule

COMPARISONS = ("nothing", "each other")


def several_arms(
    days: int,
    decisions_per_day: int,
    *,
    effects: Mapping[str, OverDays],
    probabilities: Mapping[str, ArrayLike],
    compare: str = "nothing",
    baseline: OverDays | None = None,
    availability: OverDays = 1.0,
    sd: float = 1.0,
    numerator: Sequence[float] | None = None,
    test: str = "constant",
    controls: int = 3,
    power: float | None = None,
    people: int | None = None,
    level: float = 0.05,
) -> SampleSize:
    """Find the number of people, or the power, of a joint F test of several treatments (arXiv 2504.15484, 2203.14914).

    With ρ the probabilities of the treatments at a decision point, e_a the unit vector of action a (0 for nothing), p̃ the
    numerator and v_a the variance of an outcome after a: the bread is Σ τ m (diag p̃ − p̃p̃ᵀ) ⊗ ZZᵀ, the meat
    Σ τ Σ_a p̃_a²/ρ_a v_a (e_a − p̃)(e_a − p̃)ᵀ ⊗ ZZᵀ, and the non-centrality N (Lβ)ᵀ(L Σ Lᵀ)⁻¹ Lβ. For a continuous outcome
    m = 1 and v_a = 1; for one that is 0 or 1, m = μ₀ and v_a = μ₀ e^(−Zᵀβ_a) − μ₀².

    Parameters
    ----------
    days, decisions_per_day, availability, sd, test, controls, power, people, level
        As in `continuous`.
    effects
        Of each treatment compared with nothing, by its name; given as `effect` is in `continuous`.
    probabilities
        Of each treatment: a number, or one for each day or decision point; 0 until the treatment is added.
    compare
        `nothing`: does any treatment have an effect? `each other`: do the treatments differ?
    baseline
        The probability of an outcome of 1 without treatment. Effects are then log relative risks.
    numerator
        p̃ of each treatment, if the analysis uses constant ones; the probabilities themselves unless given.

    Returns
    -------
    SampleSize

    Examples
    --------
    >>> from surefoot.sample_size import several_arms
    >>> effects = {"walk": 0.1, "rest": 0.05}
    >>> several_arms(42, 5, effects=effects, probabilities={"walk": 0.3, "rest": 0.3}, availability=0.7).people
    42
    """
    if set(effects) != set(probabilities):
        raise InputError(
            f"effects name {sorted(effects)} and probabilities {sorted(probabilities)}; name the same treatments"
        )
    if compare not in COMPARISONS:
        raise InputError(f"compare is '{compare}'; choose from {list(COMPARISONS)}")
    if compare == "each other" and len(effects) < 2:
        raise InputError("one treatment has no other to be compared with; compare it with 'nothing'")
    if not sd > 0:
        raise InputError(f"sd is {sd:g}; it must be above 0")
    schedules = {
        name: Schedule(days, decisions_per_day, 0.5, effect, availability, test) for name, effect in effects.items()
    }
    schedule = next(iter(schedules.values()))
    chances = np.stack([schedule.expand(probabilities[name], f"probability of {name}") for name in effects])
    if (chances < 0).any() or not (chances.sum(axis=0) < 1).all() or not chances.any(axis=1).all():
        raise InputError("probabilities of treatments lie between 0 and 1, and leave something for no treatment")
    basis = schedule.basis
    tau = schedule.availability.values
    coefficients = np.concatenate(
        [
            _project(basis, tau * (chance > 0), plan.effect.values)
            for chance, plan in zip(chances, schedules.values(), strict=True)
        ]
    )
    weights = chances if numerator is None else _spread(numerator, chances)
    first = np.kron(np.eye(len(effects) - 1, len(effects), 1) - np.eye(1, len(effects)), np.eye(basis.shape[1]))
    contrast = first if compare == "each other" else np.eye(len(coefficients))
    base = None if baseline is None else schedule.read_trend("baseline", baseline)

    def find_noncentrality(scale: float) -> float:
        beta = scale * coefficients / (sd if base is None else 1.0)
        change = beta.reshape(len(effects), -1) @ basis.T
        mean = np.ones(len(tau)) if base is None else base.values
        variances = np.ones((len(effects) + 1, len(tau)))
        if base is not None:
            if (mean * np.exp(np.maximum(change, 0)) >= 1).any():
                raise InputError("with these effects the probability of the outcome would exceed 1; check both")
            variances = mean * np.exp(-np.concatenate([np.zeros((1, len(tau))), change])) - mean**2
        covariance = _find_covariance(basis, tau, chances, weights, mean, variances)
        tested = contrast @ beta
        return float(tested @ np.linalg.solve(contrast @ covariance @ contrast.T, tested))

    means = {name: plan.mean_effect for name, plan in schedules.items()}
    largest = max(means.values(), key=abs)
    kind = "effects" if base is None else "log relative risks"
    words = ", ".join(f"{name} {mean:.3g}" for name, mean in means.items())
    against = "compared with nothing" if compare == "nothing" else "and their differences from each other"
    ranges = [
        f"{name} {chance.min():g}" + ("" if np.ptp(chance) == 0 else f" to {chance.max():g}")
        for name, chance in zip(effects, chances, strict=True)
    ]
    design = Design(
        noncentrality=find_noncentrality,
        tested=len(contrast),
        effects=len(coefficients),
        controls=controls,
        level=level,
        effect=largest,
        effect_words=f"mean {kind} {words} ({against}; standard deviation of the outcome {sd:.3g})",
        assumptions=(
            f"{schedule.days} days with {schedule.decisions_per_day} decision points each",
            f"probabilities {', '.join(ranges)}",
            f"expected availability {schedule.availability.words}",
            "the same effects for everybody",
            f"{controls} control coefficients",
            "outcomes of one participant independent given the controls",
        ),
    )
    return design.settle(power, people)


def _project(basis: Matrix, weight: Matrix, effect: Matrix) -> Matrix:
    """The effect as a combination of the tested columns, where the treatment is possible."""
    weighted = weight[:, None] * basis
    try:
        return np.asarray(np.linalg.solve(weighted.T @ basis, weighted.T @ effect))
    except np.linalg.LinAlgError:
        raise InputError("a treatment is possible on too few days for this test; test a constant effect") from None


def _spread(numerator: Sequence[float], chances: Matrix) -> Matrix:
    """Constant p̃ at every decision point."""
    shares = np.asarray(numerator, dtype=np.float64)
    if shares.shape != (len(chances),) or not ((shares > 0).all() and shares.sum() < 1):
        raise InputError(f"numerator is {list(numerator)}; give a number between 0 and 1 for each treatment, below 1 in sum")
    if not (chances > 0).all():
        raise InputError("a constant numerator needs every treatment at every decision point; leave the numerator out")
    return np.repeat(shares[:, None], chances.shape[1], axis=1)


def _find_covariance(
    basis: Matrix, tau: Matrix, chances: Matrix, weights: Matrix, mean: Matrix, variances: Matrix
) -> Matrix:
    """Of √N β̂, treatment by treatment."""
    arms = len(chances)
    size = arms * basis.shape[1]
    used = np.concatenate([1 - weights.sum(axis=0, keepdims=True), weights])
    drawn = np.concatenate([1 - chances.sum(axis=0, keepdims=True), chances])
    units = np.concatenate([np.zeros((1, arms)), np.eye(arms)])
    centred = units[:, :, None] - weights
    factor = np.divide(used**2, drawn, out=np.zeros_like(drawn), where=drawn > 0) * variances
    bread = np.einsum("t,at,ajt,akt->jkt", tau * mean, used, centred, centred)
    meat = np.einsum("t,at,ajt,akt->jkt", tau, factor, centred, centred)
    outer = np.einsum("tp,tq->pqt", basis, basis)
    bread = np.einsum("jkt,pqt->jpkq", bread, outer).reshape(size, size)
    meat = np.einsum("jkt,pqt->jpkq", meat, outer).reshape(size, size)
    half = np.linalg.solve(bread, meat)
    return np.asarray(np.linalg.solve(bread, half.T))
