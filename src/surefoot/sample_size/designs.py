"""Designs for continuous and for binary outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surefoot.errors import InputError
from surefoot.sample_size.power import Design, SampleSize, settle
from surefoot.sample_size.trends import Calendar, Trend, trend

Matrix = NDArray[np.float64]
OverDays = ArrayLike | Mapping[str, float]
"""A number; one for every day or decision point; or {mean, initial, peak_day} of a linear or quadratic trend."""


SMALLEST_EFFECT = 0.005
"""In standard deviations of the outcome; no trial is planned for less."""


@dataclass(frozen=True)
class Moderator:
    """A variable that changes the effect, independent of time: by `effect` for one more of it.

    Attributes
    ----------
    name
        What the text calls it.
    effect
        By how much the effect grows for one more of it.
    sd
        Of the variable over decision points; √(share (1 − share)) for a yes/no variable.
    """

    name: str
    effect: float
    sd: float


@dataclass(frozen=True)
class _Setting:
    """What both kinds of outcome have in common, one value for each decision point."""

    calendar: Calendar
    probability: Matrix
    availability: Trend
    effect: Trend
    basis: Matrix

    @property
    def coefficients(self) -> Matrix:
        """The effect as a combination of the tested columns: (Σ τ ZZᵀ)⁻¹ Σ τ Z d(t)."""
        weighted = self.availability.values[:, None] * self.basis
        return np.asarray(np.linalg.solve(weighted.T @ self.basis, weighted.T @ self.effect.values))

    @property
    def information(self) -> Matrix:
        """τ ρ(1 − ρ) of every decision point."""
        return np.asarray(self.availability.values * self.probability * (1 - self.probability))

    @property
    def mean_effect(self) -> float:
        return float(np.average(self.effect.values, weights=self.availability.values))

    def spread_covariance(self, spread: float) -> Matrix:
        """σ_b² ccᵀ with Zc = 1: what effects that differ between people add to the covariance."""
        if not spread:
            return np.zeros((self.basis.shape[1],) * 2)
        combination, *_ = np.linalg.lstsq(self.basis, np.ones(len(self.basis)), rcond=None)
        if np.abs(self.basis @ combination - 1).max() > 1e-9:
            raise InputError("effect_sd needs an intercept among the tested columns; add one to `test`")
        return np.asarray(spread**2 * np.outer(combination, combination))

    @property
    def assumptions(self) -> tuple[str, ...]:
        p = self.probability
        calendar = self.calendar
        chance = f"{p[0]:g}" if np.ptp(p) == 0 else f"{p.min():g} to {p.max():g}"
        return (
            f"{calendar.days} days with {calendar.decisions_per_day} decision points each",
            f"randomisation probability {chance}",
            f"expected availability {self.availability.words}",
        )


def _setting(
    days: int,
    decisions_per_day: int,
    probability: ArrayLike,
    effect: OverDays,
    availability: OverDays,
    test: str | ArrayLike | None,
) -> _Setting:
    calendar = Calendar(days, decisions_per_day)
    chance = calendar.expand(probability, "probability")
    if not ((chance > 0) & (chance < 1)).all():
        raise InputError("a randomisation probability lies strictly between 0 and 1")
    change = trend(calendar, "effect", effect)
    present = trend(calendar, "availability", availability)
    if not ((present.values > 0) & (present.values <= 1 + 1e-12)).all():
        raise InputError("expected availability lies above 0 and at most at 1 on every day; correct its trend")
    return _Setting(calendar, chance, present, change, calendar.basis(change.shape if test is None else test))


def continuous(
    days: int,
    decisions_per_day: int,
    *,
    effect: OverDays,
    probability: ArrayLike = 0.5,
    availability: OverDays = 1.0,
    sd: float = 1.0,
    effect_sd: float = 0.0,
    moderators: Sequence[Moderator] = (),
    test: str | ArrayLike | None = None,
    test_moderators: bool = False,
    controls: int = 3,
    power: float | None = None,
    people: int | None = None,
    level: float = 0.05,
) -> SampleSize:
    """People for a power (0.8 unless given), or the power with so many `people`, for a continuous outcome.

    With Z the tested columns, τ availability and ρ the probability: Q = Σ τ ρ(1 − ρ) ZZᵀ, d = (Σ τ ZZᵀ)⁻¹ Σ τ Z d(t) in
    units of `sd`; the test is F(p, N − p − q) with non-centrality N dᵀ(Q⁻¹ + σ_b² ccᵀ)⁻¹d, Zc = 1.

    Parameters
    ----------
    days, decisions_per_day
        Of the trial.
    effect
        A number, one for each day or decision point, or {"mean": …, "initial": …, "peak_day": …}: linear with this mean
        over the days and this value on day 1, quadratic with its extreme on that day. In the outcome's units; with sd = 1
        standardised.
    probability
        Of treatment: a number, or one for each day or decision point.
    availability
        The expected share of available decision points; given as `effect` is.
    sd
        Of the outcome given the controls.
    effect_sd
        σ_b: how much the effect differs between people, in the outcome's units.
    moderators, test_moderators
        Variables that change the effect; tested with the effect, or alone.
    test
        Which shape of effect is tested: `constant`, `linear`, `quadratic` or a matrix; the effect's own unless given.
    controls
        q, how many coefficients the controls have, with the intercept.
    power, people
        Wanted power, or the number of people whose power is asked.
    level
        Of the test.

    Returns
    -------
    SampleSize

    Examples
    --------
    >>> from surefoot.sample_size import continuous
    >>> growing = {"mean": 0.1, "initial": 0.0, "peak_day": 29}
    >>> continuous(42, 5, effect=growing, probability=0.4, availability=0.7).people
    32
    """
    if not (sd > 0 and effect_sd >= 0):
        raise InputError(f"sd is {sd:g} and effect_sd {effect_sd:g}; sd must be above 0 and effect_sd not below")
    if test_moderators and not moderators:
        raise InputError("there are no moderators to test; name them")
    setting = _setting(days, decisions_per_day, probability, effect, availability, test)
    if not test_moderators:
        _refuse_absurd(setting.mean_effect, sd)
    average = 0.0 if test_moderators else _linear_noncentrality(setting, sd, effect_sd)
    # Centred, a moderator tells nothing about the average effect, nor that about the moderator.
    extra = sum(setting.information.sum() * (moderator.sd * moderator.effect / sd) ** 2 for moderator in moderators)
    design = Design(
        noncentrality=lambda scale: scale**2 * (average + extra),
        tested=len(moderators) + (0 if test_moderators else setting.basis.shape[1]),
        effects=setting.basis.shape[1] + len(moderators),
        controls=controls + len(moderators),
        level=level,
        effect=setting.mean_effect,
        effect_words=f"a mean effect of {setting.mean_effect:.3g} (standard deviation of the outcome {sd:.3g})",
        assumptions=(
            *setting.assumptions,
            f"effect {setting.effect.words}",
            _describe_spread("effect", effect_sd),
            *(
                f"{moderator.name} (standard deviation {moderator.sd:g}) changes the effect by {moderator.effect:g}"
                for moderator in moderators
            ),
            f"{controls} control coefficients",
            "outcomes of one participant independent given the controls",
        ),
    )
    return settle(design, power, people)


def _refuse_absurd(effect: float, sd: float) -> None:
    """Refuse an effect that was probably meant in standard deviations but is counted in the outcome's units."""
    if 0 < abs(effect) < SMALLEST_EFFECT * sd:
        reason = f"an effect of {effect:.3g} is {abs(effect) / sd:.2g} standard deviations of the outcome (sd {sd:.3g})"
        remedy = f"give it in the outcome's units, in which 0.1 standard deviations are {0.1 * sd:.3g}"
        raise InputError(f"{reason}, too small for any trial; {remedy}")


