"""What differs between people: everybody's own numbers, how well they are known, and new people like them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Part = TypeVar("Part", bound=Any)


@dataclass(frozen=True, eq=False)
class Varying:
    """Numbers wᵢ of everybody, and those of whom new people are modelled on: w = wⱼ + Rⱼ ε, j one of them at random.

    Rⱼ Rⱼᵀ is what is not known of wⱼ. New people so differ as the old ones do, skewed or not, and numbers that go together
    in one person go together in the new one.

    >>> kind = Varying.normal(np.array([1.0, 5.0]), np.array([0.0, 2.0]))
    >>> kind.redraw(np.zeros(3, dtype=int), np.ones((2, 3))).own
    array([[1., 1., 1.],
           [7., 7., 7.]])
    """

    own: Floats
    """wᵢ, (d, *people)."""
    models: Floats
    """wⱼ, (d, m)."""
    roots: Floats
    """Rⱼ, (m, d, d)."""

    @classmethod
    def of_posterior(cls, mean: Floats, covariance: Floats) -> Varying:
        """People themselves are the models; (people, d) and (people, d, d)."""
        values, vectors = np.linalg.eigh(covariance)
        return cls(mean.T.copy(), mean.T.copy(), vectors * np.sqrt(values.clip(0))[:, None, :])

    @classmethod
    def normal(cls, population: Floats, spread: Floats) -> Varying:
        """One person in the middle; new ones lie around it, independently, with these standard deviations."""
        middle = np.asarray(population, dtype=np.float64)[:, None]
        return cls(middle, middle, np.diag(np.asarray(spread, dtype=np.float64))[None])

    @classmethod
    def constant(cls, values: Floats, people: int) -> Varying:
        """The same for everybody."""
        values = np.asarray(values, dtype=np.float64)
        own = np.repeat(values[:, None], people, axis=1)
        return cls(own, own, np.zeros((people, len(values), len(values))))

    def __len__(self) -> int:
        return len(self.own)

    @property
    def population(self) -> Floats:
        """The mean over the models, (d,)."""
        return np.asarray(self.models.mean(axis=1))

    @property
    def spread(self) -> Floats:
        """Standard deviations between people, (d,)."""
        return np.asarray(np.sqrt(self.models.var(axis=1) + (self.roots**2).sum(axis=-1).mean(axis=0)))

    def redraw(self, model: NDArray[np.int64], normals: Floats) -> Varying:
        """Of new people: on whom each is modelled, (*people), and standard normal numbers (d, *people)."""
        moved = np.einsum("...de,e...->d...", self.roots[model], normals)
        return replace(self, own=self.models[:, model] + moved)

    def select(self, people: slice) -> Varying:
        """Of some of the people; numbers that are one for all stay."""
        return self if self.own.shape[-1] == 1 else replace(self, own=self.own[..., people])


def map_varying(part: Part, change: Callable[[Varying], Varying]) -> Part:
    """A part of a model with everything in it that differs between people changed."""
    changed = {one.name: change(value) for one in fields(part) if isinstance(value := getattr(part, one.name), Varying)}
    return replace(part, **changed)


def count_varying(part: Any) -> int:
    """How many numbers of a part differ between people."""
    return sum(len(value) for one in fields(part) if isinstance(value := getattr(part, one.name), Varying))
