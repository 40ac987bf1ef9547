"""Whether coefficients change while people are in the study: everybody's alike, or each participant's by itself.

Both tests leave everybody's own coefficients on x free; docs/audit.md explains them. **Alike**: of the outcome and of
columns t z that change with time, what a participant's own columns do not explain gives s = z̃ᵀr̃, which has mean zero when
nothing moves, whatever the noise. T = max_j |Σᵢ sᵢⱼ| / √(Σᵢ sᵢⱼ²) is compared with the same under random signs of
everybody's s.

**By itself**: a participant's decision points are cut into blocks b in time, with scores g_b = Σ_{t in b} x_tj u_t of the
residuals u. When nothing moves they have nothing in common except that they add up to zero. Summed over people,

    Q_j = Σᵢ Σ_{|b−c|>k} (m − |b − c|) g_b g_c,    m the mean of |b − c| over these pairs

has mean zero then: |b − c| is the kernel of a random walk, and with its mean taken away the zero sum of the scores cancels.
Blocks less than `GAP` decision points apart are left out, so that correlated noise is not taken for a walk. Under random
signs of the scores Q has nearly a gamma distribution. The smallest p-value counts for all coefficients (Bonferroni).
"""

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.inference.intervals import Interval, ratio_interval
from surefoot.learning.batch import count_back
from surefoot.numerics.batched_cholesky import solve
from surefoot.policies.features import critic_features

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
PER = 100  # Changes are reported per 100 decision points.
FLIPS = 3999
MANY_PEOPLE = 2000
LEAST_PEOPLE = 9  # The signs of fewer people cannot be so unusual that at most 0.4 % of sign vectors are as unusual.
EXPLAINED = 1e-9  # A column of which less than this share remains is explained by the others.
MANY_COLUMNS = 64
"""With more columns than this, people whose outcomes are fully explained are left out before anything is solved."""
BLOCKS = 20
GAP = 10
LEAST_POINTS = 40  # With fewer decision points too few blocks are far enough from each other.
LEAST_SKEWNESS = 1e-3  # Below it a gamma distribution is a normal one.


@dataclass(frozen=True, eq=False)
class Change:
    """How coefficients move over time; coefficients are given by their position in x(s, a)."""

    people: int  # Participants whose decision points are informative about a change that all share.
    effect_change: Interval  # Change of the mean effect of sending in 100 decision points.
    effect_p_value: float  # Of the test that no action's effect at the mean state moves in a line.
    p_value: float  # Of the test that no coefficient moves in a line.
    largest: int  # The coefficient that moves most compared with its noise.
    points: float  # Decision points of a typical participant.
    wandering_people: int  # Participants with enough decision points for the test of a walk.
    wandering_p_value: float  # Of the test that nobody's coefficients walk.
    wandering_largest: int  # The coefficient that walks most compared with its noise.

    @property
    def can_tell(self) -> bool:
        """Whether there are enough people for a test."""
        return self.people >= LEAST_PEOPLE


