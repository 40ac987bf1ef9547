"""Causal excursion effects: did the prompt help, on average, and for whom?"""

from surefoot.effects.effect_size import EffectSize, effect_size
from surefoot.effects.estimators import ESTIMATORS
from surefoot.effects.moderator_selection import ModeratorSelection, select_moderators
from surefoot.effects.report import EffectsReport, Words, analyse
from surefoot.effects.result import EffectResult, dcee, emee, emee2, excursion_effect, mcee, wcls
from surefoot.effects.study_effects import analyse_study
from surefoot.inference.adaptive_sandwich import PolicyUpdate, UpdateHistory, update_by_differences

__all__ = [
    "ESTIMATORS",
    "EffectResult",
    "EffectSize",
    "EffectsReport",
    "ModeratorSelection",
    "PolicyUpdate",
    "UpdateHistory",
    "Words",
    "analyse",
    "analyse_study",
    "dcee",
    "effect_size",
    "emee",
    "emee2",
    "excursion_effect",
    "mcee",
    "select_moderators",
    "update_by_differences",
    "wcls",
]
