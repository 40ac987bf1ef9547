"""Every policy check at its limit and just beyond, with numbers worked out by hand; no database."""

import numpy as np
import pytest

from surefoot import Study, Trajectories
from surefoot.policies.policies import Policies
from surefoot.policies.rules import Boltzmann
from surefoot.study import StudyLogs
from surefoot.trial_rules.policy_checks import (
    ROUNDING,
    Influence,
    check_coefficients,
    check_influence,
    check_limits,
    check_policy,
)
from tests.service.support.trials import STUDY

NAMES = ("weather", "engagement", "place")
CLIPPED, EVEN, THREE_QUARTERS = 0.9, 0.5, 0.75
"""Probabilities of the logits 9, 0 and log 3 within the study's limits, 0.1 and 0.9."""


def make_study(removed=0.5, change=0.8):
    text = STUDY.replace("max_removed = 0.5", f"max_removed = {removed}")
    return Study.parse(text.replace("max_send_rate_change = 0.8", f"max_send_rate_change = {change}"))


def make_policies(logits, participants=None):
    coef = np.zeros((len(logits), 1, 4))
    coef[:, 0, 3] = logits
    return Policies(None if participants is None else np.array(participants), Boltzmann(coef), ("nothing", "send"), NAMES)


def make_logs():
    """Participants 0, 1 and 2 with 4 decision points each; 0 was unavailable once, 1 has a missing state once."""
    state = np.zeros((3, 4, 3))
    state[1, 2, 0] = np.nan
    available = np.ones((3, 4), dtype=bool)
    available[0, 3] = False
    found = Trajectories.from_arrays(
        state, np.zeros((3, 4), dtype=int), np.ones((3, 4)), state_names=NAMES, available=available
    )
    return StudyLogs(found, found.outcome, {}, np.arange(len(found)))


def check(new, old=None, *, used=10, removed=2, **limits):
    return {one.check: one for one in check_policy(make_study(**limits), make_logs(), weigh(used, removed), new, old)}


def weigh(used, removed):
    """Weights of so many used rows, some of them removed, and of two that were not used."""
    return np.array([np.nan, np.nan] + [0.0] * removed + [1.0] * (used - removed))


def test_all_checks_in_order_with_their_numbers():
    found = check(make_policies([np.log(3.0)]))
    assert list(found) == ["finite", "removed", "values by action", "limits", "send rate", "change"]
    assert all(one.passed for one in found.values())
    assert (found["finite"].measured, found["finite"].allowed) == (None, None)
    assert (found["removed"].measured, found["removed"].allowed) == (0.2, 0.5)
    assert (found["limits"].measured, found["limits"].allowed) == (0.0, 0.0)
    assert found["send rate"].allowed == 0.8
    assert found["send rate"].measured == pytest.approx(THREE_QUARTERS - 0.5)
    assert "0.500 before, 0.750 after" in found["send rate"].message
    assert found["removed"].as_dict() == {
        "check": "removed",
        "passed": True,
        "measured": 0.2,
        "allowed": 0.5,
        "message": "2 of 10 rows removed as outliers",
    }


@pytest.mark.parametrize(
    ("used", "removed", "allowed", "passed", "share"),
    [(10, 5, 0.5, True, 0.5), (10, 6, 0.5, False, 0.6), (0, 0, 0.0, True, 0.0), (1, 1, 0.9, False, 1.0)],
)
def test_as_much_as_is_allowed_may_be_removed(used, removed, allowed, passed, share):
    found = check_policy(make_study(removed=allowed), make_logs(), weigh(used, removed), make_policies([0.0]), None)[1]
    assert (found.passed, found.measured, found.allowed) == (passed, share, allowed)


def test_a_number_that_is_not_finite_ends_the_checks():
    found = check(make_policies([0.0, np.inf, 0.0], [0, 1, 2]), removed=9)
    assert {name: one.passed for name, one in found.items()} == {"finite": False, "removed": False, "values by action": True}


@pytest.mark.parametrize(
    ("new", "old", "before", "after"),
    [
        # Of the ten complete and available decision points 3 are participant 0's, 3 are 1's, 4 are 2's.
        (make_policies([9.0, 0.0, 0.0], [0, 1, 2]), None, 0.5, (3 * CLIPPED + 7 * EVEN) / 10),
        (make_policies([9.0, 0.0], [0, 2]), None, 0.5, (3 * CLIPPED + 4 * EVEN) / 7),
        (make_policies([0.0]), make_policies([9.0]), CLIPPED, EVEN),
        # Whom the old policy does not know was in warm-up.
        (make_policies([0.0]), make_policies([9.0, -9.0], [1, 2]), (3 * 0.5 + 3 * 0.9 + 4 * 0.1) / 10, EVEN),
        (make_policies([0.0]), make_policies([9.0], [77]), 0.5, EVEN),
        (make_policies([9.0], [77]), make_policies([9.0]), 0.5, 0.5),  # Nobody is covered: nothing can have changed.
    ],
)
def test_the_send_rate_is_the_mean_over_those_whom_the_new_policy_covers(new, old, before, after):
    found = check(new, old, change=0.3)["send rate"]
    assert found.measured == pytest.approx(abs(after - before), abs=1e-12)
    assert f"{before:.3f} before, {after:.3f} after" in found.message
    assert found.passed == (abs(after - before) <= 0.3)


