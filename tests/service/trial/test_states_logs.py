"""Every update screens what it learns from, unless the study says no."""

import pytest

from surefoot.service.trial.api_models import Outcome
from surefoot.service.trial.decisions import record_outcomes
from surefoot.service.trial.trial import open_trial
from surefoot.study import Study
from tests.service.support.trials import STUDY, fill, moment, update

UNSCREENED = STUDY.replace("[method]", "[screen]\non = false\n\n[method]")
ASKED = STUDY.replace("[method]", '[questionnaire.mood]\nitems = ["q1", "q2"]\n\n[method]')
"""A questionnaire whose items no app sends: only a screen that was asked for needs them."""


@pytest.mark.parametrize(
    ("study", "flagged"), [(STUDY, {"code": 16}), (ASKED, {"code": 16}), (UNSCREENED, {})], ids=["default", "items", "off"]
)
def test_a_code_for_missing_is_found_without_a_declaration(tmp_path, study, flagged):
    """An app that sends −99 where nothing was measured, at every fifth decision point of two people."""
    trial = open_trial(Study.parse(study), f"sqlite:///{tmp_path}/trial.db")
    answers = fill(trial, points=40)
    for place, one in enumerate(answers):
        if place % 5 == 4:
            at = moment(2 * (place % 40) + 1)
            record_outcomes(trial, [Outcome(decision_id=one.decision_id, outcome=-99, timestamp=at)])
    _, status = update(trial)
    trial.close()
    assert status["result"]["flagged"] == flagged
    assert ("screen" in {finding["check"] for finding in status["findings"]}) == bool(flagged)
