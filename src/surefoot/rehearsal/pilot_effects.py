"""The effects of sending in a pilot, now and later, with the uncertainty of few people.

All regressions are linear, within people (everybody has a level of their own), and use the action less its probability:
randomisation makes the effects consistent whatever else the outcome depends on. With z a state variable in its standard
deviations, c the time of day and the day, D_ρ the dose of earlier prompts with memory ρ, D̄_ρ its mean in the pilot:

    z_{t+1} = level + φ z_t + β a_t + cᵀw + noise
    y_t     = level + γᵀ z_t + η D_ρ,t + cᵀv + a_t (θ + κᵀ z_t + λ (D_ρ,t − D̄_ρ) + bᵢ) + noise

A binary outcome, and whether an outcome with many zeros is positive, is regressed in the same way (a linear probability).
The dose has several memories, from the last prompt alone to weeks, with slopes that are common to all people. κ, η and λ
have normal priors around 0; responses of states are weighted by their posterior probability ("none" against a normal prior).
Uncertainty is that of refits to resampled participants with prior means drawn from the priors: draws from the posterior.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.inference.intervals import Interval, t_interval
from surefoot.rehearsal.pilot_data import PilotArrays, add_doses

Floats = NDArray[np.float64]
MEMORIES = (0.0, 0.9, 0.97)
"""Memories ρ of the dose of earlier prompts: the last prompt alone, or a share of the dose left one decision point later."""
NO_RESPONSE = 0.5
"""Prior probability that prompts do not move a state variable."""
DOSE_PRIOR = 0.25
"""Prior standard deviation of the effect of all earlier prompts, as often as in the pilot, in spreads of the outcome, …"""
RESPONSE_PRIOR = 0.3
"""… of the response of a state variable to a prompt, in its spreads."""
MODERATOR_PRIOR = 0.15
"""… of the moderation by a state variable, in spreads of the outcome."""
TIRING_PRIOR = 0.1
"""… of the moderation by the usual dose of earlier prompts, in spreads of the outcome."""
STATE_ROWS = 10.0
"""Decision points' worth of pull towards 0 of the outcome's coefficients on state variables."""
MOST_CARRIED = 0.97
"""A state variable carries over at most this share of its score."""
FAR_OUT = 5.0
"""Outcomes further from the quartiles than this number of their distances count as if they lay there."""
RESAMPLES = 200
SIZEABLE = 0.1
"""Effects of earlier prompts above this number of spreads of the outcome matter."""


class WithinRegression(NamedTuple):
    """Cross-products of every participant, from which a refit to resampled participants is one small solve."""

    xx: Floats
    """(people, d, d)."""
    xy: Floats
    """(people, d)."""

    @classmethod
    def of_rows(cls, columns: list[Floats], y: Floats, weight: Floats) -> "WithinRegression":
        """From columns and outcomes (people, decision points), less everybody's means; weight 0 where unknown."""
        count = np.maximum(weight.sum(axis=1), 1.0)[:, None]

        def within(values: Floats) -> Floats:
            known = np.where(weight > 0, values, 0.0)
            return np.asarray(weight * (known - known.sum(axis=1, keepdims=True) / count))

        x = np.stack([within(column) for column in columns], axis=-1)
        return cls(np.einsum("ptd,pte->pde", x, x), np.einsum("ptd,pt->pd", x, within(y)))

    def solve(self, counts: Floats, penalty: Floats, prior_means: Floats | float = 0.0) -> Floats:
        """Coefficients for every row of counts of participants, pulled towards their prior means, (refits, d)."""
        xx = np.einsum("rp,pde->rde", counts, self.xx)
        xy = np.einsum("rp,pd->rd", counts, self.xy) + penalty * prior_means
        trace = 1e-8 * np.einsum("rdd->r", xx)[:, None] + 1e-9
        diagonal = (penalty + trace)[..., None] * np.eye(len(penalty))
        return np.asarray(np.linalg.solve(xx + diagonal, xy[..., None])[..., 0])


def weigh_slab(estimate: float, variance: float, prior: float) -> tuple[float, float]:
    """log of the Bayes factor of an effect ~ N(0, prior²) against none, and the share of the estimate that it keeps."""
    share = prior**2 / (prior**2 + variance) if variance > 0 else 1.0
    return 0.5 * share * estimate**2 / max(variance, 1e-300) + 0.5 * float(np.log(max(1 - share, 1e-12))), share


@dataclass(frozen=True, eq=False)
class OutcomeEffects:
    """Effects on one part of the outcome, (models, …): `now` θ; for all state columns, then the doses of all memories,
    `moderation` (κ, λ) and `lasting` (γ, η), the effect without a prompt.

    `deviation` is everybody's shrunken deviation from θ with its standard deviation, (people,); `fitted` and `residual` are
    those of the pilot, (people, decision points).
    """

    now: Floats
    moderation: Floats
    lasting: Floats
    deviation: Floats
    deviation_error: Floats
    fitted: Floats
    residual: Floats


