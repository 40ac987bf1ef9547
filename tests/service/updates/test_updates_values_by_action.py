"""Zeros that come after nothing only hold an update, unless the study says that they are real."""

import pytest

from surefoot.service.trial.api_models import Outcome
from surefoot.service.trial.decisions import record_outcomes
from surefoot.service.trial.trial import open_trial
from surefoot.study import Study
from tests.service.support.trials import STUDY, fill, moment, update

UNSCREENED = STUDY.replace("[method]", "[screen]\non = false\n\n[method]")
REAL = UNSCREENED.replace('column = "steps"', 'column = "steps"\nzero = "real"')


@pytest.mark.parametrize(
    ("study", "state"), [(STUDY, "refused"), (UNSCREENED, "refused"), (REAL, "done")], ids=["screened", "off", "real"]
)
def test_zeros_after_nothing_hold_the_update_and_say_what_to_write(tmp_path, study, state):
    """A watch that is put on when it buzzes: three fifths of the outcomes after nothing are 0."""
    trial = open_trial(Study.parse(study), f"sqlite:///{tmp_path}/trial.db")
    answers = fill(trial, people=4, points=40)
    for place, answer in enumerate(answers):
        if answer.action == 0 and place % 5 < 3:
            at = moment(2 * (place % 40) + 1.5)
            record_outcomes(trial, [Outcome(decision_id=answer.decision_id, outcome=0, timestamp=at)])
    found, status = update(trial)
    live = trial.policies.live()
    trial.close()
    assert found == state
    assert (live is None) == (state == "refused")
    (finding,) = (finding for finding in status["findings"] if finding["check"] == "values by action")
    assert finding["passed"] == (state == "done")
    assert "'steps' is 0 in " in finding["message"]
    assert ('write zero = "real" in [outcome]' in finding["message"]) == (state == "refused")
    assert "values by action" in (status["message"] or "") or state == "done"
