"""The analysis that a study writes down, on files: public, made up, and exported by the service."""

import numpy as np
import pandas as pd
import pytest

import surefoot as sf
from surefoot import InputError, Study
from surefoot.effects import analyse_study, dcee, wcls
from surefoot.study.collection_section import CONSEQUENCES
from tests.datasets.test_heartsteps_v1 import FILE, needs_file
from tests.effects.trials import make_trial

STUDY = """
[columns]
participant = "person"
time = "t"
available = "available"
probability = "taken"
[state.x]
scaling = { centre = 1.0, scale = 2.0 }
[state.at]
kind = "category"
levels = ["elsewhere", "home"]
[state.day]
[actions]
column = "sent"
[outcome]
column = "y"
[effects]
controls = ["x"]
moderators = ["at"]
at = [{ "at=home" = 1 }]
"""


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    frame = make_trial(5).sample(frac=1, random_state=0)
    frame["at"] = np.where(frame["home"] == 1, "home", "elsewhere")
    frame["end"] = frame.groupby("person")["y"].transform("sum")
    frame["pn"] = 0.3 + 0.3 * frame["home"]
    path = tmp_path_factory.mktemp("trial") / "logs.csv"
    frame.drop(columns=["p", "home"]).to_csv(path, index=False)
    return path, frame


def test_the_study_s_analysis_is_that_of_the_frame(logs):
    path, frame = logs
    found = analyse_study(Study.parse(STUDY), path)
    roles = {"participant": "person", "time": "t", "outcome": "y", "treatment": "sent", "probability": "p",
             "probability_of": "sending"}  # fmt: skip
    by_hand = wcls(frame, moderators=["home"], controls=["x", "home"], available="available", **roles)
    assert found.table[0].effect == "average" and found.curve.over == "day"
    rows = {row.effect: row for row in found.table}
    assert rows["at=home = 1"].estimate == pytest.approx(by_hand.params.sum(), rel=1e-10)
    assert rows["per 1 of at=home"].standard_error == pytest.approx(by_hand.bse[1], rel=1e-9)


def test_outcomes_and_numerators_may_be_other_columns_of_the_logs(logs):
    path, frame = logs
    distal = analyse_study(Study.parse(STUDY.replace("[effects]", '[effects]\nestimator = "dcee"\noutcome = "end"')), path)
    roles = {"participant": "person", "time": "t", "outcome": "end", "treatment": "sent", "probability": "p",
             "probability_of": "sending"}  # fmt: skip
    assert distal.table[0].estimate == pytest.approx(dcee(frame, controls=["x"], available="available", **roles).params[0])
    binary = analyse_study(Study.parse(STUDY.replace("[effects]", '[effects]\nestimator = "emee"\noutcome = "b"')), path)
    assert binary.words.chance
    weighed = STUDY.replace("[effects]", '[effects]\nnumerator = "pn"')
    roles |= {"outcome": "y", "available": "available", "numerator": "pn"}
    by_hand = wcls(frame, moderators=["home"], controls=["x", "home"], **roles)
    assert analyse_study(Study.parse(weighed), path).table[2].estimate == pytest.approx(by_hand.params[1], rel=1e-9)
    with pytest.raises(InputError, match="a numerator may depend on the moderators only"):
        analyse_study(Study.parse(weighed[: weighed.index("moderators")]), path)
    with pytest.raises(InputError, match="'nowhere'"):
        analyse_study(Study.parse(STUDY.replace("[effects]", '[effects]\noutcome = "nowhere"')), path)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ('controls = ["xx"]', "effects.controls.*'xx' is not a state variable"),
        ('moderators = ["y"]', "known before the decision"),
        ('estimator = "gee"', "effects.estimator"),
        ("lag = 1", "unknown key .did you mean 'lags'"),
        ("lags = []", "effects.lags"),
        ("lags = [-1]", "effects.lags"),
    ],
)
def test_sections_that_cannot_be_right_are_refused_with_their_line(changed, message):
    start = STUDY[: STUDY.index("controls")]
    with pytest.raises(InputError, match=message) as caught:
        Study.parse(start + changed)
    assert "line " in str(caught.value)


