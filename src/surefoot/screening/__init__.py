"""Screening: values that cannot be trusted become missing, each with its reason, before anything is fitted."""

from surefoot.screening.registry import DETECTORS
from surefoot.screening.screen import Screen, screen
from surefoot.screening.screener import Screener, make_detectors
from surefoot.screening.series import Column, Layout, Questionnaire
from surefoot.screening.treatment import TreatmentDifference

__all__ = [
    "DETECTORS",
    "Column",
    "Layout",
    "Questionnaire",
    "Screen",
    "Screener",
    "TreatmentDifference",
    "make_detectors",
    "screen",
]
