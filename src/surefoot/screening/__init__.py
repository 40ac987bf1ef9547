"""Screening: makes values missing that cannot be trusted, with reasons, before anything is fitted."""

from surefoot.screening.detectors import Column, Layout, Questionnaire
from surefoot.screening.screen import DETECTORS, Screen, Screener, TreatmentDifference, make_detectors, screen

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
