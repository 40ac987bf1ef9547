"""The three analyses next to each other, the curve over shifts, the study file and the page."""

import json
from dataclasses import replace

import numpy as np
import pytest
from benchmarks import missing_outcomes as simulation

import surefoot as sf
from surefoot import Study
from surefoot.effects import analyse_study
from surefoot.effects.estimators import ESTIMATORS, solve
from surefoot.effects.missing_outcomes import pool
from surefoot.effects.missing_sensitivity import WIDEST, count_missing, list_curves
from tests.effects.test_missing_outcomes import METHODS, lose_outcomes
from tests.effects.trials import COLUMNS, make_trial
from tests.reference.adaptive_sandwich import PooledTrial

STUDY = """
[columns]
participant = "person"
time = "t"
available = "available"
probability = "taken"
[state.x]
[state.home]
[actions]
column = "sent"
names = ["nothing", "prompt"]
[outcome]
column = "y"
[effects]
controls = ["x"]
missing = "weighted"
"""


@pytest.fixture(scope="module")
def imputed():
    return sf.effects.wcls(lose_outcomes(make_trial(1)), **COLUMNS, controls=["x"], missing="imputed", imputations=6)


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    frame = lose_outcomes(make_trial(2))
    frame["sex"] = np.where(frame["person"] < "P015", "woman", "man")
    path = tmp_path_factory.mktemp("trial") / "logs.csv"
    frame.drop(columns=["p"]).to_csv(path, index=False)
    return path


def test_the_curve_is_that_of_shifted_outcomes(imputed):
    """Every shift fitted again, for both patterns."""
    imputations = imputed.imputations
    for curve, pattern in zip(list_curves(imputed), (imputations.series.treated[:, 0], None), strict=True):
        for j in (0, 37, 120):
            amounts = np.ones(len(imputations.draws.entries)) if pattern is None else pattern[imputations.draws.entries]
            estimates = []
            for outcomes in imputations.draws.outcomes + curve.shifts[j] * amounts:
                estimates.append(solve(ESTIMATORS["wcls"].make(imputations.complete(imputed.points, outcomes))))
            pooled = pool(estimates)[0]
            position = imputed.estimate.function.controls
            assert curve.effect[j] == pytest.approx(pooled.theta[position])
            error = np.sqrt(pooled.corrected[position, position])
            half = curve.high[j] - curve.effect[j]
            assert 1.96 < half / error < 2.3


def test_the_tipping_point_is_where_the_interval_touches_zero(imputed):
    curve = list_curves(imputed)[0]
    ends = [np.interp(curve.tipping, curve.shifts, end) for end in (curve.low, curve.high)]
    assert min(map(abs, ends)) == pytest.approx(0, abs=1e-9)
    assert np.interp(curve.crossing, curve.shifts, curve.effect) == pytest.approx(0, abs=1e-9)
    low, high = curve.crossing_interval
    assert low < curve.crossing < high and curve.tipping in (low, high)
    without = list_curves(imputed)[1].to_dict()
    assert without["pattern"] == "all unseen outcomes" and len(without["shifts"]) == len(without["low"])
    plain = sf.effects.wcls(make_trial(1), **COLUMNS)
    with pytest.raises(sf.InputError, match="needs imputed outcomes"):
        list_curves(plain)


def test_the_curve_crosses_zero_where_the_simulation_says(monkeypatch):
    monkeypatch.setattr("surefoot.effects.imputation.SWEEPS", 15)
    records = [simulation.run_shift(seed) for seed in range(30_000, 30_010)]
    assert np.mean([record["effect"] for record in records]) == pytest.approx(0, abs=0.08)
    assert np.median([record["crossing"] for record in records]) == pytest.approx(simulation.SHIFT, abs=0.2)
    assert sum(record["low"] < simulation.SHIFT < record["high"] for record in records) >= 7


