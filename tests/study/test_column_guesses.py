"""Columns whose names say what they are."""

import re

import numpy as np
import pytest

from surefoot.data.column_kinds import ColumnSummary
from surefoot.study.column_guesses import AFTERWARDS, MEASUREMENTS, is_index, is_probability


@pytest.mark.parametrize(
    "name", ["p", "p_sent", "prob", "prob_A1", "pi", "rand.prob", "propensity", "P(1)"[:1] + "1", "treat_prob", "p_nudge"]
)
def test_columns_called_like_probabilities(name):
    assert is_probability(ColumnSummary(name, 3, 0, np.array([0.0, 0.4, 1.0]), []))
    assert not is_probability(ColumnSummary(name, 3, 0, np.array([0.0, 4.0]), []))
    assert not is_probability(ColumnSummary("mood", 3, 0, np.array([0.0, 0.4]), []))


def test_columns_called_like_an_index_or_like_what_comes_afterwards():
    for name in ("", "Unnamed: 0", "index", "row_number", "X"):
        assert is_index(ColumnSummary(name, 3, 0, np.array([1.0, 2.0, 3.0]), []))
        assert not is_index(ColumnSummary(name, 3, 0, np.array([1.0, 3.0, 2.0]), []))
    assert not is_index(ColumnSummary("day", 3, 0, np.array([1.0, 2.0, 3.0]), []))
    for name in ("steps_after", "post_steps", "response", "message.clicked", "mood next"):
        assert re.search(AFTERWARDS, name)
    for name in ("mood", "steps_before", "postcode", "afternoon", "temperature"):
        assert not re.search(AFTERWARDS, name)


def test_columns_called_like_an_outcome():
    for name in ("minutes_active", "steps_30min", "Walking Minutes", "mvpa", "step_count"):
        assert re.match(MEASUREMENTS, name)
    for name in ("steps_before", "minutes since waking", "mean_steps", "goal_steps", "mood", "footsteps"):
        assert not re.match(MEASUREMENTS, name)
