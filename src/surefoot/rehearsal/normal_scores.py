"""Values as normal scores and back: a distribution of any shape, with piles at single values, as a standard normal one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Floats = NDArray[np.float64]
PILE = 0.02
"""A value with more than this share of all is a pile: its scores are an interval."""
MOST_VALUES = 400
FURTHEST, GRID = 6.0, 4801
"""Scores are looked up within ± this, at so many places."""


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """z = Φ⁻¹(F(x)) with F the empirical distribution, linear between its values.

    >>> table = ScoreTable.of_values(np.array([0.0, 0.0, 1.0, 2.0]))
    >>> table.to_values(np.array([-2.0, -0.1, 1.5])), table.to_scores(np.array([0.0, 2.0])).round(2)
    (array([0., 0., 2.]), array([-0.67,  1.15]))
    """

    values: Floats
    """Sorted and different, (m,)."""
    low: Floats
    """The scores at which a value begins …, (m,)."""
    high: Floats
    """… and ends."""

    @classmethod
    def of_values(cls, values: Floats) -> ScoreTable:
        """Of all values that are not missing."""
        distinct, counts = np.unique(values[~np.isnan(values)], return_counts=True)
        weights = counts / counts.sum()
        if len(distinct) > MOST_VALUES:
            distinct, weights = _thin(distinct, weights)
        share = np.concatenate([[0.0], np.cumsum(weights)]).clip(0, 1)
        middle = ndtri((share[:-1] + share[1:]) / 2)
        pile = weights > PILE
        return cls(distinct, np.where(pile, ndtri(share[:-1]), middle), np.where(pile, ndtri(share[1:]), middle))

    @cached_property
    def _grid(self) -> Floats:
        """Values at evenly spaced scores: looking up is ten times as quick as interpolating, and never mixes a pile with its
        neighbour."""
        knots = np.column_stack([self.low, self.high]).clip(-9, 9).ravel()
        return np.asarray(np.interp(np.linspace(-FURTHEST, FURTHEST, GRID), knots, np.repeat(self.values, 2)))

    def to_values(self, scores: Floats) -> Floats:
        """Values whose scores these are; no value lies outside those that were seen."""
        place = ((scores + FURTHEST) * ((GRID - 1) / (2 * FURTHEST)) + 0.5).clip(0, GRID - 1)
        return self._grid[place.astype(np.int64)]

    @cached_property
    def _middle(self) -> Floats:
        return np.asarray(ndtri((ndtr(self.low) + ndtr(self.high)) / 2))

    def to_scores(self, values: Floats) -> Floats:
        """The scores of values; of a pile the middle by share."""
        return np.where(np.isnan(values), np.nan, np.interp(values, self.values, self._middle))

    def limits(self, values: Floats) -> tuple[Floats, Floats]:
        """Between which scores each value lies."""
        place = np.searchsorted(self.values, np.nan_to_num(values)).clip(0, len(self.values) - 1)
        piled = (self.values[place] == values) & (self.high[place] > self.low[place])
        scores = self.to_scores(values)
        return np.where(piled, self.low[place], scores), np.where(piled, self.high[place], scores)


def _thin(distinct: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Fewer values with the same piles: of the others as many quantiles, with the same weight in all."""
    piled = weights > PILE
    others, share = distinct[~piled], weights[~piled].sum()
    reached = (np.cumsum(weights[~piled]) - weights[~piled] / 2) / share
    chosen = np.interp((np.arange(MOST_VALUES) + 0.5) / MOST_VALUES, reached, others)
    order = np.argsort(values := np.concatenate([distinct[piled], chosen]), kind="stable")
    return values[order], np.concatenate([weights[piled], np.full(MOST_VALUES, share / MOST_VALUES)])[order]
