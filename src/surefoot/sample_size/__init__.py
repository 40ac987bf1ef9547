"""How many people a micro-randomised trial needs, or which power it has."""

from surefoot.sample_size.arms import several_arms
from surefoot.sample_size.designs import Moderator, SampleSize, binary, continuous, size_trial
from surefoot.sample_size.pilot import Pilot, estimate_nuisance

__all__ = ["Moderator", "Pilot", "SampleSize", "binary", "continuous", "estimate_nuisance", "several_arms", "size_trial"]