def find_change(logs: Trajectories, counts: Mask, sees: Floats) -> Change:
    """Test for coefficients of the outcome that move, over the rows that count and the state variables that the model sees.

    >>> import surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=30).collect(sf.policies.coin(2), decision_points=100, seed=1)
    >>> still = find_change(logs, logs.usable, np.ones(3))
    >>> faded = logs.with_values(outcome=logs.outcome - 10 * logs.time * (logs.action == 1))
    >>> fading = find_change(faded, logs.usable, np.ones(3))
    >>> still.effect_p_value > 0.05, fading.effect_p_value < 0.001, round(fading.effect_change.value / 500) * 500
    (True, True, -1000)
    """
    actions = logs.actions
    size = logs.state.shape[1] + 1
    people = len(logs.participants)
    effect = np.zeros((2, people))  # z̃ᵀr̃ and z̃ᵀz̃ of t 1{a > 0}.
    by_action = np.zeros((people, actions - 1))
    by_coefficient = np.zeros((people, size * actions))
    walkers = 0
    walks = np.zeros((3, size * actions))
    since = (np.diff(logs.starts)[logs.participant_index] - 1 - count_back(logs)) / PER
    counted_state = logs.state[counts] if counts.any() else np.zeros((1, size - 1))
    centre = counted_state.mean(axis=0) * sees
    spread = counted_state.std(axis=0)
    scale = sees / np.where(spread > 0, spread, 1.0)
    for block, padded in logs.blocks() if counts.any() else ():
        counted = (padded >= 0) & counts[padded]
        state = np.where(counted[..., None], (logs.state[padded] - centre) * scale, 0.0)
        x = critic_features(state, np.where(counted, logs.action[padded], 0), actions) * counted[..., None]
        unexplained = ~find_explained(x, counted)
        if not unexplained.any():
            continue
        members = block[unexplained]
        rows = padded[unexplained]
        counted = counted[unexplained]
        x = x[unexplained]
        outcome = np.where(counted, logs.outcome[rows], 0.0)[..., None]
        moving = x * np.where(counted, since[rows], 0.0)[..., None]
        steps = moving[..., size::size]
        base = np.concatenate([x, moving[..., :size]], axis=-1)
        effect[:, members] = _score(base, steps.sum(axis=-1, keepdims=True), outcome)[:, :, 0].T
        for c in range(actions - 1):
            others = np.concatenate([base, np.delete(steps, c, axis=-1)], axis=-1)
            by_action[members, c] = _score(others, steps[..., c : c + 1], outcome)[:, 0, 0]
        by_coefficient[members] = _score(x, moving, outcome)[:, 0]
        long = counted.sum(axis=1) >= LEAST_POINTS
        scores = _sum_block_scores(x[long], outcome[long], counted[long], size)
        walkers += int((scores != 0).any(axis=(1, 2)).sum())
        walks += measure_walks(scores, counted[long].sum(axis=1))
    informative = effect[1] > 0
    p_value, largest = flip_signs(by_coefficient)
    walk_p_values = find_walk_p_values(*walks)
    return Change(
        people=int(informative.sum()),
        effect_change=ratio_interval(*effect[:, informative]),
        effect_p_value=flip_signs(by_action)[0],
        p_value=p_value,
        largest=largest,
        points=float(np.median(np.bincount(logs.participant_index, minlength=people))),
        wandering_people=walkers,
        wandering_p_value=min(1.0, float(walk_p_values.min()) * len(walk_p_values)),
        wandering_largest=int(walk_p_values.argmin()),
    )


def find_explained(x: Floats, counted: Mask) -> Mask:
    """Participants with so few rows that many columns x (people, rows, columns) explain any outcome, (people,).

    Rows that are linearly independent leave no residual, so that such a participant has no part in a test.
    """
    explained = np.zeros(len(x), dtype=bool)
    if x.shape[-1] > MANY_COLUMNS:
        for k in np.flatnonzero(counted.sum(axis=1) <= x.shape[-1]):
            rows = x[k][counted[k]]
            values = np.linalg.eigvalsh(rows @ rows.T)
            explained[k] = not len(values) or values[0] > 1e-10 * values[-1]
    return explained


def _score(base: Floats, moving: Floats, outcome: Floats) -> Floats:
    """z̃ᵀr̃ and z̃ᵀz̃ of every column z of (people, rows, columns), less what the columns `base` explain."""
    across = np.swapaxes(base, 1, 2)
    both = np.concatenate([moving, outcome], axis=-1)
    residuals = both - base @ solve(across @ base, across @ both).solution
    z = residuals[..., :-1]
    size = (z**2).sum(axis=1)
    unexplained = size > EXPLAINED * (moving**2).sum(axis=1)
    return np.where(unexplained[:, None, :], np.stack([(z * residuals[..., -1:]).sum(axis=1), size], axis=1), 0.0)


