"""How many people a micro-randomised trial needs, or which power it has."""

from surefoot.sample_size.designs import Moderator, SampleSize, binary, continuous
from surefoot.sample_size.pilot import Pilot, estimate_nuisance
from surefoot.sample_size.sized_trial import SizedTrial, size_trial

__all__ = ["Moderator", "Pilot", "SampleSize", "SizedTrial", "binary", "continuous", "estimate_nuisance", "size_trial"]
