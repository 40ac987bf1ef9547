"""LinUCB: the action with the highest upper confidence bound of the expected reward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from array_api_compat import device

from surefoot.learning.methods.composition import Method
from surefoot.learning.methods.critic_result import CriticResult
from surefoot.numerics.arrays import Array, array_namespace, contiguous
from surefoot.numerics.batched_cholesky import Cholesky
from surefoot.policies.features import critic_features
from surefoot.policies.rules import UpperConfidence


@dataclass(kw_only=True, eq=False)
class LinUCB(Method):
    """a = argmax_a x(s, a)ᵀw + α σ √(x(s, a)ᵀ A⁻¹ x(s, a)), A = XᵀUX + ζ_c I, σ the weighted residual scale.

    Parameters
    ----------
    exploration
        α; the other parameters are those of `Method`.

    Attributes
    ----------
    critic_coef_, weights_, threshold_, residuals_, n_iter_, scale_
        w, u, ε, r − xᵀw, the critic's iterations, and σ.
    policies_
        What was learned, to decide with.

    Examples
    --------
    >>> import surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=3).collect(sf.policies.coin(2), decision_points=50, seed=0)
    >>> len(sf.LinUCB(exploration=0.5).fit(logs).policies_)
    3
    """

    exploration: float = 1.0
    """α."""
    _non_negative: ClassVar[tuple[str, ...]] = ("critic_penalty", "exploration")

    def learn_rule(self, result: CriticResult) -> tuple[UpperConfidence, Array]:
        batch = result.batch
        x = result.features
        fit = result.fit
        if result.ahead is not None or batch.centre is not None:
            # Of centred actions only the effects are known, not what is expected without one.
            mean, spread = (result.ahead or result.immediate_advantage(result.system, result.scale)).over_nothing()
            return UpperConfidence(mean, self.exploration**2 * spread), fit.converged
        xp = array_namespace(x)
        people, d = fit.coef.shape
        size = d // batch.actions
        system = Cholesky(result.system)
        means = []
        spreads = []
        for action in range(batch.actions):
            # x(s, a) = E_a z(s): row j of `select` holds the critic's features that element j of z feeds.
            select = critic_features(np.eye(size)[:, :-1], np.full(size, action), batch.actions)
            select[:-1] -= critic_features(np.zeros((1, size - 1)), np.array([action]), batch.actions)
            select = xp.asarray(select, device=device(x))
            select[:-1, :] *= batch.critic_sees[:, None]
            # Products participant by participant: one large product would be rounded by how many people there are.
            means.append((fit.coef[:, None, :] @ xp.matrix_transpose(select))[:, 0, :])
            half = system.half_solve(xp.broadcast_to(xp.matrix_transpose(select), (people, d, size)))
            half = contiguous(xp.permute_dims(half, (2, 1, 0)))
            spreads.append(half @ xp.matrix_transpose(half))
        width = (self.exploration * result.scale)[:, None, None, None] ** 2
        return UpperConfidence(xp.stack(means, axis=1), width * xp.stack(spreads, axis=1)), fit.converged
