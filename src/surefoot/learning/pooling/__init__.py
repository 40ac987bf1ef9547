"""Pooling: who shares a fit with whom. Adding one is an object of a subclass of `Pooling`, given to `register_pooling`."""

from surefoot.learning.pooling.mixed_effects import Posterior
from surefoot.learning.pooling.pooling import (
    POOLINGS,
    Block,
    EveryonePooling,
    PartialPooling,
    PersonPooling,
    Pooling,
    find_pooling,
    register_pooling,
)
from surefoot.learning.pooling.random_walk import TimeBlocks, Walk, check_random_walk, fit_random_walk
from surefoot.learning.pooling.reml import SpreadIntervals, fit_mixed_effects, profile_spread

__all__ = [
    "POOLINGS",
    "Block",
    "EveryonePooling",
    "PartialPooling",
    "PersonPooling",
    "Pooling",
    "Posterior",
    "SpreadIntervals",
    "TimeBlocks",
    "Walk",
    "check_random_walk",
    "find_pooling",
    "fit_mixed_effects",
    "fit_random_walk",
    "profile_spread",
    "register_pooling",
]
