"""Study: what is observed, what can be sent, what is optimised. One `study.toml` drives fit, audit, explain and evaluate."""

from surefoot.study.collection_section import CollectionSection
from surefoot.study.log_description import Actions, Columns, OutcomeSection, Scaling, StateVariable
from surefoot.study.log_reader import StudyLogs
from surefoot.study.model import MethodChoice, ProbabilityLimits, Study
from surefoot.study.trial_section import MonitoringSection, TrialSection

__all__ = [
    "Actions",
    "CollectionSection",
    "Columns",
    "MethodChoice",
    "MonitoringSection",
    "OutcomeSection",
    "ProbabilityLimits",
    "Scaling",
    "StateVariable",
    "Study",
    "StudyLogs",
    "TrialSection",
]
