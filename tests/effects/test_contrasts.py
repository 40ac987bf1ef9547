"""Several actions compared with each other, one at a time and together."""

import json

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import surefoot as sf
from surefoot.effects import analyse, emee, wcls
from tests.effects.trials import COLUMNS, make_trial

SEVERAL = COLUMNS | {"probability": ["p", "p"], "actions": ["nothing", "walk", "rest"]}


@pytest.mark.parametrize("estimate", [wcls, emee])
def test_all_pairs_have_the_estimates_of_single_contrasts_and_wider_intervals(estimate):
    frame = make_trial(3, people=40, points=30, actions=3)
    frame["y"] = frame["b"] if estimate is emee else frame["y"]
    result = estimate(frame, controls=["x"], **SEVERAL)
    together = result.compare_actions()
    assert together.names == ("walk against nothing", "rest against nothing", "rest against walk")
    single = [result.effect_at(action=a, against=b) for a, b in (("walk", "nothing"), ("rest", "nothing"), ("rest", "walk"))]
    assert together.effect == pytest.approx([contrast.effect[0] for contrast in single])
    assert together.sd == pytest.approx([contrast.sd[0] for contrast in single])
    for contrast, p, (low, high) in zip(single, together.pvalue, together.conf_int(), strict=True):
        alone = contrast.conf_int()[0]
        bonferroni = contrast.conf_int(0.05 / 3)[0]
        assert bonferroni[0] < low < alone[0] and alone[1] < high < bonferroni[1]
        assert contrast.pvalue[0] <= p <= min(1.0, 3 * contrast.pvalue[0])
        # An interval excludes 0 where the adjusted p-value is below 0.05, and there only.
        assert (low > 0 or high < 0) == (p < 0.05)
    assert list(together.to_frame("pyarrow").to_pylist()[0]) == [
        *("effect", "estimate", "standard_error", "t", "p_value", "low", "high"),
    ]


def test_two_actions_have_one_comparison_with_the_usual_interval():
    result = wcls(make_trial(1), controls=["x"], **COLUMNS)
    together = result.compare_actions()
    assert together.conf_int() == pytest.approx(result.conf_int(), abs=1e-9)
    assert together.pvalue == pytest.approx(result.pvalues, rel=1e-6)


def test_comparisons_at_values_of_moderators():
    frame = make_trial(3, people=40, points=30, actions=3)
    result = wcls(frame, moderators=["home"], controls=["x", "home"], **SEVERAL)
    at_home = result.compare_actions({"home": 1})
    assert at_home.effect[2] == pytest.approx(result.effect_at({"home": 1}, action="rest", against="walk").effect[0])
    with pytest.raises(sf.InputError, match="have no value"):
        result.compare_actions()


def test_the_report_shows_all_pairs_with_intervals_that_hold_together():
    frame = make_trial(3, people=40, points=30, actions=3)
    report = analyse(frame, moderators=["home"], controls=["x"], at=[{"home": 1}], **SEVERAL)
    together = report.main.compare_actions()
    average = [row for row in report.pairs if row.analysis == "average"]
    assert [row.estimate for row in average] == pytest.approx(together.effect.tolist())
    ends = [[row.simultaneous_low, row.simultaneous_high] for row in average]
    assert np.array(ends) == pytest.approx(together.conf_int())
    assert len(report.pairs) == 6  # Three pairs on average and three at home.
    assert "rest against walk" in str(report.summary()) and "p (all pairs)" in str(report.summary())
    assert "All pairs of actions" in report.to_html()
    effects = json.loads(json.dumps(report.to_dict()))["effects"]
    assert effects[0]["simultaneous_p"] == average[0].simultaneous_p
    assert report.to_frame("pyarrow")["simultaneous_high"][0].as_py() == average[0].simultaneous_high
    two = analyse(make_trial(2), **COLUMNS)
    assert not two.pairs and "All pairs" not in two.to_html()


def test_all_intervals_cover_together_in_simulated_trials():
    """With four actions and no effect, all six pairs cover 0 in about 95 % of trials; single intervals do not."""
    rng = np.random.default_rng(0)
    people, points, trials = 25, 12, 200
    asked = {"participant": "person", "time": "t", "outcome": "y", "treatment": "sent", "probability": ["p"] * 3}
    base = {"person": np.repeat(np.arange(people), points), "t": np.tile(np.arange(points), people)}
    covered = {"together": 0, "alone": 0}
    for _ in range(trials):
        level = np.repeat(rng.normal(size=people), points)
        frame = pa.table(base | {"sent": rng.integers(0, 4, people * points), "p": np.full(people * points, 0.25),
                                 "y": level + rng.normal(size=people * points)})  # fmt: skip
        analysis = sf.effects.analysis.Analysis(**asked, probability_of="sending")
        result = sf.effects.result.fit_analysis(frame, analysis, check_draws=False)
        together = result.compare_actions()
        covered["together"] += bool(together.largest.exceed(np.abs(together.tvalue).max()) > 0.05)
        covered["alone"] += bool((np.abs(together.tvalue) < stats.t.ppf(0.975, together.df_denom)).all())
    assert 0.925 <= covered["together"] / trials <= 0.985
    assert covered["alone"] / trials < 0.88
