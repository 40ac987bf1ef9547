"""Causal excursion effects: did the prompt help, on average, and for whom?"""

from surefoot.effects.estimators import ESTIMATORS
from surefoot.effects.excursion import dcee, emee, emee2, excursion_effect, wcls
from surefoot.effects.result import EffectResult

__all__ = ["ESTIMATORS", "EffectResult", "dcee", "emee", "emee2", "excursion_effect", "wcls"]
