"""The Boltzmann distribution over actions."""

from __future__ import annotations

import numpy as np

from surefoot.numerics.arrays import Array, array_namespace, sum_last


def boltzmann(logits: Array) -> Array:
    """Probabilities of the non-reference actions from their logits (…, k); the reference has logit zero.

    >>> import numpy as np
    >>> boltzmann(np.array([0.0]))
    array([0.5])
    """
    xp = array_namespace(logits)
    if logits.shape[-1] == 1:
        # An exponential that overflows gives a probability of zero, as it should.
        with np.errstate(over="ignore"):
            odds = xp.exp(-logits)
        odds += 1.0
        return 1.0 / odds
    top = xp.zeros_like(logits[..., 0])
    for action in range(logits.shape[-1]):
        top = xp.maximum(top, logits[..., action])
    raised = xp.exp(logits - top[..., None])
    return raised / (xp.exp(-top) + sum_last(raised))[..., None]
