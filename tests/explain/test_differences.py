import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

import surefoot as sf
from surefoot.explain import explain
from surefoot.explain.differences import Difference, describe_difference
from surefoot.inference.intervals import Interval


def make(own, drawn, spread=(2.0, 1.0, 3.0)):
    return Difference("send", "intercept", 1.0, Interval(spread[0], np.nan, *spread[1:]), np.array(own), np.array(drawn))


@pytest.fixture(scope="module")
def explained():
    simulator = sf.simulators.HeartSteps(participants=30, spread=1.0, seed=1)
    logs = simulator.collect(sf.policies.coin(2), decision_points=105, seed=2)
    return explain(sf.method("saccb", pooling="partial").fit(logs), draws=5)


def test_pulled_is_the_share_of_the_way_to_the_population():
    assert make([3.0, -1.0], [3.0, -1.0]).pulled == 0
    assert make([3.0, -1.0], [1.0, 1.0]).pulled == 1
    assert make([3.0, -1.0, np.nan], [1.5, 0.5, 9.0]).pulled == pytest.approx(0.75)
    assert make([1.0], [1.0]).pulled == 1


def test_sentences():
    assert describe_difference(make([3.0, -1.0], [1.5, 0.5])) == (
        "send, at the mean state: 1 for the population; standard deviation between people 2.0, 95 % interval 1.0 to 3.0; "
        "own fits were drawn 75 % of the way to everybody's."
    )
    assert "do not differ in it as far as can be told" in describe_difference(make([3.0], [1.0], (0.0, 0.0, 1.0)))
    assert "interval" not in describe_difference(make([3.0], [1.0], (2.0, np.nan, np.nan)))


def test_every_effect_of_an_action(explained):
    found = explained.differences
    assert [one.feature for one in found] == ["intercept", "weather", "engagement", "fatigue"]
    posterior, state = explained.fitted.posterior_, explained.fitted.logs_.state.mean(axis=0)
    assert_allclose(found[0].drawn, posterior.mean[:, 4] + posterior.mean[:, 5:] @ state, rtol=1e-9)
    assert_allclose(found[1].drawn, posterior.mean[:, 5], rtol=1e-9)
    own = sf.method("saccb", critic_penalty=0.0).fit(explained.fitted.logs_).critic_coef_
    assert_allclose(found[2].own, own[:, 6], rtol=1e-6)
    assert all(one.spread.low <= one.spread.value <= one.spread.high for one in found)
    assert all(0 <= one.pulled <= 1 for one in found)


def test_card_page_and_json_show_them(explained):
    assert "## How people differ" in explained.card().markdown()
    page = explained.render_page(title="Card", source="")
    assert "How far each participant was drawn" in page
    assert page.count("Own and partially pooled coefficients") == 4
    assert len(json.loads(json.dumps(explained.to_dict()["differences"]))) == 4


def test_without_partial_pooling_there_are_none(explained):
    logs = explained.fitted.logs_
    other = explain(sf.method("saccb", pooling="all").fit(logs), draws=5)
    assert other.differences == ()
    assert "How people differ" not in other.card().markdown()
    assert "How far each participant was drawn" not in other.render_page(title="Card", source="")


def test_correlated_differences_have_no_ends(explained):
    fitted = sf.method("linucb", pooling="partial", correlated_differences=True).fit(explained.fitted.logs_)
    found = explain(fitted, draws=5).differences[0]
    assert found.spread.value > 0 and np.isnan(found.spread.low)


def test_who_has_few_decision_points_has_no_fit_of_their_own():
    simulator = sf.simulators.HeartSteps(participants=12, spread=1.0, seed=1)
    logs = simulator.collect(sf.policies.coin(2), decision_points=60, seed=2)
    hidden = logs.with_values(reward=np.where((logs.participant_index == 3) & (logs.time > 4), np.nan, logs.reward))
    with pytest.warns(sf.FitWarning, match="participant 3"):
        fitted = sf.method("saccb", pooling="partial").fit(hidden)
    found = explain(fitted, draws=5)
    assert np.isnan(found.differences[0].own[3]) and np.isfinite(found.differences[0].drawn[3])
    rows = found.coefficients.own
    ends = [
        low
        for who, part, low in zip(rows["participant"], rows["part"], rows["low"], strict=True)
        if who == 3 and part == "policy"
    ]
    assert np.isnan(ends).all()
