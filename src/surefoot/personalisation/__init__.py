"""Personalisation: did the algorithm of a trial learn something about people, or does it look so by chance?"""

from surefoot.personalisation.resampling import check_personalisation
from surefoot.personalisation.result import Personalisation

__all__ = ["Personalisation", "check_personalisation"]