def _linear_noncentrality(setting: _Setting, sd: float, effect_sd: float) -> float:
    """dᵀ(Q⁻¹ + σ_b² ccᵀ)⁻¹d of one participant."""
    change = setting.coefficients / sd
    information = (setting.basis * setting.information[:, None]).T @ setting.basis
    noise = np.linalg.inv(information) + setting.spread_covariance(effect_sd / sd)
    return float(change @ np.linalg.solve(noise, change))


def _describe_spread(what: str, spread: float) -> str:
    if spread:
        return f"{what}s that differ between people with standard deviation {spread:.3g}"
    return f"the same {what} for everybody"


def binary(
    days: int,
    decisions_per_day: int,
    *,
    effect: OverDays,
    baseline: OverDays,
    probability: ArrayLike = 0.5,
    availability: OverDays = 1.0,
    effect_sd: float = 0.0,
    test: str | ArrayLike | None = None,
    controls: int = 3,
    power: float | None = None,
    people: int | None = None,
    level: float = 0.05,
) -> SampleSize:
    """As `continuous`, for an outcome that is 0 or 1; the effect is a log relative risk.

    M = Σ τ e^(ρfᵀβ) μ₀ ρ(1 − ρ) ffᵀ and Σ = Σ τ e^(2ρfᵀβ) μ₀ ρ(1 − ρ) [(1 − ρ) e^(−fᵀβ) + ρ − μ₀] ffᵀ; non-centrality
    N βᵀ(M⁻¹ΣM⁻ᵀ + σ_b² ccᵀ)⁻¹β.

    Parameters
    ----------
    baseline
        μ₀, the probability of 1 without treatment; given as `effect` is.
    days, decisions_per_day, effect, probability, availability, effect_sd, test, controls, power, people, level
        As in `continuous`.

    Returns
    -------
    SampleSize

    Examples
    --------
    >>> from surefoot.sample_size import binary
    >>> binary(30, 3, effect=0.2, baseline=0.3, probability=0.4, availability=0.8).people
    25
    """
    setting = _setting(days, decisions_per_day, probability, effect, availability, test)
    base = trend(setting.calendar, "baseline", baseline)
    mu = base.values
    if not ((mu > 0) & (mu < 1)).all():
        raise InputError("baseline is the probability of the outcome without treatment; it lies strictly between 0 and 1")
    design = Design(
        noncentrality=lambda scale: _log_linear_noncentrality(setting, mu, effect_sd, scale),
        tested=setting.basis.shape[1],
        effects=setting.basis.shape[1],
        controls=controls,
        level=level,
        effect=setting.mean_effect,
        effect_words=f"a mean log relative risk of {setting.mean_effect:.3g} "
        f"(relative risk {np.exp(setting.mean_effect):.3g})",
        assumptions=(
            *setting.assumptions,
            f"log relative risk {setting.effect.words}",
            f"probability of the outcome without treatment {base.words}",
            _describe_spread("log relative risk", effect_sd),
            f"{controls} control coefficients",
        ),
    )
    return settle(design, power, people)


def _log_linear_noncentrality(setting: _Setting, mu: Matrix, effect_sd: float, scale: float) -> float:
    """βᵀ(M⁻¹ΣM⁻ᵀ + σ_b² ccᵀ)⁻¹β of one participant, with β multiplied by `scale`."""
    tau = setting.availability.values
    rho = setting.probability
    f = setting.basis
    beta = scale * setting.coefficients
    change = f @ beta
    if (mu * np.exp(np.maximum(change, 0)) >= 1).any():
        raise InputError("with this effect the probability of the outcome would exceed 1 under treatment; check both")
    bread = (f * (tau * np.exp(rho * change) * mu * rho * (1 - rho))[:, None]).T @ f
    spread = tau * np.exp(2 * rho * change) * mu * rho * (1 - rho) * ((1 - rho) * np.exp(-change) + rho - mu)
    half = np.linalg.solve(bread, (f * spread[:, None]).T @ f)
    noise = np.linalg.solve(bread, half.T) + setting.spread_covariance(effect_sd)
    return float(beta @ np.linalg.solve(noise, beta))
