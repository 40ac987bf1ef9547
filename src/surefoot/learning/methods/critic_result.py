"""What a decision rule is learned from."""

from __future__ import annotations

from dataclasses import dataclass

from array_api_compat import device

from surefoot.learning.batch import Batch
from surefoot.learning.critics import CriticFit
from surefoot.learning.horizon import Advantage, immediate_advantage
from surefoot.learning.penalty_units import FitScales
from surefoot.numerics.arrays import Array, array_namespace


@dataclass(frozen=True, eq=False)
class CriticResult:
    """What a decision rule is learned from: the critic's fit to a batch, or the advantages ahead."""

    batch: Batch
    features: Array
    """x(s, a), (people, decision points, features)."""
    fit: CriticFit
    scale: Array
    scaling: FitScales
    penalty: Array
    """ζ of every feature, (people, features)."""
    residuals: Array
    ahead: Advantage | None = None
    """With a long-run horizon."""
    start: Array | None = None
    """Coefficients of policies of a fit to similar decision points, (people, k, m), where they are known."""

    @classmethod
    def of_fit(
        cls,
        batch: Batch,
        features: Array,
        fit: CriticFit,
        scaling: FitScales,
        penalty: Array,
        ahead: Advantage | None = None,
    ) -> CriticResult:
        """With the residuals that the fit leaves, and their scale."""
        xp = array_namespace(features)
        residuals = fit.find_residuals(features, batch.reward)
        total = xp.sum(fit.weights, axis=1)
        squares = xp.sum(fit.weights * residuals**2, axis=1)
        scale = xp.sqrt(squares / xp.where(total > 0, total, xp.ones_like(total)))
        return cls(batch, features, fit, scale, scaling, penalty, residuals, ahead)

    @property
    def system(self) -> Array:
        """XᵀUX + ζ, (people, features, features)."""
        xp = array_namespace(self.penalty)
        eye = xp.eye(self.penalty.shape[1], dtype=self.penalty.dtype, device=device(self.penalty))
        return self.fit.gram + self.penalty[:, None, :] * eye

    def immediate_advantage(self, system: Array, scale: Array) -> Advantage:
        """The advantages in the next outcome alone, with covariance scale² system⁻¹."""
        return immediate_advantage(self.fit, system, scale, self.batch.actions, self.batch.critic_sees)
