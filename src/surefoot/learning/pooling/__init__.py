"""Pooling: who shares a fit with whom. Adding one is a subclass of `Pooling` under `register_pooling`."""

from surefoot.learning.pooling.pooling import (
    POOLINGS,
    Everyone,
    Partial,
    Person,
    Pooling,
    make_pooling,
    register_pooling,
)

__all__ = ["POOLINGS", "Everyone", "Partial", "Person", "Pooling", "make_pooling", "register_pooling"]