def test_the_send_rate_may_move_by_exactly_what_is_allowed():
    assert check(make_policies([0.0]), change=0.0)["send rate"].passed
    down, up = check(make_policies([-9.0]), change=0.39)["send rate"], check(make_policies([9.0]), change=0.39)["send rate"]
    assert not down.passed and not up.passed
    assert check(make_policies([-9.0]), change=0.41)["send rate"].passed


@pytest.mark.parametrize(
    ("row", "good"),
    [
        ([0.9 + 0.5 * ROUNDING, 0.1 - 0.5 * ROUNDING], True),
        ([0.1 - 0.5 * ROUNDING, 0.9 + 0.5 * ROUNDING], True),
        ([0.9 + 2 * ROUNDING, 0.1 - 2 * ROUNDING], False),
        ([0.1 - 2 * ROUNDING, 0.9 + 2 * ROUNDING], False),
        ([0.5, 0.5 + 0.5 * ROUNDING], True),
        ([0.5, 0.5 + 2 * ROUNDING], False),
        ([0.5, 0.5 - 2 * ROUNDING], False),
        ([0.5, np.inf], False),
    ],
)
def test_rounding_is_forgiven_and_nothing_more(row, good):
    found = check_limits(make_study(), np.array([[0.5, 0.5], row, [0.4, 0.6], row]))
    assert (found.check, found.passed, found.measured, found.allowed) == ("limits", good, 0.0 if good else 2.0, 0.0)


def test_a_negative_probability_among_three_is_outside():
    study = make_study()
    assert not check_limits(study, np.array([[0.5, 0.6, -0.1]])).passed
    assert check_limits(study, np.array([[0.5, 0.5, 0.0]])).passed


def make_rows(*rows):
    return [dict(zip(("action", "feature", "value", "standard_error"), row, strict=True)) for row in rows]


def test_the_coefficient_that_moved_most_in_its_larger_standard_error():
    old = make_rows(("send", "dose", 1.0, 1.0), ("send", "home", 0.0, 1.0), ("call", "dose", 9.0, 1.0))
    new = make_rows(("send", "dose", 4.0, 2.0), ("send", "home", -1.25, 1.0), ("send", "new", 99.0, 0.5))
    found = check_coefficients(new, old, 1.5, is_live=True)
    assert (found.check, found.passed, found.allowed) == ("coefficients", True, 1.5)
    assert found.measured == pytest.approx(1.5), "3 in 2, where the other moved by 1.25 in 1"
    assert found.message == "moved most, in standard errors: send: dose from 1 to 4"
    assert not check_coefficients(new, old, 1.49, is_live=True).passed
    assert check_coefficients(old, new, 2.0, is_live=True).measured == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (make_rows(("send", "dose", 4.0, 2.0)), []),
        ([], make_rows(("send", "dose", 4.0, 2.0))),
        (make_rows(("send", "dose", 4.0, None)), make_rows(("send", "dose", 1.0, None))),
        (make_rows(("send", "dose", 4.0, 0.0)), make_rows(("send", "dose", 1.0, 0.0))),
        (make_rows(("send", "dose", 4.0, 2.0)), make_rows(("call", "dose", 1.0, 0.5))),
    ],
)
def test_without_two_coefficients_to_compare_there_is_nothing_to_refuse(new, old):
    found = check_coefficients(new, old, 0.0, is_live=True)
    assert (found.check, found.passed, found.measured, found.allowed) == ("coefficients", True, None, 0.0)
    assert found.message == "no coefficients with standard errors to compare; what the policy does is compared"
    assert check_coefficients(new, old, 0.0, is_live=False).message == "no policy is live yet"


def test_one_known_standard_error_is_enough():
    old = make_rows(("send", "dose", 1.0, None))
    found = check_coefficients(make_rows(("send", "dose", 4.0, 1.0)), old, 2.0, is_live=True)
    assert (found.passed, found.measured) == (False, pytest.approx(3.0))


@pytest.mark.parametrize(
    ("changes", "allowed", "passed", "found", "named"),
    [
        ([0.1, 0.3, 0.2], 0.3, True, 0.3, "thing 1"),
        ([0.1, 0.3, 0.4], 0.2, False, 0.3, "thing 1"),  # The first beyond the limit, not the largest.
        ([0.4, 0.3], 0.2, False, 0.4, "thing 0"),
        ([], 0.0, True, None, "nothing"),
    ],
)
def test_influence_names_the_smallest_thing_that_explains_a_refusal(changes, allowed, passed, found, named):
    given = [Influence(f"thing {place}", change) for place, change in enumerate(changes)]
    finding = check_influence(given, allowed)
    assert (finding.check, finding.passed, finding.measured, finding.allowed) == ("influence", passed, found, allowed)
    assert named in finding.message
