"""A small form of benchmarks/effects.py, whose full results are in benchmarks/effects.json."""

import json
from pathlib import Path

import pytest
from benchmarks import effects as simulation

RESULTS = Path(simulation.__file__).with_suffix(".json")


@pytest.mark.slow
def test_intervals_hold_the_truth_and_tests_err_rarely():
    """100 trials of 25 people: within four standard errors of what 2,000 showed."""
    found = simulation.coverage(25, replicates=100, seed=11)
    assert all(share > 0.87 for share in found.values()), found
    errors = simulation.type_one_errors(25, replicates=100, seed=12)
    assert all(share < 0.14 for share in errors.values()), errors


def test_the_contrast_holds_after_one_policy_was_learned_for_all():
    found = simulation.after_bandit(people=30, replicates=100, weeks=4, seed=13)
    assert found["contrast"] > 0.87 and found["effective share"] < 0.97


@pytest.fixture(scope="module")
def committed():
    return json.loads(RESULTS.read_text())


def test_the_committed_simulation_reached_its_targets(committed):
    assert committed["replicates"] >= 2000
    for people, shares in committed["coverage"].items():
        low, high = (0.93, 0.97) if int(people) >= 25 else (0.93, 0.98)
        assert low <= shares["average"] <= high and low <= shares["at home"] <= high, (people, shares)
    for people in ("20", "37", "100"):
        shares = committed["type_one_error"][people]
        for test in ("average", "moderator", "two together"):
            assert 0.035 <= shares[test] <= 0.065, (people, shares)
        # Seven coefficients are many for 20 people: there the tests err on the careful side, as docs/effects.md says.
        least = 0.02 if people == "20" else 0.035
        for test in ("moderator, seven coefficients", "three together, seven coefficients"):
            assert least <= shares[test] <= 0.065, (people, shares)
    assert 0.93 <= committed["after_bandit"]["contrast"] <= 0.98
    assert max(committed["processor_seconds_10000_people_210_rows"].values()) < 5


def test_the_page_reports_the_committed_simulation(committed):
    page = (RESULTS.parents[1] / "docs" / "effects.md").read_text(encoding="utf-8")
    for name, text in simulation.markdown(committed).items():
        assert text in page, name
