import json

import numpy as np
import pytest
import sqlalchemy as sa

from surefoot.service.dashboard import policy_pages
from surefoot.service.database import clock
from surefoot.service.database.ledger import insert_recorded
from surefoot.service.database.schema import decisions
from surefoot.trial_rules.choices import policy_probabilities
from tests.service.dashboard.pages import sign_in


def test_versions_are_compared_on_the_same_states(seeded):
    """Against the code that decides, one decision point at a time."""
    drift = policy_pages.find_drift(seeded, clock.now())
    with seeded.database.autocommit() as connection:
        rows = connection.execute(
            sa.select(decisions.c.participant_id, decisions.c.state).where(decisions.c.available)
        ).all()
    points = [(row.participant_id, json.loads(row.state)) for row in rows]
    points = [(one, state) for one, state in points if None not in state]
    assert (drift["points"], drift["people"], len(drift["versions"])) == (len(points), 4, 2)
    send = {}
    for shown in drift["versions"]:
        version = seeded.policies.get(shown["id"])
        send[shown["id"]] = np.array(
            [
                1 - policy_probabilities(seeded.study, version, one, state)[0] if version.covers(one) else 0.5
                for one, state in points
            ]
        )
        assert shown["send"] == pytest.approx((send[shown["id"]].mean(), *np.quantile(send[shown["id"]], (0.1, 0.9))))
    first, second = drift["versions"]
    assert first["moved"] is None
    assert second["moved"] == pytest.approx(np.abs(send[2] - send[1]).mean()) and second["moved"] > 0
    assert (first["live"], second["live"]) == (False, True)


def test_typical_states_differ_in_one_variable(seeded):
    drift = policy_pages.find_drift(seeded, clock.now())
    middle, low, high, *_, other, home = drift["typical"]
    assert middle.startswith("the middle") and low.startswith("weather −") and high.startswith("weather ")
    assert (other, home) == ("place other", "place home") and len(drift["typical"]) == 7
    found = dict(zip(drift["typical"], drift["versions"][-1]["typical"], strict=True))
    assert found[low] < found[middle] < found[high], "sending helps in good weather"


def test_what_cannot_be_compared_says_why(seeded_browser, monkeypatch):
    browser = seeded_browser
    with browser.trial.database.transaction() as connection:
        row = {
            "update_id": None,
            "study_id": browser.trial.study_id,
            "created_at": clock.now(),
            "accepted": False,
            "content": "{}",
        }
        insert_recorded(connection, "policy", row)
    (*_, last) = policy_pages.find_drift(browser.trial, clock.now())["versions"]
    assert tuple(last[name] for name in ("problem", "send", "moved", "coefficients")) == ("cannot be read", None, None, [])
    sign_in(browser, "analyst")
    page = browser.get("/policies/drift").text
    assert "cannot be read" in page and "send: weather" in page and "place home" in page
    assert "policy 1 " in page and "95\N{NO-BREAK SPACE}% interval" in page
    monkeypatch.setattr(policy_pages, "VERSIONS", 1)
    older = policy_pages.find_drift(browser.trial, clock.now(), page=3)
    assert [version["id"] for version in older["versions"]] == [1] and older["listing"].last == 3


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_without_policies_or_states_there_is_still_a_page(browser):
    sign_in(browser, "analyst")
    assert "There is no policy yet" in browser.get("/policies/drift").text
