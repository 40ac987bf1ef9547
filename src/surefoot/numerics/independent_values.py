"""Which of several normal values is the largest, where they are independent of each other or nearly so.

Of independent Xₐ ~ N(μₐ, sₐ²)

    P(Xₐ is the largest) = ∫ φₐ(x) Π_{b≠a} Φ_b(x) dx

with φₐ and Φₐ their densities and distribution functions. The trapezoidal rule with step h errs by at most
2 exp(−2π² / (h² Σ 1/s²)) of it: |Φ(x + iy)| ≤ exp(y²/2) Φ(x), and the same for φ, which bounds the integrand in a strip.

Covariances E between the values change that by Σ_{b<c} E_bc ∂²P/∂μ_b∂μ_c + …, whose integrals have the same nodes. With
e = E_bc / (s_b s_c) and τ = Σ_{b<c} e², what comes after the first order is at most √(P(1 − P)) τ ≤ τ/2, to leading order:
the density of the values as they are, divided by that of independent ones, is 1 + its first order + a rest whose variance
is det(I − e²)^(−½) − 1 − τ (Mehler's formula).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import pi, sqrt
from typing import Any, Self

import numpy as np
from array_api_compat import device

from surefoot.numerics.arrays import Array, array_namespace
from surefoot.numerics.orthants import normal_cdf

REACH = 4.5
"""So many standard deviations to both sides hold all but 3.4e-6 of a normal variable."""
STEP = 1.25
"""h √(Σ 1/s²): the trapezoidal rule errs by less than 7e-6."""
NODES = (16, 24, 32, 64, 128)
"""So many steps, the fewest that are short enough."""
INDEPENDENT, NEARLY_INDEPENDENT = 4e-9, 1e-4
"""τ up to which no order is needed, and the first one is enough: what is left out is below √τ/2 = 3.2e-5 and τ/2 = 5e-5."""


@dataclass(frozen=True)
class IndependentValues:
    """Independent values, (actions, problems), and the covariances that are left between them.

    Attributes
    ----------
    mean
        μ, the first one 0.
    variance
        s².
    between
        E, (actions, actions, problems), with nothing on its diagonal; None leaves it out.
    """

    mean: Array
    variance: Array
    between: Array = None

    @classmethod
    def of_differences(cls, mean: Array, differences: Array) -> Self:
        """Those whose differences have variances s_a² + s_b² closest to the given ones, (actions, actions, problems)."""
        size = mean.shape[0]
        rows = [add_in_order(differences[a, ...]) for a in range(size)]
        total = add_in_order(rows) / (2 * size - 2)
        xp = array_namespace(mean)
        variance = xp.stack([(row - total) / (size - 2) for row in rows])
        between = (variance[:, None, :] + variance[None, :, :] - differences) / 2
        for a in range(size):
            between[a, a, ...] = 0.0
        return cls(mean, variance, between)

    def measure_dependence(self) -> Array:
        """τ, (problems,); infinite where there is a variance that is not positive."""
        xp, size = array_namespace(self.mean), self.mean.shape[0]
        positive = self.variance > 0
        variance = xp.where(positive, self.variance, 1.0)
        tau, usable = xp.zeros_like(self.mean[0, :]), positive[0, :]
        for a in range(1, size):
            usable = usable & positive[a, :]
            for b in range(a):
                tau = tau + self.between[a, b, :] ** 2 / (variance[a, :] * variance[b, :])
        return xp.where(usable, tau, xp.inf)

    def _range(self) -> tuple[Array, Array]:
        """Where the largest value lies, all but less than 3e-5 of it."""
        xp = array_namespace(self.mean)
        reach = REACH * xp.sqrt(self.variance)
        return xp.max(self.mean - reach, axis=0), xp.max(self.mean + reach, axis=0)

    def count_steps(self) -> Array:
        """How many steps of the trapezoidal rule are short enough, (problems,)."""
        xp = array_namespace(self.mean)
        low, high = self._range()
        matters = self.mean + REACH * xp.sqrt(self.variance) > low
        return (high - low) * xp.sqrt(add_in_order(xp.where(matters, 1 / self.variance, 0.0))) / STEP

    def compare(self, steps: int) -> Array:
        """P(each is the largest), (problems, actions), by so many steps."""
        xp, size = array_namespace(self.mean), self.mean.shape[0]
        (low, high), inverse = self._range(), 1 / xp.sqrt(self.variance)
        step = (high - low) / steps
        x = low + step * _count(xp, device(low), steps)
        z = (x[:, None, :] - self.mean) * inverse
        below = normal_cdf(z)
        # At least Φ(−4.5): nothing is divided by zero. Whom all others leave behind may be narrower than a step.
        matters = self.mean + REACH / inverse > low
        ratio = xp.exp(-0.5 * (z * z)) * xp.where(matters, inverse / sqrt(2 * pi), 0.0) / below
        all_below = below[:, 0, :] * step
        for a in range(1, size):
            all_below = all_below * below[:, a, :]
        density = ratio * all_below[:, None, :]
        if self.between is not None:
            density *= self._change(ratio, z * inverse)
        wins = xp.clip(add_in_order(density), 0.0, 1.0)
        return xp.permute_dims(wins / add_in_order(wins), (1, 0))

    def _change(self, ratio: Array, slope: Array) -> Array:
        """By how much covariances between the values change the density at each node, to first order."""
        size = self.mean.shape[0]
        pull = ratio[:, :1, :] * self.between[0, ...]
        for a in range(1, size):
            pull += ratio[:, a : a + 1, :] * self.between[a, ...]
        both = ratio * pull
        pull *= ratio + slope
        return (1 + add_in_order([both[:, a, :] for a in range(size)]) / 2)[:, None, :] - pull


@lru_cache(maxsize=16)
def _count(xp: Any, where: Any, steps: int) -> Array:
    """0, 1, …, steps, (steps + 1, 1)."""
    return xp.asarray(np.arange(steps + 1.0)[:, None], device=where)


def add_in_order(parts: Any) -> Array:
    """Their sum, one after the other: a sum over an axis would be rounded by how many problems there are."""
    total = parts[0]
    for at in range(1, len(parts)):
        total = total + parts[at]
    return total