def flip_signs(scores: Floats) -> tuple[float, int]:
    """p of scores (people, columns) that have mean zero, and the column that is farthest from it.

    Of few people all sign vectors are tried, of more a fixed sample of them; the sums of many are drawn as normal.

    >>> flip_signs(np.array([[1.0], [2.0], [0.5], [1.5]]))
    (0.125, 0)
    """
    scores = scores[(scores != 0).any(axis=1)]
    people = len(scores)
    if not people:
        return 1.0, 0
    size = np.sqrt((scores**2).sum(axis=0))
    scores = scores / np.where(size > 0, size, 1.0)
    observed = np.abs(scores.sum(axis=0))
    rng = np.random.default_rng(0)
    drawn = 1
    if 2**people <= FLIPS + 1:
        sums = np.array(list(itertools.product((1.0, -1.0), repeat=people))) @ scores
        drawn = 0
    elif people <= MANY_PEOPLE:
        sums = (rng.integers(0, 2, (FLIPS, people)) * 2.0 - 1.0) @ scores
    else:
        values, vectors = np.linalg.eigh(scores.T @ scores)
        sums = rng.standard_normal((FLIPS, len(values))) * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
    as_large = int((np.abs(sums).max(axis=1) >= observed.max() * (1 - 1e-9)).sum())
    return (as_large + drawn) / (len(sums) + drawn), int(observed.argmax())


def _sum_block_scores(x: Floats, outcome: Floats, counted: Mask, size: int) -> Floats:
    """g of every participant, block and coefficient, in units of the participant's noise, (people, BLOCKS, features)."""
    count = np.maximum(counted.sum(axis=1), 1)
    x = x.copy()
    # 1{a=c} less its share among the participant's decision points: a baseline that moves is then no effect that does.
    for first in range(size, x.shape[-1], size):
        share = x[..., first : first + 1].sum(axis=1, keepdims=True) / count[:, None, None]
        x[..., first : first + size] -= share * x[..., :size]
    across = np.swapaxes(x, 1, 2)
    residuals = (outcome - x @ solve(across @ x, across @ outcome).solution) * counted[..., None]
    block = (counted.cumsum(axis=1) - 1) * BLOCKS // count[:, None]
    within = (block[:, None] == np.arange(BLOCKS)[:, None]) & counted[:, None]
    power = (residuals**2).sum(axis=1)
    noisy = power > 1e-18 * (outcome**2).sum(axis=1)
    scale = np.where(noisy, 1 / np.sqrt(np.where(noisy, power, 1.0)), 0.0)
    return np.asarray(within.astype(np.float64) @ (x * residuals) * scale[..., None])


def measure_walks(scores: Floats, points: NDArray[np.int64]) -> Floats:
    """Q of every coefficient, and its variance and third moment under random signs of the scores, summed over people."""
    apart = np.abs(np.subtract.outer(np.arange(BLOCKS), np.arange(BLOCKS)))
    far = apart > np.ceil(GAP * BLOCKS / points)[:, None, None]
    mean = (apart * far).sum(axis=(1, 2), keepdims=True) / np.maximum(far.sum(axis=(1, 2), keepdims=True), 1)
    kernel = (mean - apart) * far
    sums = np.zeros((3, scores.shape[-1]))
    for j in range(scores.shape[-1]):
        products = kernel * scores[:, :, None, j] * scores[:, None, :, j]
        third = (products @ products * products).sum()
        sums[:, j] = products.sum(), 2 * (products**2).sum(), 8 * third
    return sums


def find_walk_p_values(total: Floats, variance: Floats, third: Floats) -> Floats:
    """P(Q ≥ total) of a gamma distribution with this variance and third moment; 1 without scores."""
    from scipy.special import gammaincc

    known = variance > 0
    deviation = np.sqrt(np.where(known, variance, 1.0))
    shape = 4 / np.maximum(third / deviation**3, LEAST_SKEWNESS) ** 2
    return np.where(known, gammaincc(shape, np.maximum(shape + total / deviation * np.sqrt(shape), 0.0)), 1.0)