def test_refusals_name_the_row_of_the_file(logs, tmp_path):
    _, frame = logs
    broken = frame.reset_index(drop=True)
    row = int(np.flatnonzero(broken["available"] == 1)[7])
    broken.loc[row, "taken"] = 1.0
    broken.to_csv(tmp_path / "logs.csv", index=False)
    with pytest.raises(InputError, match=f"row {row}, column 'taken', .*the probability is 1 at an available row"):
        analyse_study(Study.parse(STUDY), tmp_path / "logs.csv")


def test_the_report_follows_what_the_study_says_of_its_logs_not_the_method_it_will_fit(logs, tmp_path):
    path, frame = logs
    for pooling in ("person", "all"):
        unknown = analyse_study(Study.parse(STUDY + f'[method]\npooling = "{pooling}"\n'), path)
        assert CONSEQUENCES["unknown"] in unknown.error_sentences
        assert CONSEQUENCES["own"] not in unknown.error_sentences
    pooled = Study.parse(STUDY + '[collection]\npolicy = "pooled"\n')
    assert CONSEQUENCES["pooled"] in analyse_study(pooled, path).error_sentences
    rng = np.random.default_rng(0)
    coin = frame.assign(sent=rng.integers(0, 2, len(frame)) * frame["available"], taken=0.5)
    coin.to_csv(tmp_path / "coin.csv", index=False)
    assert CONSEQUENCES["pooled"] not in analyse_study(pooled, tmp_path / "coin.csv").error_sentences


@needs_file
def test_the_imported_heartsteps_study_carries_the_published_analysis(tmp_path):
    from pyarrow import parquet

    trial = sf.datasets.heartsteps_v1(FILE, backend="pyarrow")
    parquet.write_table(trial.frame, tmp_path / "logs.parquet")
    found = analyse_study(trial.study, tmp_path / "logs.parquet")
    published = {
        "average": (0.13119528, 0.06739234, -0.00576243, 0.26815298, 0.05986616),
        "by day: day = 0": (0.50743687, 0.15051008, 0.20085788, 0.81401587, 0.00196748),
        "by day: per 1 of day": (-0.01848427, 0.00609664, -0.03090271, -0.00606583, 0.00478783),
    }
    for row in found.table:
        if row.label in published:
            numbers = row.estimate, row.standard_error, row.low, row.high, row.p
            np.testing.assert_allclose(numbers, published.pop(row.label), rtol=0, atol=1e-7)
    assert not published
    assert found.sentences[0].startswith(
        "A suggestion raises steps in the next half hour by about 14 % (95 % interval −1 % to +31 %)."
    )


def test_study_days_come_from_the_clock_where_no_variable_holds_them(logs, tmp_path):
    _, frame = logs
    start = pd.Timestamp("2026-01-01 20:00") + pd.to_timedelta(frame["person"].str[1:].astype(int), unit="D")
    frame.assign(t=start + pd.to_timedelta(6 * frame["t"], unit="h")).to_csv(tmp_path / "dated.csv", index=False)
    curve = analyse_study(Study.parse(STUDY.replace("[state.day]\n", "")), tmp_path / "dated.csv").curve
    assert curve.over == "day" and (curve.values[0], curve.values[-1]) == (0, 5)


def test_frames_with_dates_are_ordered_by_them(logs):
    _, frame = logs
    dated = frame.assign(t=pd.Timestamp("2026-01-01") + pd.to_timedelta(frame["t"], unit="h"))
    roles = {"participant": "person", "time": "t", "outcome": "y", "treatment": "sent", "probability": "p",
             "probability_of": "sending", "available": "available", "lag": 1}  # fmt: skip
    np.testing.assert_array_equal(wcls(dated, **roles).params, wcls(frame, **roles).params)
