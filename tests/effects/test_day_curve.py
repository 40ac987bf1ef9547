"""The effect over days against a literal natural spline, a straight line, and a known curve."""

import numpy as np
import pandas as pd
import pytest

import surefoot as sf
from surefoot.effects.analysis import Analysis
from surefoot.effects.day_curve import fit_curve
from surefoot.effects.result import fit_analysis
from tests.effects.trials import COLUMNS, make_trial

ANALYSIS = Analysis(**COLUMNS, controls=["x"])


def fit_on(frame, **options):
    return fit_curve(lambda analysis: fit_analysis(frame, analysis, check_draws=False), ANALYSIS, "t", **options)


def make_literal_spline(days, knots):
    """Natural cubic splines by truncated powers (Hastie, Tibshirani, Friedman, section 5.2.1), without the constant."""

    def bend(j):
        cubes = np.maximum(days - knots[j], 0) ** 3 - np.maximum(days - knots[-1], 0) ** 3
        return cubes / (knots[-1] - knots[j])

    return np.column_stack([days, *(bend(j) - bend(len(knots) - 2) for j in range(len(knots) - 2))])


def test_the_curve_is_that_of_a_literal_natural_spline():
    frame = make_trial(3, people=40)
    curve = fit_on(frame)
    assert len(curve.knots) == 2
    knots = [0.0, *curve.knots, 19.0]
    columns = [f"s{j}" for j in range(3)]
    literal = frame.assign(**dict(zip(columns, make_literal_spline(frame["t"].to_numpy(float), knots).T, strict=True)))
    result = sf.effects.wcls(literal, **COLUMNS, moderators=columns, controls=["x", *columns])
    matrix = np.column_stack([np.ones(60), make_literal_spline(curve.values, knots)])
    expected = result.t_test(matrix)
    np.testing.assert_allclose(curve.effect, expected.effect, atol=1e-6)
    np.testing.assert_allclose(np.column_stack([curve.low, curve.high]), expected.conf_int(), atol=1e-6)
    widths = [curve.high - curve.low, curve.simultaneous_high - curve.simultaneous_low]
    assert (widths[1] > widths[0]).all()


def test_no_knots_and_few_people_give_a_straight_line():
    frame = make_trial(3, people=40)
    for curve in (fit_on(frame, knots=0), fit_on(make_trial(3, people=9))):
        assert curve.knots == () and "a straight line" in curve.describe()
        np.testing.assert_allclose(np.diff(curve.effect, 2), 0, atol=1e-9)
    assert fit_on(make_trial(3, people=4)) is None
    by_day = sf.effects.wcls(frame, **COLUMNS, moderators=["t"], controls=["x", "t"])
    at_end = fit_on(frame, knots=0)
    np.testing.assert_allclose(at_end.effect[-1], by_day.effect_at({"t": 19}).effect[0])
    np.testing.assert_allclose(at_end.low[-1], by_day.effect_at({"t": 19}).conf_int()[0, 0])


def test_days_that_are_missing_or_few_give_a_straight_line():
    frame = make_trial(3, people=40)
    assert fit_on(frame.assign(t=frame["t"] * 1.0)).knots
    two = fit_curve(lambda analysis: fit_analysis(frame, analysis, check_draws=False), ANALYSIS, "home")
    assert two.knots == ()


def test_bands_cover_a_known_curve():
    pointwise = []
    together = []
    for seed in range(20):
        frame = make_trial(500 + seed, people=40, effect=0.0)
        day = frame["t"].to_numpy(float)
        frame["y"] += frame["sent"] * (np.sin(np.pi * day / 19) - 0.5 * frame["home"])
        curve = fit_on(frame)
        truth = np.sin(np.pi * curve.values / 19)
        pointwise.append(np.mean((curve.low < truth) & (truth < curve.high)))
        together.append(((curve.simultaneous_low < truth) & (truth < curve.simultaneous_high)).all())
    assert np.mean(pointwise) > 0.88 and np.mean(together) >= 0.85
    line = fit_on(frame, knots=0)
    assert not ((line.low < truth) & (truth < line.high)).all()


def test_frame_and_figure_show_both_bands():
    curve = fit_on(make_trial(3, people=40))
    table = curve.to_frame("pandas")
    assert list(table) == ["t", "effect", "low", "high", "simultaneous_low", "simultaneous_high"] and len(table) == 60
    labels = curve.plot().figure.legends[0].get_texts()
    assert {"95 %, whole curve", "95 %, each value alone"} <= {text.get_text() for text in labels}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("distal")
    frame = make_trial(1, people=40)
    rng = np.random.default_rng(0)
    ends = pd.Series(rng.normal(70, 5, 40), index=sorted(frame["person"].unique()))
    frame["weight"] = frame["person"].map(ends) + 0.2 * frame.groupby("person")["sent"].transform("sum")
    frame["sex"] = np.where(frame["person"] < "P020", "f", "m")
    frame.to_csv(folder / "logs.csv", index=False)
    text = """[columns]
participant = "person"
time = "t"
available = "available"
probability = "p"
probability_of = "sending"
[actions]
column = "sent"
[outcome]
column = "y"
[state.x]
[state.home]
[state.day]
[groups]
sex = "sex"
[effects]
controls = ["x"]
lags = [0, 1]
distal = "weight"
"""
    return folder, frame, sf.effects.analyse_study(sf.Study.parse(text), folder / "logs.csv")


def test_the_forest_shows_proximal_lagged_group_and_distal_effects(study):
    _, frame, report = study
    (row,) = report.distal
    expected = sf.effects.dcee(frame, **{**COLUMNS, "outcome": "weight"}, controls=["x"])
    assert row.estimate == pytest.approx(expected.params[0]) and row.low == pytest.approx(expected.conf_int()[0, 0])
    assert row.outcome_sd == pytest.approx(frame.groupby("person")["weight"].first().std())
    axes = report.plot()
    assert "standard deviations" in axes.get_xlabel()
    labels = " ".join(text.get_text() for text in axes.get_yticklabels())
    assert "lag 1" in labels and "sex: f" in labels and "distal outcome weight" in labels


def test_standardised_effects_stand_next_to_raw_ones(study):
    _, frame, report = study
    counted = frame[frame["available"] == 1]
    spread = counted["y"].std()
    row = report.table[0]
    assert row.standardised.value == pytest.approx(row.estimate / spread)
    assert row.standardised.high == pytest.approx(row.high / spread)
    table = report.to_frame("pandas")
    assert table["standardised"].iloc[0] == pytest.approx(row.estimate / spread)
    assert table["effect"].iloc[-1] == "average" and "distal" in table["analysis"].iloc[-1]
    assert report.to_dict()["effects"][0]["standardised"]["low"] == pytest.approx(row.low / spread)
    assert "in standard deviations" in str(report.summary()) and "in standard deviations" in report.to_html()
    grouped = report.groups[0].effects[0]
    assert grouped.standardised.value == pytest.approx(grouped.estimate / spread)
