"""Golden values of the tests of R's MRTAnalysis 0.4.1, on data drawn as R draws them or on R's own data sets."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import surefoot as sf
from tests.effects.trials import COLUMNS, make_trial
from tests.reference.r_random import RRandom

DATA = "SUREFOOT_MRTANALYSIS_DATA"
"""A folder with R's data sets as CSV: `write.csv(data_mimicHeartSteps, "data_mimicHeartSteps.csv", row.names = FALSE)`."""


def _read(name):
    path = Path(os.environ.get(DATA, ".")) / f"{name}.csv"
    if DATA not in os.environ or not path.is_file():
        pytest.skip(f"needs {name}.csv of R's MRTAnalysis in the folder that {DATA} names")
    return pd.read_csv(path)


def _draw_binary(people=100, points=30):
    """R's `data_binary`: log-linear risks, probabilities that change over time, 80 % available."""
    r = RRandom(123)
    rows = []
    for point in range(1, points + 1):
        available = r.binomial([0.8] * people)
        p = {1: 0.3, 2: 0.5, 0: 0.7}[point % 3]
        action = r.binomial([p] * people) * available
        early, late = point / points, float(point > points / 2)
        risk = np.exp(-1.5 + 0.5 * early + 0.3 * late + action * (0.1 + 0.3 * early))
        columns = {"id": np.arange(people), "t": point, "early": early, "late": late, "available": available}
        rows.append(pd.DataFrame(columns | {"sent": action, "p": p, "y": r.binomial(risk)}))
    return pd.concat(rows)


@pytest.mark.parametrize(
    ("estimator", "effect", "controls", "error"),
    [
        ("emee", [0.08114495, 0.42931332], [-1.4542369, 0.4565905, 0.2479836], [0.1301265, 0.1882975]),
        ("emee2", [0.08502509, 0.41260611], [-1.4358563, 0.6935913, 0.2647090], [0.1250711, 0.1810747]),
    ],
)
def test_relative_risks_in_the_binary_data_set(estimator, effect, controls, error):
    roles = {"participant": "id", "time": "t", "outcome": "y", "treatment": "sent", "probability": "p"}
    asked = roles | {"probability_of": "sending", "available": "available"}
    result = sf.effects.excursion_effect(
        _draw_binary(), estimator=estimator, moderators=["early"], controls=["early", "late"], numerator=None, **asked
    )
    np.testing.assert_allclose(result.params, effect, rtol=0, atol=1e-6)
    np.testing.assert_allclose(result.nuisance_params, controls, rtol=0, atol=1e-6)
    np.testing.assert_allclose(np.sqrt(np.diagonal(result.cov_params(corrected=False))), error, rtol=0, atol=1e-6)


def test_the_data_set_like_heartsteps():
    frame = _read("data_mimicHeartSteps")
    roles = {"participant": "userid", "time": "decision_point", "outcome": "logstep_30min", "treatment": "intervention"}
    result = sf.effects.wcls(
        frame, probability=0.6, available="avail", numerator=0.6, controls=["logstep_pre30min"], **roles
    )
    found = [*result.nuisance_params, *result.params]
    np.testing.assert_allclose(found, [2.0115176, 0.3395683, 0.1574444], rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("moderators", "effect", "first"),
    [
        ([], [0.1979866987698689, 0.0480704646343919], [0.01036981416230788, -0.00016921445486038]),
        (
            ["dp"],
            [0.71908740165959406, -0.09474558234358638, 0.06959180573114729, -0.00391297110850097],
            [0.082884440586941444, -0.0131549921146291, -0.000306859752477631, 4.01704980987720e-04],
        ),
    ],
)
def test_the_data_set_with_a_mediator(moderators, effect, first):
    frame = _read("data_time_varying_mediator_distal_outcome")
    roles = {"participant": "id", "time": "dp", "outcome": "Y", "treatment": "A", "mediator": "M", "available": "I"}
    asked = roles | {"probability": "p_A", "probability_of": "sending", "controls": ["dp", "X"]}
    result = sf.effects.mcee(frame, moderators=moderators, **asked)
    np.testing.assert_allclose(result.params, effect, rtol=0, atol=1e-9)
    np.testing.assert_allclose(result.cov_params()[0], first, rtol=0, atol=1e-9)


def test_the_data_set_with_a_distal_outcome():
    frame = _read("data_distal_continuous")
    roles = {"participant": "userid", "time": "dp", "outcome": "Y", "treatment": "A", "available": "avail"}
    asked = roles | {"probability": "prob_A", "probability_of": "sending", "controls": ["X", "Z"]}
    result = sf.effects.dcee(frame, moderators=["X"], **asked)
    np.testing.assert_allclose(result.params, [1.17980399254421, 1.16972335259455], rtol=0, atol=1e-9)
    covariance = [[0.26044556877145941, 0.00749580197508566], [0.00749580197508568, 0.17414432423865939]]
    np.testing.assert_allclose(result.cov_params(), covariance, rtol=0, atol=1e-9)


@pytest.mark.parametrize("estimator", ["wcls", "emee"])
def test_ids_may_appear_in_any_order(estimator):
    """Up to 0.3.0, R's `wcls` mixed up participants whose ids were not sorted, and those with unequal numbers of rows."""
    frame = make_trial(6, people=25)
    frame = frame[frame["t"] < 10 + frame["person"].str[1:].astype(int) % 7]
    outcome = "b" if estimator == "emee" else "y"
    asked = COLUMNS | {"outcome": outcome, "controls": ["x"], "moderators": ["home"], "estimator": estimator}
    plain = sf.effects.excursion_effect(frame, **asked)
    names = frame["person"].unique()
    new_ids = dict(zip(names, np.random.default_rng(1).permutation([9, 10, 100, 2, *range(200, 221)]), strict=True))
    renamed = frame.assign(person=frame["person"].map(new_ids))
    for other in (
        renamed,
        renamed.assign(person=renamed["person"].astype(str)),
        renamed.sample(frac=1, random_state=4),
        renamed.sort_values(["person", "t"], ascending=[False, True]),
    ):
        result = sf.effects.excursion_effect(other, **asked)
        np.testing.assert_allclose(result.params, plain.params, rtol=0, atol=1e-10)
        np.testing.assert_allclose(result.cov_params(), plain.cov_params(), rtol=0, atol=1e-10)
