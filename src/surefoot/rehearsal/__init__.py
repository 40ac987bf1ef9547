"""Rehearsals: a whole trial, simulated from pilot data, before the first participant."""

from surefoot.rehearsal.environments import (
    EFFECTS,
    NO_EFFECT,
    Burden,
    Environment,
    Fading,
    Imputed,
    PeopleDiffer,
    Standardised,
    standardised_effect,
)
from surefoot.rehearsal.model_checks import PilotCheck, PilotChecks, check_pilot_model
from surefoot.rehearsal.outcome_families import FAMILIES, FamilyChoice
from surefoot.rehearsal.pilot_fit import PilotEffect, estimate_pilot_effect, fit_pilot, from_study
from surefoot.rehearsal.pilot_model import PilotModel
from surefoot.rehearsal.plan import Candidate, RehearsalPlan, TrialDesign
from surefoot.rehearsal.recommendation import CandidateAnswers, Recommendation, Verdict
from surefoot.rehearsal.rehearsal import rehearse
from surefoot.rehearsal.report import Rehearsal
from surefoot.rehearsal.trial_run import TrialRecord, run_trials

__all__ = [
    "EFFECTS",
    "FAMILIES",
    "NO_EFFECT",
    "Burden",
    "Candidate",
    "CandidateAnswers",
    "Environment",
    "Fading",
    "FamilyChoice",
    "Imputed",
    "PeopleDiffer",
    "PilotCheck",
    "PilotChecks",
    "PilotEffect",
    "PilotModel",
    "Recommendation",
    "Rehearsal",
    "RehearsalPlan",
    "Standardised",
    "TrialDesign",
    "TrialRecord",
    "Verdict",
    "check_pilot_model",
    "estimate_pilot_effect",
    "fit_pilot",
    "from_study",
    "rehearse",
    "run_trials",
    "standardised_effect",
]
