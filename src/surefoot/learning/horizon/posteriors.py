"""Partial pooling at work: what is believed of everybody's coefficients, and the advantages that follow from it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from surefoot.errors import FitWarning
from surefoot.learning.horizon.advantage import Advantage, long_run_advantage, posterior_advantage
from surefoot.learning.horizon.judgement import Judgement
from surefoot.learning.horizon.look_ahead import LookAhead, TransitionMoments, improve_policy
from surefoot.learning.horizon.uncertainty import OfPosteriors
from surefoot.learning.moments import Moments
from surefoot.learning.pooling.mixed_effects import Posterior
from surefoot.learning.pooling.random_walk import Walk, fit_random_walk
from surefoot.learning.pooling.reml import fit_mixed_effects
from surefoot.learning.priors import PlacedPrior

FEW_PEOPLE = 5
BORROWED_POINTS = 10.0
"""The logged share of an action is mixed with so many decision points of everybody's: few of one's own do not tell it."""


def fit_posteriors(
    moments: Moments,
    penalty: NDArray[np.float64],
    *,
    states: int,
    actions: int,
    correlated: bool,
    variance_left: float = 1.0,
    prior: PlacedPrior | None = None,
    walk: Walk | None = None,
) -> tuple[Posterior, ...]:
    """Of every response of everybody's moments on x(s, a), and nuisances after it; with a `walk` of everybody's
    last coefficients."""
    basis = centre_states(moments, states, actions)
    given = None if prior is None else (prior.mean, prior.scale)
    posteriors = tuple(
        fit_mixed_effects(
            *(moments, penalty),
            response=response,
            basis=basis,
            correlated=correlated,
            variance_left=variance_left,
            prior=given,
        )
        for response in range(moments.cross.shape[-1])
    )
    return (
        posteriors
        if walk is None
        else tuple(fit_random_walk(posterior, walk, response) for response, posterior in enumerate(posteriors))
    )


def estimate_variance_left(moments: Moments, threshold: NDArray[np.float64], penalty: NDArray[np.float64]) -> float:
    """Which share κ of the variance of normal noise a critic left, by where its limits lie among the residuals it kept.

    Noise N(0, σ²) cut at ± cσ keeps κ(c) σ² = (1 − 2cφ(c) / (2Φ(c) − 1)) σ²: ε / s² = c² / κ(c) tells c, with ε the limit of
    squared residuals and s² their variance, both of a typical participant. A cut also makes coefficients less certain than
    the rest of the noise says, by the same factor once more (Huber's E ψ² / (E ψ′)²).
    """
    d = moments.gram.shape[-1]
    coefficients = np.asarray(moments.solve(penalty)[0])[:, :, 0]
    squares = moments.squares[:, 0, 0] - (coefficients * moments.cross[:, :, 0]).sum(axis=1)
    free = moments.count - d
    informative = np.isfinite(threshold) & (free >= d) & (squares > 0)
    if not informative.any():
        return 1.0
    cut = np.linspace(0.5, 6.0, 1101)
    density = np.exp(-(cut**2) / 2) / np.sqrt(2 * np.pi)
    inside = erf(cut / np.sqrt(2))
    left = 1 - 2 * cut * density / inside
    return float(
        np.interp(np.median(threshold[informative] * free[informative] / squares[informative]), cut**2 / left, left)
    )


def centre_states(moments: Moments, states: int, actions: int) -> NDArray[np.float64]:
    """The columns in which people differ independently, in terms of x(s, a): states are taken from their mean.

    Then an intercept is what holds at the mean state, and where a state's zero lies (°C or °F) changes nothing.
    """
    total = np.asarray(moments.gram).sum(axis=0)
    size = states + 1
    basis = np.eye(len(total))
    for start in range(0, size * actions, size):
        basis[start, start + 1 : start + size] = -total[0, 1:size] / max(total[0, 0], 1.0)
    return basis


def immediate_advantages(posterior: Posterior, moments: Moments, actions: int) -> tuple[Advantage, Advantage]:
    """Of everybody, and of anybody else, in the next outcome alone; what each was learned from is everybody's."""
    count = np.full(len(posterior.mean), moments.count.sum())
    advantage = posterior_advantage(posterior.mean, posterior.covariance, actions, count)
    new_advantage = posterior_advantage(posterior.population[None], posterior.new_covariance[None], actions, count[:1])
    return advantage, new_advantage


@dataclass(frozen=True, eq=False)
class PeopleAhead:
    """A look-ahead for each participant, from partially pooled coefficients."""

    posteriors: tuple[Posterior, ...]
    model: LookAhead
    """Of every participant."""
    uncertainty: OfPosteriors
    population: LookAhead
    """Of β."""
    population_uncertainty: OfPosteriors
    """What is not known of β."""

    @classmethod
    def of_moments(
        cls,
        moments: TransitionMoments,
        penalty: NDArray[np.float64],
        actions: int,
        *,
        correlated: bool,
        variance_left: float,
        walks: tuple[Walk | None, Walk | None] = (None, None),
    ) -> PeopleAhead:
        """Fit the reward and every next state variable apart, and improve on everybody's logging policy; `walks` are of
        the reward and of the states."""
        design = {"states": moments.state.cross.shape[-1], "actions": actions, "correlated": correlated}
        posteriors = (
            *fit_posteriors(moments.reward, penalty, **design, variance_left=variance_left, walk=walks[0]),
            *fit_posteriors(moments.state, penalty, **design, walk=walks[1]),
        )
        everybody = moments.total().count_shares(actions)
        logged = moments.count_shares(actions)
        count = moments.state.count[:, None]
        shares = [
            (count * person_share + BORROWED_POINTS * population_share) / (count + BORROWED_POINTS)
            for person_share, population_share in zip(logged, everybody, strict=True)
        ]
        people = improve_policy(np.stack([posterior.mean for posterior in posteriors], axis=-1), *shares)
        beta = improve_policy(np.stack([posterior.population for posterior in posteriors], axis=-1)[None], *everybody)
        covariance = np.stack([posterior.covariance for posterior in posteriors], axis=1)
        of_population = np.stack([posterior.population_covariance for posterior in posteriors])[None]
        return cls(
            posteriors,
            people,
            OfPosteriors(covariance, between_people=False),
            beta,
            OfPosteriors(of_population, between_people=True),
        )

    def advantages(self, count: NDArray[np.float64]) -> tuple[Advantage, Advantage]:
        """Of everybody, and of anybody else; the reference action is everybody's, because one participant cannot tell."""
        total = count.sum()
        reference = long_run_advantage(self.population, self.population_uncertainty, count[:1]).reference
        spread = OfPosteriors(
            np.stack([posterior.new_covariance for posterior in self.posteriors])[None], between_people=False
        )
        advantage = long_run_advantage(self.model, self.uncertainty, np.full(len(count), total))
        new_advantage = long_run_advantage(self.population, spread, np.full(1, total))
        return replace(advantage, reference=np.repeat(reference, len(count))), replace(new_advantage, reference=reference)


def warn_of_few_people(posterior: Posterior, participants: NDArray[Any]) -> None:
    """When nothing, or little, is known of how people differ."""
    present = participants[np.asarray(posterior.likelihood.moments.count) > 0]
    if present.size == 1:
        text = (
            f"participant {present[0].item()!r}: nobody else has usable decision points, so how people differ cannot be "
            "told, and the policy for anybody is theirs"
        )
    elif present.size < FEW_PEOPLE:
        text = f"how people differ rests on {present.size} people and is a guess; from about {FEW_PEOPLE} on it can be told"
    elif not np.asarray(posterior.spread).any():
        text = "people do not differ in any coefficient of the reward as far as these logs tell: everybody has the same ones"
    else:
        return
    warnings.warn(text, FitWarning, stacklevel=6)


def clear_thresholds(judgement: Judgement) -> Judgement:
    """The same decision points, of one fit that no limit was made for."""
    return replace(
        judgement,
        threshold=np.full(1, np.inf),
        n_iter=judgement.n_iter.max(initial=1, keepdims=True),
        converged=np.ones(1, dtype=bool),
    )