@dataclass(frozen=True, eq=False)
class PilotEffects:
    """The effects of prompts in a pilot, now and later, with their uncertainty.

    Model 0 is the estimate; the others are draws from its uncertainty, each refitted to resampled participants.
    """

    carried: Floats
    """φ, (models, state columns)."""
    response: Floats
    """β, (models, state columns)."""
    parts: tuple[OutcomeEffects, ...]
    """The outcome; for outcomes with many zeros whether it is positive, and the amount."""
    rate: float
    """Prompts for each decision point in the pilot."""
    doses: Floats
    """The mean dose of every memory in the pilot, (memories,)."""
    most: Floats
    """The largest dose seen, (memories,)."""
    people: int
    """In the pilot."""
    scale: tuple[float, ...]
    """The change of the mean outcome for a change of 1 in every part."""
    spread: float
    """Standard deviation of the outcome at available decision points."""

    def _interval(self, values: Floats) -> Interval:
        return t_interval(float(values[0]), float(values[1:].std(ddof=1)), self.people - 1)

    @property
    def now(self) -> Interval:
        """The effect of a prompt on the mean outcome at once."""
        return self._interval(np.sum([unit * part.now for unit, part in zip(self.scale, self.parts, strict=True)], axis=0))

    @property
    def later(self) -> Interval:
        """The effect of all earlier prompts, as often as in the pilot, on the mean outcome."""
        moved = self.response / (1 - self.carried) * self.rate
        exposure = np.column_stack([moved, np.broadcast_to(self.doses, (len(moved), len(self.doses)))])
        effects = [(exposure * (part.lasting + self.rate * part.moderation)).sum(axis=1) for part in self.parts]
        return self._interval(np.sum([unit * effect for unit, effect in zip(self.scale, effects, strict=True)], axis=0))

    @property
    def later_is_unclear(self) -> bool:
        """Whether the pilot can tell neither that earlier prompts matter nor that they do not."""
        later = self.later
        return not later.excludes_zero and max(-later.low, later.high) > SIZEABLE * self.spread


def fit_effects(
    data: PilotArrays,
    scores: Floats,
    moving: NDArray[np.bool_],
    parts: list[Floats],
    scale: tuple[float, ...],
    rng: np.random.Generator,
    draws: int = RESAMPLES,
) -> PilotEffects:
    """From scores of the state columns (columns, people, decision points) and the parts of the outcome, NaN where unknown.

    State columns that are not `moving` (levels of categories) are taken as they were.
    """
    people = len(data.participants)
    # With streams of their own the first draws are the same however many there are.
    resampling, including, *priors = rng.spawn(2 + len(parts))
    resampled = resampling.multinomial(people, np.full(people, 1 / people), size=draws)
    counts = np.concatenate([np.ones((1, people)), resampled])
    inflation = np.sqrt(people / max(people - 1, 1))
    chance = including.random((draws, len(scores)))
    doses = add_doses(data.sent, MEMORIES)
    seen = data.present
    responses = [
        _fit_response(data, column, counts, inflation, chance[:, number])
        if moving[number]
        else (np.zeros(draws + 1), np.zeros(draws + 1))
        for number, column in enumerate(scores)
    ]
    carried, response = np.reshape(responses, (-1, 2, draws + 1)).transpose(1, 2, 0)
    spread = float(np.nanstd(data.outcome[data.available]))
    usual = np.array([dose[seen].mean() for dose in doses])
    outcome = [
        _fit_part(data, scores, part, usual, counts, inflation, prior) for part, prior in zip(parts, priors, strict=True)
    ]
    return PilotEffects(
        carried=carried,
        response=response,
        parts=tuple(outcome),
        rate=float(data.sent[seen].mean()),
        doses=usual,
        most=np.array([dose[seen].max() for dose in doses]),
        people=people,
        scale=scale,
        spread=spread,
    )


def _fit_response(
    data: PilotArrays, scores: Floats, counts: Floats, inflation: float, chance: Floats
) -> tuple[Floats, Floats]:
    """φ and β of one state column, of the estimate and of every draw."""
    after = scores[:, 1:]
    before = scores[:, :-1]
    weight = (data.present[:, 1:] & ~np.isnan(after) & ~np.isnan(before)).astype(np.float64)
    clock = [column[:, 1:] for column in data.clock]
    regression = WithinRegression.of_rows([before, data.centred[:, :-1], *clock], after, weight)
    coefficients = regression.solve(counts, np.zeros(2 + len(clock)))
    # Levels of people's own pull φ down by about (1 + φ) / T.
    length = max(float(weight.sum(axis=1).mean()), 2.0)
    carried = (coefficients[:, 0] + (1 + coefficients[:, 0]) / length).clip(-MOST_CARRIED, MOST_CARRIED)
    estimate = coefficients[0, 1]
    moved = inflation * (coefficients[1:, 1] - estimate)
    log_factor, share = weigh_slab(estimate, float(moved[:RESAMPLES].var()), RESPONSE_PRIOR * float(np.nanstd(scores)))
    posterior = (1 - NO_RESPONSE) / (1 - NO_RESPONSE + NO_RESPONSE * np.exp(-min(log_factor, 50.0)))
    drawn = np.where(chance < posterior, share * estimate + np.sqrt(share) * moved, 0.0)
    return carried, np.concatenate([[posterior * share * estimate], drawn])


