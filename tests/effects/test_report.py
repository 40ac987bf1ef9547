"""What stands beside an effect, and how it is told."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import surefoot as sf
from surefoot import InputError
from surefoot.data.frames import csv_text
from surefoot.effects import Words, analyse, wcls
from surefoot.effects.estimators import ESTIMATORS, estimate_robustly
from surefoot.effects.report import describe_effect
from surefoot.effects.result import assess_sample
from tests.effects.trials import COLUMNS, make_trial

ASKED = {**COLUMNS, "moderators": ["home"], "controls": ["x"]}


@pytest.fixture(scope="module")
def report():
    return analyse(make_trial(2), at=[{"home": 1}], lags=[0, 1], over="day", words=Words("prompt", "points"), **ASKED)


def test_average_and_moderated_effects_are_those_of_wcls(report):
    frame = make_trial(2)
    average = wcls(frame, controls=["x"], **COLUMNS)
    by_home = wcls(frame, moderators=["home"], controls=["x", "home"], **COLUMNS)
    rows = {row.label: row for row in report.table}
    assert rows["average, lag 0: average"].estimate == average.params[0]
    at_home = by_home.effect_at({"home": 1})
    assert rows["by home, lag 0: home = 1"].standard_error == at_home.sd[0]
    assert rows["by home, lag 0: per 1 of home"].p == by_home.pvalues[1]
    assert list(report.results) == ["average, lag 0", "by home, lag 0", "average, lag 1", "by home, lag 1"]
    assert report.joint["by home, lag 0"].pvalue == pytest.approx(by_home.pvalues[1])


def test_the_multiplicity_of_what_was_asked_is_said(report):
    assert len(report.table) == 8 and "all 8 tests" in report.notes[0]
    assert all(row.p_holm >= row.p for row in report.table)


def test_counts_and_shares_by_action_are_those_of_the_frame():
    frame = make_trial(4)
    lost = (frame["sent"] == 1) & (frame["t"] % 4 == 0)
    frame.loc[lost, "y"] = np.nan
    frame.loc[frame["person"] == "P005", "x"] = np.nan
    found = assess_sample(wcls(frame, controls=["x"], **COLUMNS).points)
    free = frame["available"] == 1
    assert found.rows == 600 and found.people == 30 and found.people_counted == 29
    assert found.reasons["not available"] == (~free).sum()
    assert found.reasons["outcome missing"] == (free & lost).sum()
    assert found.counted + sum(found.reasons.values()) == found.rows
    assert found.missing.happened == {"nothing": 0, "treatment": int((free & lost).sum())}
    assert found.missing.shares["treatment"] == pytest.approx(lost[free & (frame["sent"] == 1)].mean())
    assert found.missing.effect.low > 0


def test_the_effective_share_is_kish_s():
    points = wcls(make_trial(1), controls=["x"], **COLUMNS).points
    weight = points.weight[points.counted]
    assert assess_sample(points).effective_share == pytest.approx(weight.sum() ** 2 / (len(weight) * (weight**2).sum()))
    even = make_trial(1).assign(p=0.5)
    even["sent"] = np.random.default_rng(0).integers(0, 2, len(even)) * even["available"]
    assert assess_sample(wcls(even, **COLUMNS).points).effective_share == pytest.approx(1.0)


def test_outcomes_that_treatment_makes_extreme_are_noticed():
    frame = make_trial(6, people=40, points=30)
    rng = np.random.default_rng(0)
    frame["y"] += 30 * ((rng.random(len(frame)) < 0.1) & (frame["sent"] == 1))
    tail = assess_sample(wcls(frame, controls=["x"], **COLUMNS).points).tail
    assert tail.shares["treatment"] > 0.08 and tail.shares["nothing"] < 0.02 and tail.effect.low > 0
    binary = wcls(frame, controls=["x"], **(COLUMNS | {"outcome": "b"}))
    assert assess_sample(binary.points).tail is None


def test_robust_losses_follow_a_shift_and_miss_what_few_do():
    """Under a constant shift they agree with the mean; where 5 % respond with 1,500 steps they are far below its +75."""
    frame = make_trial(8, people=60, points=40, effect=1.0)
    frame["y"] -= 0.5 * frame["home"] * frame["sent"]
    plain = wcls(frame, controls=["x"], **COLUMNS)
    for loss in ("huber", "bisquare"):
        robust = estimate_robustly(plain.points, loss)
        assert abs(robust.theta[-1] - 1.0) < 4 * np.sqrt(robust.corrected[-1, -1])
    walkers = np.random.default_rng(1).random(len(frame)) < 0.05
    frame["y"] = frame["y"] - frame["sent"] + 1500 * frame["sent"] * walkers
    found = wcls(frame, controls=["x"], **COLUMNS)
    assert abs(found.params[0] - 75) < 3 * found.bse[0]
    assert estimate_robustly(found.points, "bisquare").theta[-1] < 5


def test_huber_is_that_of_scipy():
    from scipy.optimize import least_squares

    points = wcls(make_trial(9), controls=["x"], **COLUMNS).points.counted_only
    found = estimate_robustly(points, "huber")
    design = np.column_stack([np.ones(len(points)), points.controls[1], points.action - 0.5])
    start = np.linalg.lstsq(design * np.sqrt(points.weight)[:, None], points.outcome * np.sqrt(points.weight), rcond=None)[0]
    residual = points.outcome - design @ start
    scale = 1.4826 * np.median(np.abs(residual - np.median(residual)))

    def loss(theta):
        scaled = np.abs(points.outcome - design @ theta) / scale
        bent = np.where(scaled <= 1.345, scaled**2, 2 * 1.345 * scaled - 1.345**2)
        return np.sqrt(points.weight * bent)

    np.testing.assert_allclose(found.theta, least_squares(loss, start, xtol=1e-13, ftol=1e-13).x, atol=1e-5)


def test_what_a_robust_fit_left_over_is_not_analysed():
    points = wcls(make_trial(), **COLUMNS).points
    with pytest.raises(InputError, match="analysing the rest is refused"):
        estimate_robustly(points, "dropped")
    with pytest.raises(InputError, match="analysing the rest is refused"):
        analyse(make_trial(), sensitivity=["kept"], **COLUMNS)
    logs = sf.simulators.HeartSteps(participants=5).collect(sf.policies.coin(2), decision_points=40, seed=0)
    with pytest.raises(InputError, match="what a robust fit left over is not analysed"):
        wcls(sf.method("ro-accb").fit(logs), **COLUMNS)


@pytest.mark.parametrize(
    ("words", "numbers", "said"),
    [
        (Words("walk", "steps", True), (0.1312, -0.0058, 0.2682), "A walk raises steps by about 14 % (95 % interval −1 %"),
        (Words("email", "steps"), (-2.0, -3.0, -1.0), "An email lowers steps by about 2.0 (95 % interval −3.0 to −1.0)."),
        (Words("prompt", "answering", True, True), (0.4, 0.1, 0.7), "A prompt raises the chance of answering by about 49 %"),
    ],
)  # fmt: skip
def test_sentences(words, numbers, said):
    assert describe_effect(words, *numbers).startswith(said)


def test_effects_over_days_have_a_band(report):
    curve = report.curve
    assert curve.over == "day" and curve.values[0] == 0 and curve.values[-1] == 3
    assert ((curve.low < curve.effect) & (curve.effect < curve.high)).all()
    assert np.ptp(np.diff(curve.effect)) < 1e-9


def test_text_latex_csv_json_and_page_say_the_same(report):
    text = report.summary()
    latex = report.to_latex()
    table = csv_text(report.to_frame("pyarrow"))
    html = report.to_html(title="T", source="s")
    first = report.table[0]
    for form in (text, latex):
        assert f"{first.estimate:.4f}" in form
    assert (
        f"{first.estimate:.3g}" in html
        and html.count("<svg") == 2
        and "http" not in re.sub(r"http://www.w3.org\S+", "", html)
    )
    rows = pd.read_csv(pd.io.common.StringIO(table))
    assert rows["estimate"][0] == first.estimate and len(rows) == len(report.table)
    assert json.loads(json.dumps(report.to_dict()))["effects"][0]["estimate"] == first.estimate
    assert "Sensitivity, never the headline" in text and "Effective share" in text and "Missing outcomes" in text
    assert text.index("Sensitivity") > text.index("average, lag 0")
    assert max(map(len, text.splitlines())) <= 84
    assert latex.count(r"\\") == len(report.table) + 1


def test_binary_outcomes_are_told_as_chances():
    found = analyse(make_trial(5), estimator="emee", **(COLUMNS | {"outcome": "b", "controls": ["x"]}))
    assert "the chance of b by about" in found.sentences[0] and not found.sensitivity
    assert "log relative risk" in found.to_html()


def test_a_robust_loss_of_zeros_and_ones_is_left_out():
    frame = make_trial(5, people=20, points=10)
    frame["b"] = (np.random.default_rng(5).random(len(frame)) < 0.5).astype(float)
    found = analyse(frame, **(COLUMNS | {"outcome": "b"}))
    assert not any("bisquare" in row.analysis for row in found.sensitivity)
    with pytest.raises(InputError, match="cannot be estimated"):
        estimate_robustly(found.main.points, "bisquare")


def test_many_moderators_have_a_short_label():
    frame = make_trial(2)
    found = analyse(frame, **(COLUMNS | {"controls": "~ C(day) + C(home)", "moderators": "~ C(t % 6) + x"}))
    assert found.table[1].effect == "all 6 moderators = 0" and found.table[2].effect == "per 1 of C(t % 6)=1.0"


def test_an_effect_beyond_the_observed_values_is_called_an_extrapolation():
    frame = make_trial(2)
    found = analyse(frame, at=[{"x": 0.0}, {"x": 50.0}], **(COLUMNS | {"moderators": ["x"]}))
    notes = [note for note in found.notes if "extrapolates" in note]
    assert len(notes) == 1 and notes[0].startswith("x lies between -") and "where it is 50 " in notes[0]


def test_the_page_names_the_correction_and_degrees_of_the_first_row():
    frame = make_trial(6)
    frame["end"] = frame.groupby("person")["y"].transform("mean")
    published = analyse(frame, estimator="dcee", **(COLUMNS | {"outcome": "end"})).to_html()
    assert "as published, not corrected for small" in published and "Intervals are corrected" not in published
    frame.loc[frame["t"] % 3 == 0, "y"] = np.nan
    imputed = analyse(frame, missing="imputed", imputations=3, over="day", **COLUMNS)
    assert f"t distribution with {imputed.table[0].degrees:.4g} degrees" in imputed.to_html()
    assert f"{imputed.table[0].degrees:.4g} degrees of freedom" in str(imputed.main.summary())
    assert all(row.label.endswith(", complete rows: average") for row in imputed.sensitivity)


def test_several_actions_are_told_one_by_one():
    frame = make_trial(3, people=40, points=30, actions=3)
    asked = COLUMNS | {"probability": ["p", "p"], "actions": ["nothing", "walk", "rest"], "controls": ["x"]}
    found = analyse(frame, **asked)
    assert [row.effect for row in found.table] == ["walk: average", "rest: average", "rest against walk, average"]
    assert found.sentences[0].startswith("A walk raises") and found.sentences[1].startswith("A rest raises")
    assert any("difference between walk and nothing " in line for line in found.quality.describe())


def test_estimators_of_the_study_are_those_of_the_registry():
    from typing import get_args

    from surefoot.study.trial_section import EffectsSection

    assert get_args(EffectsSection.model_fields["estimator"].annotation) == tuple(ESTIMATORS)
