"""Overlap: how far the logs of one policy speak about another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from surefoot.evaluation.candidates import Candidate
from surefoot.evaluation.values import Overlap

LOW_SHARE, LOW_COUNT, HIGH_WEIGHT = 0.1, 100, 0.05
"""Overlap is poor when the effective sample size is below this share or number, or one decision point holds more of the
weight."""


def measure_overlap(candidate: Candidate, probabilities: NDArray[np.float64], ratio: NDArray[np.float64]) -> Overlap:
    """From π(a | s) (rows, actions) and ρ (rows,)."""
    total, squares = ratio.sum(), (ratio**2).sum()
    effective = float(total**2 / squares) if squares > 0 else 0.0
    largest = float(ratio.max())
    warning = ""
    if effective < max(LOW_SHARE * len(ratio), LOW_COUNT):
        warning = (
            f"the logs hold as much about this policy as {effective:.0f} decision points would (of {len(ratio)}): "
            "it does what was rarely done; believe the direct method only as far as its model"
        )
    elif largest > HIGH_WEIGHT * total:
        warning = f"one decision point carries {100 * largest / total:.0f} % of the weight: a probability near 0 was logged"
    rates = tuple(float(rate) for rate in probabilities.mean(axis=0))
    return Overlap(candidate.name, candidate.what, rates, effective, largest, warning)
