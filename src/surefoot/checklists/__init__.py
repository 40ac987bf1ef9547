"""Reporting checklists: protocol and results appendices filled from a study's own records, each statement with its source.

A checklist is a TOML file: its items, in our words, and the topics that answer each. Facts about a topic come from the study
file, the logs, a fit, the effects, or the database of the service. What only a person can answer stays a question.
"""

from surefoot.checklists.checklist import CHECKLISTS, Checklist, Fact, Facts, FilledChecklist, load_checklist
from surefoot.checklists.facts import collect_file_facts, collect_log_facts, collect_study_facts

__all__ = [
    "CHECKLISTS",
    "Checklist",
    "Fact",
    "Facts",
    "FilledChecklist",
    "collect_file_facts",
    "collect_log_facts",
    "collect_study_facts",
    "load_checklist",
]
