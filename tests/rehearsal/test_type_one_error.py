"""The primary analysis on logs of trials in which sending does nothing: it rejects as often as it says."""

import pytest
from scipy import stats

import surefoot as sf
from surefoot.rehearsal.plan import RehearsalPlan
from surefoot.trial_rules import proposals
from tests.rehearsal.test_rehearse import STUDY

PLAN = """
trials = 80
block = 80
tuning_trials = 2
environment = []
[design]
participants = 14
days = 4
per_day = 3
update_every = 2
screen = false
"""


@pytest.mark.slow
def test_the_type_one_error_is_that_of_the_level_also_after_learning(monkeypatch):
    # Most of the time would go into this check of a policy, which refuses none here.
    monkeypatch.setattr(proposals, "find_influences", lambda *_: [])
    found = sf.rehearsal.rehearse(None, sf.Study.parse(STUDY), RehearsalPlan.parse(PLAN), jobs=1)
    for name in ("coin", "saccb"):
        one = found.answers["no effect"][name]
        assert one.to_dict()["analysed"] == 80
        rejected = round(80 * one.rejections.value)
        assert stats.binomtest(rejected, 80, 0.05).pvalue > 0.001
        assert abs(one.honesty.value - 1) < 4 * one.honesty.standard_error
    assert found.answers["no effect"]["saccb"].mean("updates_done").value == 1
