"""Rehearsals: a whole trial, simulated from pilot data, before the first participant."""

from surefoot.rehearsal.candidate_answers import CandidateAnswers
from surefoot.rehearsal.candidates import Candidate
from surefoot.rehearsal.design import TrialDesign
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
from surefoot.rehearsal.family_choice import FamilyChoice
from surefoot.rehearsal.model_checks import PilotCheck, PilotChecks, check_pilot_model
from surefoot.rehearsal.outcome_families import FAMILIES
from surefoot.rehearsal.pilot_effect import PilotEffect, estimate_pilot_effect
from surefoot.rehearsal.pilot_fit import fit_pilot
from surefoot.rehearsal.pilot_model import PilotModel
from surefoot.rehearsal.plan import RehearsalPlan
from surefoot.rehearsal.recommendation import Recommendation, Verdict
from surefoot.rehearsal.rehearsal import rehearse
from surefoot.rehearsal.report import Rehearsal
from surefoot.rehearsal.study_model import from_study
from surefoot.rehearsal.trial_record import TrialRecord
from surefoot.rehearsal.trial_run import run_trials

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
