"""What if: the answer is that of the decision code, and nothing is kept."""

import json
from math import log

import pytest
import sqlalchemy as sa

from surefoot.service.database import clock
from surefoot.service.database.schema import metadata
from surefoot.service.trial.trial import open_trial
from surefoot.service.trial.what_if import answer_question
from surefoot.study import Study
from tests.service.dashboard.pages import sign_in
from tests.service.support.client import CONTEXT
from tests.service.support.trials import STUDY, answer, fill, moment, update

pytestmark = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
GOOD = "/what-if?state.weather=0.5&state.engagement=-1&state.place=home"


def count_rows(trial):
    with trial.database.snapshot() as connection:
        return {
            name: connection.scalar(sa.select(sa.func.count()).select_from(table)) for name, table in metadata.tables.items()
        }


@pytest.fixture
def learned(browser):
    fill(browser.trial, people=1, points=40)
    assert update(browser.trial)[0] == "done"
    sign_in(browser, "analyst")
    return browser


def ask(trial, **changes):
    return answer_question(trial, at=clock.now(), **{"context": CONTEXT, "derived": {}, "participant_id": "p0", **changes})


def test_the_answer_is_what_a_decision_gets(learned):
    found = ask(learned.trial)
    reply = answer(learned.trial, "p0", 1000, timestamp=moment(100))
    assert (found.choice.source, found.choice.policy_id) == ("policy", 1) and found.choice.probabilities == reply[
        "action_prob"
    ]
    weighed = sum(term.contribution for term in found.terms)
    assert weighed == pytest.approx(log(found.before_limits[1] / found.before_limits[0]))
    assert [term.feature for term in found.terms] == ["weather", "engagement", "place=home", "intercept"]


def test_nothing_is_kept_and_the_page_says_it_all(learned):
    before = count_rows(learned.trial)
    page = learned.get(f"{GOOD}&participant=p0").text
    found = ask(learned.trial)
    assert all(f"<b>{share:.3f}</b>" in page for share in found.choice.probabilities)
    assert "Policy 1</a> decides" in page and "weather" in page and 'value="0.5"' in page and "<option selected>home" in page
    assert count_rows(learned.trial) == before
    assert "Ask</button>" in learned.get("/what-if").text and "Answer" not in learned.get("/what-if").text


def test_limits_fallback_warm_up_and_availability(learned):
    trial = learned.trial
    far = ask(trial, context={**CONTEXT, "weather": 10.0})
    assert far.is_limited and far.choice.probabilities == pytest.approx([0.1, 0.9]) and far.before_limits[1] > 0.9
    blank = ask(trial, context={"weather": 50.0, "place": "home"})
    assert blank.choice.source == "fallback" and blank.choice.probabilities == [0.75, 0.25] and not blank.terms
    assert blank.choice.reasons == ("missing: engagement", "implausible: weather")
    assert ask(trial, participant_id="").choice.source == "warm-up"
    assert ask(trial, available=False).choice.probabilities == [1.0, 0.0]
    texts = {
        "&state.weather=50": "implausible: weather",
        "&state.weather=": "missing: weather",
        "&participant=": "no rule for somebody new",
        "&available=no&participant=p0": "Nothing is sent",
        "&state.weather=10&participant=p0": "limits, 0.1 to 0.9",
    }
    base = GOOD.replace("state.weather=0.5&", "")
    for query, words in texts.items():
        full = base + ("" if "weather" in query else "&state.weather=0.5") + query
        assert words in learned.get(full).text, query


def test_wrong_questions_are_refused(learned):
    wrong = {"&participant=nobody": 404, "&version=99": 404, "&version=x": 404, "&available=maybe": 404}
    assert {query: learned.get(GOOD + query).status_code for query in wrong} == wrong
    for text in ("warm", "nan", "1e999"):
        page = learned.get(GOOD.replace("0.5", text))
        assert page.status_code == 422 and "is a number" in page.text
    assert learned.get(GOOD.replace("home", "h" * 201)).status_code == 422
    sign_in(learned, "coordinator")
    assert learned.get(GOOD).status_code == 403


def test_who_is_paused_is_told_of_beside_the_answer(learned):
    learned.ask("/study/pause", {"reason": "the board asked"}, role="admin")
    found = ask(learned.trial)
    assert found.stop == "paused: the study" and found.choice.source == "policy"
    assert "At present nothing would be sent" in learned.get(f"{GOOD}&participant=p0").text


def test_derived_states_come_from_the_records_or_the_form(url):
    study = STUDY.replace("[outcome]", '[state.dose]\nderived = "dose"\ndiscount = 0.5\n\n[outcome]')
    trial = open_trial(Study.parse(study), url)
    fill(trial, people=1, points=6)
    found = ask(trial)
    reply = answer(trial, "p0", 6, timestamp=moment(30))
    with trial.database.autocommit() as connection:
        stored = connection.scalar(sa.text("SELECT state FROM decisions WHERE decision_idx = 6"))
    assert found.state[-1] == json.loads(stored)[-1] > 0 and reply["source"] == found.choice.source == "warm-up"
    assert ask(trial, derived={"dose": 0.25}).state[-1] == 0.25
    assert ask(trial, participant_id="").choice.reasons == ("missing: dose",)
    trial.close()