def test_shifted_log_odds_of_binary_outcomes():
    frame = lose_outcomes(make_trial(3), "b")
    options = {**COLUMNS, "outcome": "b", "missing": "imputed", "imputations": 3}
    result = sf.effects.emee(frame, **options)
    draws = result.imputations.draws
    np.testing.assert_array_equal(draws.shift(np.zeros(len(draws.entries))), draws.outcomes)
    after = list_curves(result)[0]
    assert (np.diff(after.effect) >= 0).all() and after.shifts[-1] == WIDEST
    assert after.effect[len(after.effect) // 2] == pytest.approx(result.params[0])


def test_missing_outcomes_by_action_and_their_test():
    frame = make_trial(4, people=20)
    frame.loc[(frame["sent"] == 1) & (frame["t"] % 2 == 0), "y"] = np.nan
    result = sf.effects.wcls(frame, **COLUMNS)
    rows, missing, test = count_missing(result.points)
    available = frame[frame["available"] == 1]
    assert rows == {"nothing": (available["sent"] == 0).sum(), "treatment": (available["sent"] == 1).sum()}
    assert missing == {"nothing": 0, "treatment": (available["y"].isna()).sum()}
    lost = sf.effects.wcls(frame.assign(lost=frame["y"].isna().astype(float)), **{**COLUMNS, "outcome": "lost"})
    assert test.pvalue == pytest.approx(lost.pvalues[0])


def test_the_report_has_all_three_and_says_where_they_disagree():
    frame = simulation.simulate_continuous(30_007).to_pandas()
    report = sf.effects.analyse(frame, **simulation.COLUMNS, controls=["x"], missing="weighted", imputations=5)
    missing = report.missing
    assert [row.label for row in missing.rows] == [f"average, {method}: average" for method in METHODS]
    assert report.table[0].estimate == missing.rows[1].estimate
    text = report.summary()
    assert 'The primary analysis is "weighted"' in " ".join(text.split())
    conclusions = {row.interval.excludes_zero for row in missing.rows}
    expected = "The conclusion depends on" if len(conclusions) > 1 else "All methods lead to the same conclusions"
    assert any(line.startswith(expected) for line in missing.lines())
    page = report.render_page(title="Effects", source="")
    assert "Missing outcomes" in page and "Calibration of the model" in page and "unseen outcomes after" in page
    data = json.loads(json.dumps(report.to_dict()))["missing_outcomes"]
    assert data["primary"] == "weighted" and len(data["shifts"]) == 2 and len(data["effects"]) == 3
    assert len(data["observation_model"]["calibration"]) == 10


def test_a_disagreement_is_named(logs):
    missing = analyse_study(Study.parse(STUDY), logs).missing
    clear = [replace(row, low=0.1, high=0.9) for row in missing.rows]
    unclear = replace(clear[0], low=-0.1)
    lines = replace(missing, rows=(unclear, *clear[1:])).lines()
    expected = 'the interval excludes no effect with "weighted" and with "imputed", but not with "complete".'
    assert any(line.startswith("The conclusion depends on") and line.endswith(expected) for line in lines)
    assert any(line.startswith("All methods lead") for line in replace(missing, rows=tuple(clear)).lines())
    later = [replace(row, analysis=row.analysis.replace("average", "average, lag 1")) for row in (unclear, *clear[1:])]
    lines = replace(missing, rows=(*clear, *later)).lines()
    assert any('For "average, lag 1: average", the interval' in line for line in lines)


def test_shifts_after_a_bandit_name_their_standard_errors(logs):
    missing = analyse_study(Study.parse(STUDY), logs).missing
    warning = "The shifts below are found with the usual standard errors."
    assert not any(warning in line for line in missing.lines())
    assert any(warning in line for line in replace(missing, errors="adaptive").lines())


def test_a_definition_of_missing_outcomes_leaves_none():
    frame = lose_outcomes(make_trial(5))
    assert sf.effects.analyse(frame, **COLUMNS, missing_as=0).missing is None
    assert sf.effects.analyse(make_trial(5), **COLUMNS).missing is None


def test_the_study_names_the_method(logs):
    report = analyse_study(Study.parse(STUDY), logs)
    assert report.missing.primary == "weighted"
    assert {"home", "prompt × home"} <= set(report.missing.observation.names)  # State variables that are no controls.
    with pytest.raises(sf.InputError, match="missing"):
        Study.parse(STUDY.replace('"weighted"', '"ignored"'))


@pytest.mark.parametrize("method", ["weighted", "imputed"])
def test_groups_screens_lags_and_formulas_of_a_study(logs, method):
    text = STUDY.replace('"weighted"', f'"{method}"\nimputations = 3\nlags = [0, 1]')
    report = analyse_study(Study.parse(text + '[screen]\n[groups]\nsex = "sex"\n'), logs)
    assert list(report.results) == ["average, lag 0", "average, lag 1"]
    assert all(np.isfinite(row.standard_error) for group in report.groups for row in group.effects)
    assert report.screened.reported[0].estimate == report.table[0].estimate
    formula = text.replace('controls = ["x"]', 'formula = "y ~ prompt * home + x"')
    by_home = analyse_study(Study.parse(formula), logs)
    assert {row.analysis.rpartition(", ")[2] for row in by_home.missing.rows} == set(METHODS)


@pytest.mark.parametrize("method", ["weighted", "imputed"])
def test_adaptive_errors(method):
    trial = PooledTrial.simulate(np.random.default_rng(5))
    rng = np.random.default_rng(0)
    outcome = np.where(rng.random(len(trial.outcome)) < 0.2, np.nan, trial.outcome)
    columns = {"person": trial.person, "t": trial.time, "sent": trial.action.astype(int), "p": trial.send(), "y": outcome}
    options = {name: value for name, value in COLUMNS.items() if name != "available"}
    result = sf.effects.wcls(sf.data.frames.make_frame(columns, "pandas"), **options, missing=method, imputations=3)
    adapted = result.adapt(sf.effects.UpdateHistory(trial.person, list(trial.list_updates())))
    assert adapted.params[0] == result.params[0]
    assert adapted.bse[0] != result.bse[0] and 0.5 < adapted.bse[0] / result.bse[0] < 2
