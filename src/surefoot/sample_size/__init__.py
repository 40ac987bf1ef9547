"""How many people a micro-randomised trial needs, or which power it has."""

from surefoot.sample_size.designs import Moderator, binary, continuous
from surefoot.sample_size.power import SampleSize

__all__ = ["Moderator", "SampleSize", "binary", "continuous"]
