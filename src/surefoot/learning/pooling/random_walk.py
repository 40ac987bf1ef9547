"""Coefficients that differ between people and move: everybody's difference from the population is a random walk.

    w = β + bᵢ at first, bᵢ ~ N(0, Ψ);   from one decision point to the next bᵢ moves by N(0, q Ψ)

A participant's decision points are cut into blocks, the last of which ends with the last one, and bᵢ moves between blocks.
In coordinates in which bᵢ has the covariance σ² I at first, and with q for a whole block, Kalman's filter takes block after
block, S = XᵀUX and Y = [y, X] for outcomes and for what β explains of them, a the mean and P the covariance before it:

    g = XᵀU(Y − X a),   E = (I + P S)⁻¹,   a ← a + E P g,   P ← E P + q I
    K = Σ YᵀUY − aᵀXᵀUY − YᵀUX a + aᵀS a − gᵀE P g,   A = K_XX + ζ,   β = A⁻¹ K_Xy
    −2 log likelihood = Σ log det (I + P S) + log det A + (N − d) log σ²,   σ² = (K_yy − βᵀK_Xy) / (N − d)

and everybody's last bᵢ is a_y − a_X β, wᵢ with the covariance σ² (E P + (I − a_X) A⁻¹ (I − a_X)ᵀ). Backwards, r ← Eᵀ(g + r)
and N ← Eᵀ(S + N E) give the slopes in Ψ and q (Koopman, 1993). With q = 0 all of this is `mixed_effects`.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.learning.batch import count_back
from surefoot.learning.pooling.mixed_effects import LEAST, MOST, Likelihood, Moments, Posterior
from surefoot.numerics.batched_cholesky import invert

Numbers = NDArray[np.float64]
MOST_BLOCKS = 12
ESTIMATE = "estimate"
STARTS = (0.03, 0.3, 3.0)
"""The search begins with the best of these shares of Ψ that a participant's coefficients move in the whole study."""
AT_FIRST = 1e-2
"""… and with at least this much of λ, so that a coefficient in which people are alike at first may move."""
LEAST_STEP = 1e-8
MOST_STEP = 1e2
CUT = 2.705543454095404
"""The 90 % point of χ² with one degree of freedom: what q = 0, on the boundary, exceeds in one of 20 studies."""


