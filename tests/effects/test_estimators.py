"""Against R's MRTAnalysis, digit by digit, and the published HeartSteps V1 table."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import surefoot as sf
from surefoot.effects.analysis import Analysis
from surefoot.effects.result import fit_analysis
from tests.effects.reference import corrected_emee2_as_in_r

SHARED = Path(__file__).parents[3] / "shared"
CASES = SHARED / "excursion" / "cases.json"
HEARTSTEPS = SHARED / "heartsteps_v1" / "suggestions.csv"
ROLES = {"participant": "person", "time": "t", "treatment": "sent", "probability": "p", "probability_of": "sending"}
NAMES = [
    *("wcls_marginal_all", "wcls_home_all", "wcls_two_all", "wcls_noavail_P37", "wcls_day_P37"),
    *("emee_day_all", "emee_marginal_P37", "emee_home_P37", "emee2_marginal_all", "emee2_home_all", "emee2_day_P37"),
    *("dcee_home_all", "dcee_marginal_P37"),
    *(
        "lag_1_none_all",
        "lag_2_none_all",
        "lag_3_none_all",
        "lag_1_observed_P37",
        "lag_2_observed_P37",
        "lag_3_observed_P37",
    ),
]


@pytest.fixture(scope="module")
def cases():
    if not CASES.is_file():
        pytest.skip("needs R's numbers (excursion/cases.json), which are not part of the repository")
    return json.loads(CASES.read_text()), pd.read_csv(CASES.parent / "trial.csv")


def _fit(case, trial, order):
    """The case's analysis of the case's people, with the rows in another order each time."""
    frame = trial if case["people"] == "all" else trial[trial["person"] < case["people"]]
    frame = frame.sample(frac=1, random_state=order)
    available = "available" if case.get("available", True) else None
    asked = ROLES | {"available": available}
    if available is None:
        frame = frame.drop(columns="available")
    if case["estimator"] == "lag":
        return sf.effects.wcls(frame, outcome="y", controls=["x"], lag=case["lag"], future=case["future"], **asked)
    asked |= {"moderators": case["moderator"], "controls": case["control"]}
    if case["estimator"] != "emee2":  # R takes its numerator and does not use it; here it is refused.
        asked["numerator"] = case.get("numerator")
    outcome = {"wcls": "y", "dcee": "distal"}.get(case["estimator"], "b")
    # Without availability nothing is sent where it could have been, which is refused unless the draws go unchecked.
    analysis = Analysis(outcome=outcome, **asked)
    return fit_analysis(frame, analysis, estimator=case["estimator"], check_draws=case.get("available", True))


def _close(found, expected, tolerance=1e-8):
    np.testing.assert_allclose(np.ravel(found), np.ravel(expected), rtol=0, atol=tolerance)


def test_every_case_is_looked_at(cases):
    assert set(cases[0]) <= set(NAMES)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith(("wcls", "lag"))])
@pytest.mark.parametrize("order", [0, 1])
def test_wcls_and_lags(cases, name, order):
    case, found = cases[0][name], _fit(cases[0][name], cases[1], order)
    _close([*found.nuisance_params, *found.params], case["coefficients"])
    _close(found.cov_params(nuisance=True), case["vcov_md"])
    _close(found.cov_params(nuisance=True, corrected=False), case["vcov_plain"])
    if case["people"] != "all" and "table" in case:
        table = np.array(case["table"]["values"])
        _close(found.params, table[:, 0])
        _close(found.conf_int(), table[:, 1:3])
        _close(found.bse, table[:, 3])
        _close(found.tvalues**2, table[:, 4], 1e-7)
        assert found.df_resid == table[0, 6]
        _close(found.pvalues, table[:, 7])


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("emee_")])
def test_emee(cases, name):
    case, found = cases[0][name], _fit(cases[0][name], cases[1], 0)
    _close(found.params, case["beta"], 3e-9)
    _close(found.nuisance_params, case["alpha"], 3e-9)
    _close(found.cov_params(nuisance=True), case["varcov_md"])
    _close(found.cov_params(nuisance=True, corrected=False), case["varcov"])
    _close(found.conf_int(), case["ci_t"])


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("emee2")])
def test_emee2_differs_from_r_only_in_the_unavailable_rows_of_the_hat_matrix(cases, name):
    case, found = cases[0][name], _fit(cases[0][name], cases[1], 0)
    _close(found.params, case["beta"], 3e-9)
    _close(found.cov_params(nuisance=True, corrected=False), case["varcov"])
    frame = cases[1] if case["people"] == "all" else cases[1][cases[1]["person"] < case["people"]]
    terms = {role: [t for t in case[role[:-1]].strip("~").split("+") if t != "1"] for role in ("moderators", "controls")}
    as_in_r = corrected_emee2_as_in_r(frame, **terms, alpha=found.nuisance_params, beta=found.params)
    _close(as_in_r, case["varcov_md"])
    relative = found.bse / np.sqrt(np.diagonal(as_in_r))[-len(found.params) :]
    assert 0 < np.abs(relative - 1).max() < 0.01


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("dcee")])
def test_dcee(cases, name):
    case, found = cases[0][name], _fit(cases[0][name], cases[1], 0)
    _close(found.params, case["beta"])
    _close(found.cov_params(), case["varcov"])
    assert found.df_resid == case["df"]


@pytest.fixture(scope="module")
def heartsteps():
    if not HEARTSTEPS.is_file():
        pytest.skip("needs HeartSteps V1's suggestions.csv, which is not part of the repository")
    return sf.datasets.heartsteps_v1(HEARTSTEPS, backend="pandas").frame.assign(p=0.6)


def test_heartsteps_v1_as_published(heartsteps):
    asked = {"participant": heartsteps.columns[0], "time": "decision", "outcome": "steps", "treatment": "send",
             "probability": "p", "probability_of": "sending", "available": "available", "numerator": 0.6,
             "transform": "log(x + 0.5)", "controls": ["log_steps_before"],
             "missing_as": {"steps": 0, "log_steps_before": float(np.log(0.5))}}  # fmt: skip
    found = sf.effects.analyse(heartsteps, moderators=["day"], at=[{"day": 0}, {"day": 40}], **asked)
    published = [
        (0.13119528, 0.06739234, -0.00576243, 0.26815298, 0.05986616),
        (0.50743687, 0.15051008, 0.20085788, 0.81401587, 0.00196748),
        (-0.01848427, 0.00609664, -0.03090271, -0.00606583, 0.00478783),
    ]
    for row, numbers in zip(found.table, published, strict=False):
        _close([row.estimate, row.standard_error, row.low, row.high, row.p], numbers, 1e-7)
    assert found.main.rows == 6061 and found.main.people == 37
    complete = found.other_missing[0]
    _close([complete.estimate, complete.standard_error], [0.14924322, 0.07482053], 1e-7)
    assert "5,321" in complete.analysis
    missing = found.quality.missing.effect
    assert (round(missing.value, 4), round(missing.standard_error, 4)) == (-0.0005, 0.0068)
