"""Baselines: the shape of the expected outcome without an action, as a function of the state.

The action's effect is linear in the state with each of them. A smooth baseline adds to the linear one

    g(s) = Σ_j c_j B_j(s),   c ~ N(0, σ_c² I)

with cosines and sines of random directions of the standardised state (random Fourier features, Rahimi and Recht 2007) from
which their best linear approximation in the logs is taken, so that the linear part keeps its meaning. σ_c² maximises the
restricted likelihood and may be zero, which is the linear baseline.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import InputError
from surefoot.learning.part import Part
from surefoot.learning.pooling import Pooling
from surefoot.registry import Registry

__all__ = ["BASELINES", "Baseline", "Linear", "Smooth", "register_baseline"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Baseline(Part, ABC):
    """What is expected without an action; the fields of a subclass are its parameters, and each has a default."""

    kind: ClassVar[str] = "baseline"
    curved: ClassVar[bool] = True
    """Whether it has features beyond [1, s], whose coefficients everybody shares."""

    def check_company(self, pooling: Pooling) -> None:
        """Refuse a pooling that a curved baseline cannot work with."""
        if not pooling.needs_everybody:
            raise InputError(
                f"baseline = '{self.name}' is learned from everybody together; use pooling = 'partial' or 'all'"
            )
        if pooling.walk_step is not None:
            raise InputError(f"random_walk is fitted with a linear baseline; leave it or baseline = '{self.name}' out")

    @abstractmethod
    def draw_directions(self, variables: int) -> Floats:
        """(variables, directions): cosine and sine of the standardised state along each are features; the same each time."""


BASELINES: Registry[type[Baseline]] = Registry("baseline")
register_baseline = BASELINES.register
"""Adds a class of baselines under its `name`, which must be free."""


@register_baseline
@dataclass(frozen=True)
class Linear(Baseline):
    """Without an action the outcome is linear in the state, as in the paper."""

    name: ClassVar[str] = "linear"
    curved: ClassVar[bool] = False

    def draw_directions(self, variables: int) -> Floats:
        return np.zeros((variables, 0))


@register_baseline
@dataclass(frozen=True)
class Smooth(Baseline):
    """Without an action the outcome is any smooth function of the state, the same for everybody but for a linear part."""

    name: ClassVar[str] = "smooth"
    baseline_features: int = 60
    """How many cosines and sines it is made of."""

    def check_parameters(self) -> None:
        super().check_parameters()
        count = self.baseline_features
        if isinstance(count, bool) or not isinstance(count, int) or not 2 <= count <= 500:
            raise InputError(f"baseline_features is {count!r}; it is a whole number from 2 to 500")

    def draw_directions(self, variables: int) -> Floats:
        """Every second direction is along one variable, the variables in turn; the others are along all of them."""
        rng = np.random.default_rng(0)
        directions = rng.standard_normal((variables, self.baseline_features // 2))
        if variables > 1:
            for position in range(0, directions.shape[1], 2):
                single = np.arange(variables) == position // 2 % variables
                directions[:, position] *= single
        return directions
