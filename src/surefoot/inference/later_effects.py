"""How a decision changes estimating functions at later rows: what the adaptive sandwich has to estimate.

The derivative of later estimating functions g with respect to the parameters β of a policy is

    E[Σ_{s ≥ t} g_s · score_tᵀ] = E[Σ_a m_t(a) · ∂π_t(a)/∂βᵀ],    m_t(a) = E[Σ_{s ≥ t} g_s | a] − E[Σ_{s ≥ t} g_s | 0].

The published formula estimates the left side, for every pair of updates. Often its expectation is 0 and its estimate is
not; after tens of updates the products of such estimates make standard errors many times too wide. On the right side the
slopes of the policy are known exactly. Only the effects m of a decision are estimated, from the decisions of all updates
together, and shrunk as far as they are uncertain; no effect at all is allowed.

Lags have windows 1, 2–3, 4–7, …. The effect b_w of a decision on each row in window w is constant, so m_t = Σ_w c_tw b_w,
c_tw the number of rows. b_w is the regression of the window's sum on actions centred at their probabilities, which weights
decisions by π(1 − π), as slopes of policies do. Estimates b̂_w with variances v_w get the prior N(0, τ²K), K_vw = s_v s_w
ρ^|v − w|, s_w = 2^(−w): effects that fade with the lag and keep their sign, so that every window may weigh as much, and τ²
that makes b̂ most likely. The decision's own row, and earlier rows whose outcomes it can still change, have windows with
priors of their own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]
ALIKE = 0.95
"""ρ: correlation of the effects in neighbouring windows."""
SIZES = np.concatenate([[0.0], np.logspace(-2, 4, 37)])
"""The values of τ² that are compared, in units of the precision of the estimates."""


@dataclass(frozen=True, eq=False)
class LaterEffects:
    """Effects of decisions on functions, each (windows, treatments, functions)."""

    mean: Floats
    covariance: Floats
    """(functions, windows · treatments, windows · treatments)."""
    counts: Floats
    """c: rows in every window of the decisions, (decisions, windows)."""


class Decisions:
    """Decisions that policies drew.

    Parameters
    ----------
    participant
        Of every row of the trial, ascending, (rows,).
    rows
        Positions of the decisions.
    action, probabilities
        Of the decisions, (decisions,) and (decisions, actions).
    """

    def __init__(self, participant: Positions, rows: Positions, action: Positions, probabilities: Floats) -> None:
        starts = np.flatnonzero(np.diff(participant, prepend=-1))
        ends = np.append(starts[1:], len(participant))
        windows = int((ends - starts).max() - 1).bit_length()
        lags = 2 ** np.arange(windows + 1)
        self.rows = rows
        self.edges = np.minimum(rows[:, None] + lags, ends[participant[rows], None])
        """Where windows of later rows begin, and the last one ends, (decisions, windows + 1)."""
        self.treatments = probabilities.shape[1] - 1
        shares = probabilities[:, 1:]
        self.centred = (action[:, None] == np.arange(1, self.treatments + 1)) - shares
        self.spread = shares[:, :, None] * (np.eye(self.treatments) - shares[:, None, :])
        """Covariance of the centred actions, (decisions, treatments, treatments)."""
        ones = np.ones(len(rows))
        self.people = len(starts)
        self.by_participant = csc_array((ones, (participant[rows], np.arange(len(rows)))), shape=(self.people, len(rows)))

    def find_effects(
        self, values: Floats, present: Floats, first: int, early: Sequence[tuple[Floats, Floats]]
    ) -> LaterEffects:
        """Of the first decisions on functions at later rows.

        Parameters
        ----------
        values
            The functions of every row, (rows, functions).
        present
            1 for rows that the functions have, (rows,).
        first
            The number of decisions, those of the earliest updates.
        early
            Further windows, at rows that are not later: sums and counts for the decisions, (first, functions) and (first,).
        """
        both = np.column_stack([values, present])
        passed = np.concatenate([np.zeros((1, both.shape[1])), np.cumsum(both, axis=0)])
        later = np.diff(passed[self.edges[:first]], axis=1)
        before = [np.column_stack([total, count])[:, None] for total, count in early]
        windows = np.concatenate([*before, later], axis=1)
        counts = windows[:, :, -1]
        estimates, variances = self._regress(windows[:, :, :-1], counts)
        size = len(early)
        blocks = [slice(number, number + 1) for number in range(size)] + [slice(size, None)]
        means = []
        covariance = np.zeros((values.shape[1], *[windows.shape[1] * self.treatments] * 2))
        for block in blocks:
            mean, spread = shrink(estimates[block], variances[block])
            means.append(mean)
            begin = block.start * self.treatments
            end = begin + spread.shape[1]
            covariance[:, begin:end, begin:end] = spread
        return LaterEffects(np.concatenate(means), covariance, counts)

    def _regress(self, totals: Floats, counts: Floats) -> tuple[Floats, Floats]:
        """Effects on one more row of each window, (windows, treatments, functions), and their variances, clustered by
        participant; 0 where they cannot be known."""
        first, windows, functions = totals.shape
        products = self.centred[:first, None, :, None] * totals[:, :, None, :]
        expected = counts[:, :, None, None] * self.spread[:first, None]
        members = self.by_participant[:, :first]
        shape = (self.people, windows, self.treatments)
        moments = (members @ products.reshape(first, -1)).reshape(*shape, functions)
        spreads = (members @ expected.reshape(first, -1)).reshape(*shape, self.treatments)
        gram = spreads.sum(axis=0)
        people = spreads.any(axis=(2, 3)).sum(axis=0)
        smallest = np.linalg.eigvalsh(gram)[:, 0]
        known = (people > 1) & (smallest > 1e-9 * np.trace(gram, axis1=1, axis2=2))
        inverse = np.linalg.inv(np.where(known[:, None, None], gram, np.eye(self.treatments)))
        effects = inverse @ moments.sum(axis=0)
        residuals = inverse @ (moments - spreads @ effects)
        variances = (residuals**2).sum(axis=0) * (people / np.maximum(people - 1, 1))[:, None, None]
        return effects * known[:, None, None], variances * known[:, None, None]


def shrink(estimates: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """Posterior means of effects (windows, treatments, functions) and covariances (functions, windows · treatments, …).

    >>> mean, covariance = shrink(np.array([[[0.1, 4.0]]]), np.array([[[1.0, 1.0]]]))
    >>> mean.ravel().round(2), covariance.ravel().round(2)
    (array([0.  , 3.74]), array([0.  , 0.94]))
    """
    windows, treatments, functions = estimates.shape
    position = np.arange(windows)
    kernel = ALIKE ** np.abs(position[:, None] - position) * 2.0 ** -(position[:, None] + position)
    prior = np.kron(kernel, np.eye(treatments))
    values = estimates.reshape(-1, functions).T
    spread = variances.reshape(-1, functions).T
    known = spread > 0
    error = np.sqrt(np.where(known, spread, 1.0))
    # Directions in which estimates are independent, with variance 1 and prior variance τ²·`sizes`.
    scaled = prior * (known / error)[:, :, None] * (known / error)[:, None, :]
    sizes, directions = np.linalg.eigh(scaled)
    sizes = np.maximum(sizes, 0.0)
    largest = np.maximum(sizes.max(axis=1, initial=0.0), np.finfo(np.float64).tiny)
    along = np.einsum("fdk,fd->fk", directions, np.where(known, values / error, 0.0))
    total = 1 + SIZES * (sizes / largest[:, None])[:, :, None]
    likelihood = -(np.log(total) + along[:, :, None] ** 2 / total).sum(axis=1)
    chosen = likelihood.argmax(axis=1)
    factors = 1 - 1 / total[np.arange(functions), :, chosen]
    mean = error * np.einsum("fdk,fk->fd", directions, factors * along)
    covariance = np.einsum("fdk,fk,fek->fde", directions, factors, directions) * error[:, :, None] * error[:, None, :]
    return mean.T.reshape(windows, treatments, functions), covariance