@dataclass(frozen=True, eq=False)
class TimeBlocks:
    """Every participant's decision points in blocks of consecutive ones; the last block ends with the last one."""

    block: NDArray[np.int64]
    """The block of every row."""
    first: NDArray[np.int64]
    """Everybody's first block."""
    count: int
    points: int
    """Decision points in a block."""

    @classmethod
    def of_logs(cls, logs: Trajectories, most: int = MOST_BLOCKS) -> "TimeBlocks":
        """At most so many blocks.

        >>> logs = Trajectories.from_arrays(np.zeros((1, 5, 1)), np.ones((1, 5)), np.zeros((1, 5)))
        >>> TimeBlocks.of_logs(logs, most=3).block
        array([0, 1, 1, 2, 2])
        """
        lengths = np.diff(logs.starts)
        points = max(-(-int(lengths.max(initial=1)) // most), 1)
        count = -(-int(lengths.max(initial=1)) // points)
        return cls(count - 1 - count_back(logs) // points, count + (-lengths) // points, count, points)


class Walk(NamedTuple):
    """What a random walk is fitted from: the moments of every block, and how far people move."""

    blocks: TimeBlocks
    moments: tuple[Moments, ...]
    step: float | str
    """q, or `estimate`."""


@dataclass(frozen=True, eq=False)
class WalkLikelihood:
    """The restricted likelihood of one output as a function of λ and q, in the coordinates of a likelihood without q."""

    still: Likelihood
    gram: Numbers
    """XᵀUX, (blocks, people, d, d)."""
    cross: Numbers
    """XᵀUy, (blocks, people, d)."""
    begun: NDArray[np.bool_]
    """Who has had a block before, (blocks, people): they move."""

    @classmethod
    def of_walk(cls, still: Likelihood, walk: Walk, response: int) -> "WalkLikelihood":
        """Of one response of the moments, whose sum over blocks `still` was made of."""
        basis = still.basis * (np.diagonal(still.gram.sum(axis=0)) > 0)
        gram = np.stack([basis.T @ part.gram @ basis for part in walk.moments])
        cross = np.stack([part.cross[:, :, response] @ basis for part in walk.moments])
        return cls(still, gram, cross, np.arange(walk.blocks.count)[:, None] > walk.blocks.first)

    def at(self, scale: Numbers, step: float) -> "WalkPoint":
        """At λ, (d,), and q for a whole block."""
        root = np.sqrt(scale)
        _, people, d = self.cross.shape
        gram = self.gram * (root[:, None] * root)
        cross = self.cross * root
        eye = np.eye(d)
        mean = np.zeros((people, d, 1 + d))
        known = np.broadcast_to(eye, (people, d, d))
        total = np.zeros((1 + d, 1 + d))
        determinant = 0.0
        shrunk = []
        pulled = []
        for s, c, begun in zip(gram, cross, self.begun, strict=True):
            known = known + step * begun[:, None, None] * eye
            data = np.concatenate([c[..., None], s], axis=-1)
            pull = data - s @ mean
            shrink = np.linalg.inv(eye + known @ s)
            determinant -= float(np.linalg.slogdet(shrink)[1].sum())
            known = shrink @ known
            known = (known + np.swapaxes(known, 1, 2)) / 2
            before = mean
            mean = mean + known @ pull
            total[1:] += np.sum(data, axis=0)
            total[0, 1:] += np.sum(c, axis=0)
            total -= np.sum(np.swapaxes(before, 1, 2) @ data + np.swapaxes(pull, 1, 2) @ mean, axis=0)
            shrunk.append(shrink)
            pulled.append(pull)
        still = self.still
        systems, log_determinants = invert((total[1:, 1:] + still.penalty * (root[:, None] * root))[None])
        system = systems[0]
        beta = system @ total[1:, 0]
        left = still.squares + total[0, 0] - total[1:, 0] @ beta
        noise = max(left, float(np.finfo(np.float64).tiny)) / still.free
        logs = float(np.log(scale)[np.diagonal(system) > 0].sum())
        return WalkPoint(
            likelihood=self,
            scale=scale,
            step=step,
            gram=gram,
            mean=mean,
            known=known,
            shrunk=np.stack(shrunk),
            pulled=np.stack(pulled),
            system=system,
            beta=beta,
            noise=noise,
            deviance=determinant + float(log_determinants[0]) - logs + still.free * float(np.log(noise)),
        )


@dataclass(frozen=True, eq=False)
class WalkPoint:
    """The likelihood at one λ and q."""

    likelihood: WalkLikelihood
    scale: Numbers
    step: float
    gram: Numbers
    mean: Numbers
    """[a_y, a_X] after the last block, (people, d, 1 + d)."""
    known: Numbers
    """P after the last block, (people, d, d)."""
    shrunk: Numbers
    """E of every block."""
    pulled: Numbers
    """g of every block."""
    system: Numbers
    """A⁻¹, (d, d)."""
    beta: Numbers
    noise: float
    deviance: float

    def slopes(self) -> Numbers:
        """Of the deviance in log λ, (d,), and in log q."""
        back = np.zeros_like(self.mean)
        doubt = np.zeros_like(self.known)

        def slope(counted: Numbers | NDArray[np.bool_]) -> Numbers:
            """Σ N − r_X A⁻¹ r_Xᵀ − r rᵀ / σ² over people, its diagonal."""
            toward = back[..., 0] - back[..., 1:] @ self.beta
            known = np.einsum("pij,jk,pik->pi", back[..., 1:], self.system, back[..., 1:])
            return np.asarray(counted @ (np.diagonal(doubt, axis1=1, axis2=2) - known - toward**2 / self.noise))

        moved = np.zeros(len(self.beta))
        for block in range(len(self.gram) - 1, -1, -1):
            shrink = self.shrunk[block]
            across = np.swapaxes(shrink, 1, 2)
            back = across @ (self.pulled[block] + back)
            doubt = across @ (self.gram[block] + doubt @ shrink)
            moved += slope(self.likelihood.begun[block]) * self.step
        return np.append(moved + slope(np.ones(len(back))), moved.sum())

    def posterior(self, points: int, n_iter: int, converged: bool) -> Posterior:
        """In the coordinates of the moments; blocks have so many `points`."""
        still = self.likelihood.still
        mean = self.mean
        transform = still.basis * np.sqrt(self.scale)
        differs = transform * (self.scale > LEAST)
        left = np.eye(len(transform)) - mean[..., 1:]
        known = self.known + left @ self.system @ np.swapaxes(left, 1, 2)
        return Posterior(
            population=transform @ self.beta,
            population_covariance=self.noise * (transform @ self.system @ transform.T),
            spread=self.noise * (differs @ differs.T),
            noise=self.noise,
            mean=(mean[..., 0] + left @ self.beta) @ transform.T,
            covariance=self.noise * (transform @ known @ transform.T),
            deviance=self.deviance,
            n_iter=n_iter,
            converged=converged,
            likelihood=still,
            ratios=(np.where(self.scale > LEAST, self.scale, 0.0) * still.unit**2)[None],
            walk=self.step / points,
        )


def fit_random_walk(still: Posterior, walk: Walk, response: int = 0) -> Posterior:
    """The same people, who move: everybody's last coefficients, from a fit to people who do not.

    An estimated q stays 0, and the fit as it was, unless the likelihood ratio speaks against that at 5 %.
    """
    from scipy.optimize import minimize

    free = isinstance(walk.step, str)
    step = 1.0 if isinstance(walk.step, str) else float(walk.step) * walk.blocks.points
    if step == 0 or still.likelihood.people < 2 or walk.blocks.count < 2:
        return still
    likelihood = WalkLikelihood.of_walk(still.likelihood, walk, response)
    inside = np.linalg.pinv(still.likelihood.basis)
    start = np.diagonal(inside @ still.spread @ inside.T) / still.noise
    start = np.clip(np.maximum(start, AT_FIRST), LEAST, MOST)
    steps = [share / (walk.blocks.count - 1) for share in STARTS] if free else [step]
    first = min((likelihood.at(start, candidate) for candidate in steps), key=lambda point: point.deviance)
    d = len(start)

    def at(logarithms: Numbers) -> WalkPoint:
        return likelihood.at(np.exp(logarithms[:d]), float(np.exp(logarithms[d])))

    def deviance(logarithms: Numbers) -> tuple[float, Numbers]:
        point = at(logarithms)
        slopes = point.slopes()
        return point.deviance, slopes if free else np.append(slopes[:d], 0.0)

    begin = np.log(np.append(first.scale, first.step))
    ends = (np.log(LEAST_STEP), np.log(MOST_STEP)) if free else (begin[d], begin[d])
    bounds = [*[(np.log(LEAST), np.log(MOST))] * d, ends]
    options = {"maxiter": 200, "ftol": 1e-9, "gtol": 1e-4}
    optimum = minimize(deviance, begin, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    best = at(optimum.x)
    evaluations = still.n_iter + int(optimum.nfev)
    if free and still.deviance - best.deviance < CUT:
        return replace(still, n_iter=evaluations)
    return best.posterior(walk.blocks.points, evaluations, bool(optimum.success))
