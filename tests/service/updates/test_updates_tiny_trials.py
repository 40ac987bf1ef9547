"""The nightly update of a trial that has just begun: it waits, learns, is refused, or says what is missing."""

import pytest

from surefoot.service.database.schema import DecisionReply
from surefoot.service.trial.api_models import DecisionRequest, Outcome
from surefoot.service.trial.decisions import decide, record_outcomes
from surefoot.service.trial.participants import register_participant
from surefoot.service.trial.trial import open_trial
from surefoot.study import Study
from tests.service.support.trials import STUDY, moment, update

OUTCOMES = {
    "all different": lambda decision: 1.5 + 1.37 * decision,
    "constant": lambda decision: 7.0,
    "few runs": lambda decision: float(decision // 4),
    "missing": lambda decision: None,
}
METHODS = [
    *[("ro-accb", "person"), ("ro-saccb", "all"), ("linucb", "person"), ("ts", "partial"), ("ahead", "all")],
    ("recommended", None),
    ("ts", 'partial"\ntime_effects = "smooth"\nbaseline = "smooth'),
]


@pytest.fixture
def begin(request, url):
    """A trial of a method that learns from the first decision point on."""

    def open_first(method, pooling):
        line = f'pooling = "{pooling}"' if pooling else ""
        text = STUDY.replace('"ro-accb"', f'"{method}"').replace('pooling = "person"', line)
        trial = open_trial(Study.parse(text.replace("decision_points = 20", "decision_points = 1")), url)
        request.addfinalizer(trial.close)
        return trial

    return open_first


def live_a_day(trial, day, outcome):
    """One participant more than on the day before, a decision point of each, and its outcome."""
    register_participant(trial.database, f"p{day}")
    for participant in range(day + 1):
        decision = 5 * day + participant
        free = participant != 1
        asked = DecisionRequest(
            participant_id=f"p{participant}",
            decision_idx=day,
            timestamp=moment(24 * day),
            availability=free,
            reasons=[] if free else ["driving"],
            context={"weather": 0.25 * decision - 2, "engagement": 1.0, "place": "home" if decision % 2 else "other"},
        )
        reply = DecisionReply.model_validate_json(decide(trial, asked))
        value = outcome(decision)
        if value is not None:
            known = Outcome(decision_id=reply.decision_id, outcome=value, timestamp=moment(24 * day + 1))
            record_outcomes(trial, [known])


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=OUTCOMES)
@pytest.mark.parametrize(("method", "pooling"), METHODS)
def test_every_night_of_the_first_days(begin, method, pooling, outcome):
    trial = begin(method, pooling)
    assert update(trial)[0] == "waiting"
    for day in range(5):
        live_a_day(trial, day, outcome)
        state, status = update(trial)
        assert state in ("waiting", "done", "refused", "failed")
        assert state == "done" or len(status["message"]) > 20
        if outcome(0) is None:
            assert (state, status["message"]) == ("waiting", "nobody has 1 complete decision points yet")
            assert status["result"]["used"] == 0
            assert status["result"]["missing"]["steps"] == status["result"]["available"]
