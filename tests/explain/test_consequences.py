import pytest

import surefoot as sf
from surefoot.explain import explain
from surefoot.explain.policy_card import make_card


@pytest.fixture(scope="module")
def logs():
    return sf.simulators.HeartSteps(participants=40).collect(sf.policies.coin(2), decision_points=150, seed=3)


@pytest.fixture(scope="module")
def explained(logs):
    return explain(sf.method("ahead").fit(logs))


def test_the_card_shows_what_a_prompt_does_now_beside_what_it_costs_later(explained):
    (found,) = explained.consequences
    # 125 + 200 · 0.286 now; (0.6 + 0.05 · 1.09) · −250 / (1 − 0.725) + 0.4 · 100 / (1 − 0.3) later.
    assert found.immediate.low < 182 < found.immediate.high
    assert found.delayed.low < -538 < found.delayed.high < 0
    assert found.total.high < 0
    assert max(found.through, key=lambda name: abs(found.through[name])) == "fatigue"
    sections = dict(make_card(explained).sections)
    words = " ".join(sections["What an action does now and later"])
    assert f"send is felt for about {found.felt} decision points" in words
    assert "send pays now and costs more later" in words
    assert "linear model of what follows" in sections["What it does not know"][0]
    assert explained.to_dict()["consequences"][0]["felt"] == found.felt


def test_the_page_draws_it(explained):
    assert "Change in the outcome after send" in explained.to_html()


def test_a_myopic_policy_has_no_such_section(logs):
    found = explain(sf.method("accb", pooling="all").fit(logs))
    assert found.consequences == ()
    sections = dict(make_card(found).sections)
    assert "What an action does now and later" not in sections
    assert "proximal outcome only" in sections["What it does not know"][0]
