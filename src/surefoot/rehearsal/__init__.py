"""Rehearsals: a whole trial, simulated from pilot data, before the first participant."""

from surefoot.rehearsal.model_checks import PilotChecks, check_pilot_model
from surefoot.rehearsal.pilot_effects import PilotEffects
from surefoot.rehearsal.pilot_model import PilotModel, fit_pilot, from_study
from surefoot.rehearsal.plan import NO_EFFECT, PILOT_EFFECT, Burden, Candidate, Environment, RehearsalPlan, TrialDesign
from surefoot.rehearsal.recommendation import CandidateAnswers, Recommendation
from surefoot.rehearsal.rehearsal import rehearse
from surefoot.rehearsal.report import Rehearsal
from surefoot.rehearsal.score import RehearsalScore, score_rehearsal
from surefoot.rehearsal.trial_files import write_trial
from surefoot.rehearsal.trial_run import run_trials

__all__ = [
    "NO_EFFECT",
    "PILOT_EFFECT",
    "Burden",
    "Candidate",
    "CandidateAnswers",
    "Environment",
    "PilotChecks",
    "PilotEffects",
    "PilotModel",
    "Recommendation",
    "Rehearsal",
    "RehearsalPlan",
    "RehearsalScore",
    "TrialDesign",
    "check_pilot_model",
    "fit_pilot",
    "from_study",
    "rehearse",
    "run_trials",
    "score_rehearsal",
    "write_trial",
]
