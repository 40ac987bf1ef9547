"""The real truth: zeros of a tracker that recorded nothing, found from the zero-filled columns alone."""

from pathlib import Path

import numpy as np
import pytest

from surefoot.datasets.heartsteps_v1_zeros import DEVICES, read_zero_filled
from surefoot.screening import screen

FILE = Path(__file__).parents[3] / "shared/heartsteps_v1/suggestions.csv"
pytestmark = pytest.mark.skipif(
    not FILE.exists(), reason="needs suggestions.csv of HeartSteps V1 in ../shared/heartsteps_v1"
)


@pytest.fixture(scope="module")
def filled():
    return read_zero_filled(FILE)


def rates(filled, found, column):
    flagged = np.isnan(found.logs.reward if column == "steps" else found.logs.state[:, 0])
    truth = filled.not_recorded[column]
    hits = (flagged & truth).sum()
    return hits / flagged.sum(), hits / truth.sum(), (flagged & ~truth).sum() / (~truth).sum()


def test_the_file_is_the_one_that_is_meant(filled):
    assert len(filled.logs) == 8274
    assert filled.not_recorded["steps"].sum() == 1041
    assert (filled.logs.reward[filled.not_recorded["steps"]] == 0).all()


def test_what_was_not_recorded_is_found(filled):
    found = screen(filled.logs, devices=DEVICES)
    precision, recall, wrong = rates(filled, found, "steps")
    assert precision >= 0.90
    assert recall >= 0.70
    assert wrong <= 0.02
    precision, recall, wrong = rates(filled, found, "steps_before")
    assert precision >= 0.90
    assert recall >= 0.70
    assert wrong <= 0.02
    assert found.blind


def test_other_thresholds_would_do_as_well(filled):
    """The default was not fitted to this file: around it the answer hardly changes."""
    for threshold in (0.88, 0.92):
        found = screen(filled.logs, devices=DEVICES, detectors={"not_worn": {"threshold": threshold}})
        precision, recall, _ = rates(filled, found, "steps")
        assert precision >= 0.90
        assert recall >= 0.70


def test_both_zero_alone_is_far_less_precise(filled):
    both = (filled.logs.reward == 0) & (filled.logs.state[:, 0] == 0)
    assert round(float(filled.not_recorded["steps"][both].mean()), 2) == 0.51