def _fit_part(
    data: PilotArrays,
    scores: Floats,
    y: Floats,
    usual: Floats,
    counts: Floats,
    inflation: float,
    rng: np.random.Generator,
) -> OutcomeEffects:
    """The regression of one part of the outcome, of the estimate and of every draw."""
    weight = (data.present & ~np.isnan(y)).astype(np.float64)
    low, high = np.quantile(y[weight > 0], (0.25, 0.75))
    if high > low:
        # Single values that no screen found must not decide an effect.
        y = np.clip(y, low - FAR_OUT * (high - low), high + FAR_OUT * (high - low))
    filled = [fill_with_means(column) for column in scores]
    centred = data.centred
    unusual = add_doses(data.sent, MEMORIES) - usual[:, None, None]
    groups = {
        "now": [centred],
        "moderation": [centred * column for column in (*filled, *unusual)],
        "lasting": [*filled, *add_doses(centred, MEMORIES)],
        "controls": [*data.clock, data.available.astype(np.float64)],
    }
    # In units of the noise; the priors of doses are those of the effect of the usual dose of each memory.
    penalty = np.concatenate(
        [
            [0.0],
            [1 / MODERATOR_PRIOR**2] * len(filled),
            (usual / TIRING_PRIOR) ** 2,
            [STATE_ROWS] * len(filled),
            (usual / DOSE_PRIOR) ** 2,
            [1e-2] * len(groups["controls"]),
        ]
    )
    x = np.stack([column for columns in groups.values() for column in columns], axis=-1)
    regression = WithinRegression.of_rows(list(np.moveaxis(x, -1, 0)), y, weight)
    estimate = regression.solve(counts[:1], penalty)
    linear = x @ estimate[0]
    fitted = average_people(np.where(weight > 0, y - linear, np.nan))[:, None] + linear
    residual = np.where(weight > 0, y - fitted, np.nan)
    prior_spread = float(np.nanstd(residual)) / np.sqrt(np.maximum(penalty, 1.0))
    drawn = regression.solve(counts[1:], penalty, prior_spread * rng.standard_normal((len(counts) - 1, len(penalty))))
    refits = np.concatenate([estimate, estimate + inflation * (drawn - estimate)])
    ends = np.cumsum([len(columns) for columns in groups.values()])
    effects = dict(zip(groups, np.split(refits, ends[:-1], axis=1), strict=True))
    deviation, deviation_error = _fit_own_effects(centred * weight, residual)
    # Within the regression states and doses have their effect at the pilot's mean probability.
    mean = float(data.probability[weight > 0].mean())
    return OutcomeEffects(
        now=effects["now"][:, 0],
        moderation=effects["moderation"],
        lasting=effects["lasting"] - mean * effects["moderation"],
        deviation=deviation,
        deviation_error=deviation_error,
        fitted=fitted,
        residual=residual,
    )


def _fit_own_effects(centred: Floats, residual: Floats) -> tuple[Floats, Floats]:
    """Everybody's deviation from the mean effect, pulled towards 0 as far as chance alone makes them differ."""
    squares = (centred**2).sum(axis=1)
    known = squares > 0
    raw = np.where(known, np.nansum(centred * residual, axis=1) / np.where(known, squares, 1.0), 0.0)
    noise = float(np.nanmean(residual**2))
    variance = np.where(known, noise / np.where(known, squares, 1.0), np.inf)
    # Weighted by what is known of everybody, so that outcomes without noise divide by nothing.
    between = max(float((squares * raw**2).sum()) - noise * known.sum(), 0.0) / max(float(squares.sum()), 1e-300)
    share = between / (between + variance) if between > 0 else np.zeros(len(raw))
    deviation = share * raw
    return deviation - deviation.mean(), np.sqrt(between * (1 - share))


def fill_with_means(values: Floats) -> Floats:
    """Missing values become their participant's mean, or that of all."""
    return np.where(np.isnan(values), average_people(values)[:, None], values)


def average_people(values: Floats) -> Floats:
    """Everybody's mean of known values; that of all for people without any."""
    known = ~np.isnan(values)
    total = np.where(known, values, 0.0).sum(axis=1)
    count = known.sum(axis=1)
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), total.sum() / max(count.sum(), 1)))
