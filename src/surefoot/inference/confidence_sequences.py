"""Intervals and tests that stay valid however often one looks, for trials whose randomisation probabilities are known.

Decision points are taken in the order in which they were decided; F_k is everything up to the outcome of the k-th. Actions
are drawn with known probabilities π_k, which may depend on F_{k−1} in any way (adaptive and pooled policies), and decision
points of a participant may depend on each other. Then

    ψ_k = (p_k(A_k) − q_k(A_k)) / π_k(A_k) · (Y_k − m_k)   has the mean
    τ_k = Σ_a (p_k(a) − q_k(a)) E[Y_k(a) | F_{k−1}]   given F_{k−1},

whatever the baseline m_k that is known before the draw, so that Σ (ψ_k − τ_k) is a martingale. A confidence sequence covers
(τ_1 + … + τ_n) / n, the mean contrast of the decision points so far given their histories, for all n at once. The outcome of
a decision point must not depend on later actions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
ALPHA = 0.05
"""The probability that a confidence sequence ever misses."""
FIRST = 100
"""Scores before an asymptotic sequence begins: with fewer the normal approximation is poor."""
TIGHTEST = 2000
"""Scores at which an asymptotic sequence is narrowest; it changes little within a factor of ten."""
BURN_IN = 10
"""Outcomes that only serve to predict later ones."""
PRIOR_OUTCOMES = 5.0
"""How many outcomes of a participant the mean of everybody counts for."""
RATES = 0.5 ** np.arange(1, 13)
"""λ · bound of the sequences for bounded scores."""
TILTS = np.array([0.1, 0.2, 0.4, 0.8, 1.6, 3.2])
"""Changes of a log odds that the test of draws looks for, in both directions."""
LARGEST = 300.0
"""Of a log likelihood ratio: more is certain enough."""


@dataclass(frozen=True)
class ConfidenceSequence:
    """Estimates after 1, 2, … scores, each with its interval; NaN where there is none yet.

    `low` ≤ (τ_1 + … + τ_n) / n ≤ `high` for all n at once, with probability 1 − α.
    """

    mean: Floats
    """(ψ_1 + … + ψ_n) / n."""
    low: Floats
    """The lower end of the interval."""
    high: Floats
    """The upper end."""


def predict_outcomes(outcome: Floats, participant: Codes) -> Floats:
    """m_k: the mean of a participant's earlier outcomes, drawn towards that of everybody; NaN for the first few of all.

    m_k = (Σ own earlier outcomes + 5 · mean of all earlier outcomes) / (number of own + 5).

    >>> predict_outcomes(np.r_[np.zeros(10), 3.0, 1.0, 7.0], np.r_[np.zeros(10), 1.0, 1.0, 1.0].astype(int))[10:].round(3)
    array([0.   , 0.727, 0.81 ])
    """
    count = len(outcome)
    overall = (np.cumsum(outcome) - outcome) / np.maximum(np.arange(count), 1)
    order = np.argsort(participant, kind="stable")
    begins = np.flatnonzero(np.diff(participant[order], prepend=-1))
    person = np.repeat(np.arange(len(begins)), np.diff(np.append(begins, count)))
    before = np.cumsum(outcome[order]) - outcome[order]
    own_sum = np.empty(count)
    own_sum[order] = before - before[begins][person]
    own_count = np.empty(count)
    own_count[order] = np.arange(count) - begins[person]
    predicted = (own_sum + PRIOR_OUTCOMES * overall) / (own_count + PRIOR_OUTCOMES)
    predicted[:BURN_IN] = np.nan
    return predicted


def score_contrast(
    outcome: Floats, action: Codes, probabilities: Floats, target: Floats, reference: Floats, baseline: Floats
) -> tuple[Floats, Floats]:
    """ψ_k = (p_k(A_k) − q_k(A_k)) / π_k(A_k) · (Y_k − m_k) of every decision point, and its variance over the draw.

    The variance is (Y_k − m_k)² Σ_a (p_k(a) − q_k(a))² / π_k(a), as if the outcome did not depend on the action: a large
    outcome counts in it whatever was drawn.

    π, `target` p and `reference` q have the shape (n, actions); the baseline m must not depend on the action or on anything
    after it.

    >>> coin = np.array([[0.5, 0.5], [0.8, 0.2]])
    >>> effect = contrast_policies(coin, "effect")
    >>> scores, variances = score_contrast(np.array([3.0, 1.0]), np.array([1, 0]), coin, *effect, np.zeros(2))
    >>> print(scores, variances)
    [ 6.   -1.25] [36.    6.25]
    """
    rows = np.arange(len(action))
    residual = outcome - baseline
    weight = (target - reference) / probabilities
    return weight[rows, action] * residual, (weight**2 * probabilities).sum(axis=1) * residual**2


def contrast_policies(probabilities: Floats, contrast: str) -> tuple[Floats, Floats]:
    """p and q of a contrast.

    `effect`: sending anything, in the proportions of the policy, compared with sending nothing. `never` and `coin`: the
    policy that decided compared with never sending, or with every action being equally likely.

    >>> target, reference = contrast_policies(np.array([[0.5, 0.2, 0.3]]), "effect")
    >>> print(target, reference)
    [[0.  0.4 0.6]] [[1. 0. 0.]]
    """
    never = np.zeros_like(probabilities)
    never[:, 0] = 1.0
    if contrast == "coin":
        return probabilities, np.full_like(probabilities, 1 / probabilities.shape[1])
    if contrast == "never":
        return probabilities, never
    sending = probabilities - probabilities * never
    return sending / sending.sum(axis=1, keepdims=True), never


def asymptotic_sequence(
    scores: Floats, variances: Floats | None = None, alpha: float = ALPHA, first: int = FIRST
) -> ConfidenceSequence:
    """A confidence sequence for scores of any size, valid as n grows (Waudby-Smith et al., arXiv 2103.06476).

    The ends are, for n ≥ `first`,

        ψ̄_n ± √( 2 (V_n ρ² + 1) / ρ² · log( √(V_n ρ² + 1) / α ) ) / n,

    where Robbins' mixture of exp(λ Σ (ψ_k − τ_k) − λ² V_n / 2) over λ ~ N(0, ρ²) reaches 1/α. V_n is the larger of
    Σ_{k ≤ n} (ψ_k − ψ̄_n)² and Σ_{k ≤ n} `variances`. ρ² makes the sequence narrowest after `TIGHTEST` scores that vary as
    the first ones.

    >>> sequence = asymptotic_sequence(np.tile([0.0, 2.0], 500))
    >>> print(sequence.low[[98, 99, 999]].round(3), sequence.high[999].round(3))
    [  nan 0.544 0.903] 1.097
    """
    count = np.arange(1, len(scores) + 1)
    mean = np.cumsum(scores) / count
    # About a constant, so that the sum of squares is not a difference of large numbers.
    centre = mean[-1] if len(scores) else 0.0
    variation = np.maximum(np.cumsum((scores - centre) ** 2) - count * (mean - centre) ** 2, 0.0)
    if variances is not None:
        variation = np.maximum(variation, np.cumsum(variances))
    half = np.full(len(scores), np.nan)
    begun = (count >= first) & (variation > 0)
    if begun.any():
        start = int(begun.argmax())
        level = -2 * np.log(alpha)
        rho2 = (level + np.log(level) + 1) / (TIGHTEST * variation[start] / count[start])
        inside = variation[begun] * rho2 + 1
        half[begun] = np.sqrt(2 * inside / rho2 * np.log(np.sqrt(inside) / alpha)) / count[begun]
    return ConfidenceSequence(mean, mean - half, mean + half)


def bounded_sequence(scores: Floats, bound: float, alpha: float = ALPHA) -> ConfidenceSequence:
    """A confidence sequence for scores within ± `bound`, valid for every n (empirical Bernstein, Howard et al. 2021).

    For 0 ≤ λ < 1/c and |ψ| ≤ c, exp(λ (ψ − τ) − (−log(1 − λc) − λc) ψ² / c²) has a mean of at most 1 (Fan et al. 2015). So
    with α shared by two sides and J values of λ, `RATES` / c,

        |Σ (ψ_k − τ_k)| < min over λ of ( log(2 J / α) + (−log(1 − λc) − λc) Σ ψ_k² / c² ) / λ.

    >>> sequence = bounded_sequence(np.tile([-1.0, 1.0], 500), bound=1.0)
    >>> print(sequence.low[[0, 999]].round(3), sequence.high[999].round(3))
    [-13.734  -0.118] 0.118
    """
    count = np.arange(1, len(scores) + 1)
    mean = np.cumsum(scores) / count
    # Two equal policies have no contrast: every score is 0, and so is the bound.
    squares = np.cumsum((scores / (bound or 1.0)) ** 2)
    half = np.full(len(scores), np.inf)
    for rate in RATES:
        log_threshold = np.log(2 * len(RATES) / alpha)
        half = np.minimum(half, (log_threshold + (-np.log1p(-rate) - rate) * squares) / rate)
    half *= bound / count
    return ConfidenceSequence(mean, mean - half, mean + half)


def follow_contrast(
    outcome: Floats,
    action: Codes,
    probabilities: Floats,
    participant: Codes,
    contrast: str = "effect",
    outcome_range: tuple[float, float] | None = None,
    limits: tuple[float, float] | None = None,
    alpha: float = ALPHA,
) -> ConfidenceSequence:
    """The confidence sequence of a contrast, after each of these decision points in their order.

    Parameters
    ----------
    outcome, action, participant : (n,)
        Of decision points at which the action was drawn and the outcome is known.
    probabilities : (n, actions)
        With which the actions were drawn, all above 0.
    contrast
        One of those of `contrast_policies`.
    outcome_range
        The lowest and highest possible outcome. With it the sequence is `bounded_sequence`, else `asymptotic_sequence`.
    limits
        The lowest and highest probability of sending anything by design; a bounded sequence needs them.
    alpha
        The probability that the sequence ever misses.

    Returns
    -------
    ConfidenceSequence
        The interval after every decision point; none during the first `BURN_IN`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> walked, sent = (rng.integers(0, 2, 2000) for _ in range(2))
    >>> coin = np.full((2000, 2), 0.5)
    >>> effect = follow_contrast(walked * 1.0, sent, coin, np.arange(2000) % 20, outcome_range=(0, 1), limits=(0.5, 0.5))
    >>> bool(effect.low[-1] < 0 < effect.high[-1])
    True
    """
    target, reference = contrast_policies(probabilities, contrast)
    baseline = predict_outcomes(outcome, participant)[BURN_IN:]
    drawn = (outcome[BURN_IN:], action[BURN_IN:], probabilities[BURN_IN:])
    scores, variances = score_contrast(*drawn, target[BURN_IN:], reference[BURN_IN:], baseline)
    # With several actions one of them may be drawn as rarely as a policy likes, and a coin's weight has no bound.
    if outcome_range is None or limits is None or (contrast == "coin" and probabilities.shape[1] > 2):
        sequence = asymptotic_sequence(scores, variances, alpha)
    else:
        extremes = np.array([[1 - limit, limit] for limit in limits])
        allowed, compared = contrast_policies(extremes, contrast)
        largest = np.abs((allowed - compared) / extremes).max()
        # Probabilities from before an amendment may lie outside the limits.
        largest = np.abs((target - reference) / probabilities).max(initial=largest)
        sequence = bounded_sequence(scores, float(largest) * (outcome_range[1] - outcome_range[0]), alpha)
    # Nothing is known during the burn-in.
    unknown = np.full(min(BURN_IN, len(outcome)), np.nan)
    ends = (np.concatenate([unknown, values]) for values in (sequence.mean, sequence.low, sequence.high))
    return ConfidenceSequence(*ends)


def follow_logs(
    logs: Trajectories,
    contrast: str = "effect",
    outcome_range: tuple[float, float] | None = None,
    limits: tuple[float, float] | None = None,
    alpha: float = ALPHA,
) -> ConfidenceSequence:
    """`follow_contrast` of logs with two actions, in the order of their times; missing outcomes are left out.

    Parameters
    ----------
    logs
        Logs with the probabilities of the actions taken.
    contrast, outcome_range, limits, alpha
        As in `follow_contrast`.

    Returns
    -------
    ConfidenceSequence
        The interval after every decision point at which an action was drawn and the outcome is known.

    Examples
    --------
    >>> import surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=10).collect(sf.policies.coin(2), decision_points=100, seed=0)
    >>> effect = follow_logs(logs)
    >>> len(effect.mean), bool(effect.low[-1] < effect.mean[-1] < effect.high[-1])
    (1000, True)
    """
    if logs.actions != 2:
        raise InputError(f"a confidence sequence of logs needs two actions; these have {logs.actions}")
    order = np.lexsort((logs.participant_index, logs.time))
    rows = order[(logs.available & ~np.isnan(logs.outcome))[order]]
    unknown = rows[np.isnan(logs.probability[rows])]
    if len(unknown):
        raise InputError(f"{len(unknown):,} decision points have no probability; log it", column=logs.names.probability)
    action = logs.action[rows]
    sending = np.where(action > 0, logs.probability[rows], 1 - logs.probability[rows])
    drawn = (sending > 0) & (sending < 1)
    rows = rows[drawn]
    probabilities = np.column_stack([1 - sending, sending])[drawn]
    people = logs.participant_index[rows]
    return follow_contrast(
        logs.outcome[rows], logs.action[rows], probabilities, people, contrast, outcome_range, limits, alpha
    )


@dataclass(frozen=True)
class Stratum:
    """Draws with something in common, such as the hour."""

    family: str
    """The division that it belongs to."""
    label: Any
    """What its draws have in common."""
    draws: int
    """How many there are."""
    sent: int
    """How often anything was sent."""
    expected: float
    """How often it should have been, on average."""
    evidence: float
    """Its share of the evidence: the weight of the stratum times its largest likelihood ratio so far."""


@dataclass(frozen=True)
class DrawTest:
    """Whether draws agree with the stated probabilities."""

    evidence: float
    """The largest weighted mean of likelihood ratios so far; under the stated probabilities it ever reaches 1/α with
    probability α at most."""
    strata: list[Stratum]
    """The stratum that adds most to the evidence comes first."""


def compare_draws(
    action: Codes, probabilities: Floats, families: Mapping[str, tuple[Sequence[Any], int | None]]
) -> DrawTest:
    """Test whether draws agree with their stated probabilities, with a test that is valid after every draw.

    If action a is drawn with odds that differ by a factor e^λ from those stated, the likelihood ratio of the draws is
    Π exp(λ 1{A_k = a}) / (1 + π_k(a) (e^λ − 1)); under the stated probabilities it is a martingale with mean 1. So is its
    mean over actions, `TILTS` in both directions and strata.

    Parameters
    ----------
    action : (n,)
        The actions drawn, in order.
    probabilities : (n, actions)
        As stated before each draw.
    families : {name: (labels, number)}
        Divisions of the draws into strata, with the number of possible labels. The families have equal weights, and so
        have the strata of one with a number; in others the v-th stratum to appear has the weight 1 / (v (v + 1)).

    Returns
    -------
    DrawTest
        The evidence against the stated probabilities, and the strata that it comes from.

    Examples
    --------
    >>> test = compare_draws(np.ones(30, dtype=int), np.full((30, 2), 0.5), {"all": (np.zeros(30), 1)})
    >>> test.evidence > 1e4, test.strata[0].sent, test.strata[0].expected
    (True, 30, 15.0)
    """
    rows = np.arange(len(action))
    tilts = np.concatenate([TILTS, -TILTS])
    taken = action[:, None] == np.arange(probabilities.shape[1])
    stated = np.log1p(probabilities[..., None] * np.expm1(tilts))
    log_ratios = (taken[..., None] * tilts - stated).reshape(len(action), taken.shape[1] * len(tilts))
    log_ratios[probabilities[rows, action] <= 0] = np.inf
    steps = np.zeros(len(action))
    strata = []
    for family, (labels, number) in families.items():
        ordered = np.asarray(labels)
        for position, label in enumerate(dict.fromkeys(ordered.tolist()), start=1):
            chosen = np.flatnonzero(ordered == label)
            weight = 1 / (number or position * (position + 1)) / len(families)
            ratio = weight * np.exp(np.minimum(np.cumsum(log_ratios[chosen], axis=0), LARGEST)).mean(axis=1)
            steps[chosen] += np.diff(ratio, prepend=weight)
            sent = int((action[chosen] > 0).sum())
            expected = float((1 - probabilities[chosen, 0]).sum())
            strata.append(Stratum(family, label, len(chosen), sent, expected, float(ratio.max())))
    evidence = float(np.max(1 + np.cumsum(steps), initial=1.0))
    return DrawTest(evidence, sorted(strata, key=lambda stratum: -stratum.evidence))
