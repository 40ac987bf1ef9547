import numpy as np
import pytest
from numpy.testing import assert_allclose

import surefoot as sf
from surefoot.data.derived_states import Dose
from surefoot.simulators import HeartSteps, WithMemory

STUDY = """\
[columns]
participant = "participant"
time = "time"
available = "available"
probability = "probability"

[state.weather]

[state.dose]
derived = "dose"
discount = 0.9
scaling = { centre = 2, scale = 4 }

[state.engagement]

[method]
name = "ahead"

[trial]
day_boundary = 5
max_gap = 2
"""


def write_logs(tmp_path, people=25, points=40):
    logs = HeartSteps(participants=people).collect(sf.policies.coin(2), decision_points=points, seed=0)
    logs.to_frame("pandas").sample(frac=1.0, random_state=0).to_csv(tmp_path / "logs.csv", index=False)
    return logs


def test_a_derived_state_is_computed_where_it_stands_and_scaled(tmp_path):
    write_logs(tmp_path)
    study = sf.Study.parse(STUDY)
    assert study.state_names == ("weather", "dose", "engagement")
    assert study.descriptions["dose"] == "derived: dose"
    read = study.read(tmp_path / "logs.csv").logs
    simulated = WithMemory(HeartSteps(participants=25), {"dose": Dose(0.9)})
    expected = simulated.collect(sf.policies.coin(2), decision_points=40, seed=0)
    dose = expected.state[expected.order, 3]
    assert_allclose(read.state[read.order, 1], (dose - 2) / 4, rtol=1e-12)
    assert_allclose(read.state[read.order, 2], expected.state[expected.order, 1], rtol=1e-12)


def test_the_method_gets_horizon_pooling_nights_and_gaps_from_the_study(tmp_path):
    method = sf.Study.parse(STUDY).method()
    assert (method.horizon, method.pooling.name) == (sf.horizons.LongRun(max_gap=2, day_boundary=5), "all")
    assert sf.Study.parse(STUDY).pooling == "all"
    other = sf.Study.parse(STUDY.replace('name = "ahead"', 'name = "accb"\nhorizon = "long-run"\npooling = "all"')).method()
    assert other.horizon.name == "long-run"
    plain = sf.Study.parse(STUDY.replace('name = "ahead"', 'name = "accb"')).method()
    assert (plain.horizon.name, plain.pooling.name) == ("immediate", "person")
    write_logs(tmp_path)
    study = sf.Study.parse(STUDY)
    fitted = study.method().fit(study.read(tmp_path / "logs.csv").logs)
    assert fitted.outlook_.model.nuisance.shape == (1, 1)
    dose = study.state_names.index("dose")
    # Every prompt raises the dose by one, which scaling makes a quarter.
    assert_allclose(fitted.outlook_.model.coef[0, 4, 1 + dose], 0.25, atol=1e-3)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('derived = "dose"', 'derived = "doze"', "there is no derived state 'doze' .did you mean 'dose'"),
        ('derived = "dose"', 'derived = "day in study"', "discount does not belong to derived = 'day in study'"),
        ('derived = "dose"', 'column = "d"', "discount belongs to a derived state"),
        ("discount = 0.9", 'column = "d"', "is computed, not read"),
        ("discount = 0.9", "discount = 1.5", "less than or equal to 1"),
        ('name = "ahead"', 'name = "ahead"\nhorizon = "long"', "there is no horizon 'long'"),
        ("day_boundary = 5", 'day_boundary = "25:00"', "day_boundary"),
        ("max_gap = 2", "max_gap = 0", "max_gap"),
    ],
)
def test_what_does_not_fit_is_refused(old, new, words):
    with pytest.raises(sf.InputError, match=words):
        sf.Study.parse(STUDY.replace(old, new))


def test_days_need_a_boundary():
    text = STUDY.replace('derived = "dose"\ndiscount = 0.9', 'derived = "day in study"')
    sf.Study.parse(text)
    with pytest.raises(sf.InputError, match=r"counts days; write \[trial\] day_boundary = 5"):
        sf.Study.parse(text.replace("day_boundary = 5", ""))


def test_missing_outcomes_leave_the_mean_missing_until_there_is_one(tmp_path):
    logs = write_logs(tmp_path, people=2, points=5)
    text = STUDY.replace('derived = "dose"\ndiscount = 0.9', 'derived = "outcome mean"').replace(
        "{ centre = 2, scale = 4 }", '"none"'
    )
    read = sf.Study.parse(text).read(tmp_path / "logs.csv").logs
    first = read.state[read.order, 1].reshape(2, 5)[0]
    assert np.isnan(first[0])
    assert_allclose(first[1], logs.outcome[logs.order][0])
