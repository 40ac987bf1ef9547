"""The experiments that go further than the paper, by their names on the command line."""

from surefoot.experiments.coefficient_errors import S5, S6
from surefoot.experiments.engine import Experiment
from surefoot.experiments.long_run import S7, S7_PEOPLE

FURTHER: dict[str, tuple[Experiment, ...]] = {"s5": (S5,), "s6": (S6,), "s7": (S7, S7_PEOPLE)}
"""Each writes files of its own name; S7 has two parts."""
