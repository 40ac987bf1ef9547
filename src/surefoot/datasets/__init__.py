"""Loaders of public studies: each takes the path of a file that you fetched, and knows that file's quirks."""

from surefoot.datasets.heartsteps_v1 import HeartStepsV1, heartsteps_v1

__all__ = ["HeartStepsV1", "heartsteps_v1"]
