"""Pooling: who shares a fit with whom. Adding one is an object of a subclass of `Pooling`, given to `register_pooling`."""

from surefoot.learning.pooling.everyone import EveryonePooling
from surefoot.learning.pooling.person import PersonPooling
from surefoot.learning.pooling.pooling import POOLINGS, Block, Pooling, find_pooling, register_pooling

__all__ = ["POOLINGS", "Block", "EveryonePooling", "PersonPooling", "Pooling", "find_pooling", "register_pooling"]

for _pooling in (PersonPooling(), EveryonePooling()):
    register_pooling(_pooling)
