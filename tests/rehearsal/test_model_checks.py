from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import surefoot as sf
from surefoot.rehearsal import check_pilot_model
from surefoot.rehearsal.model_checks import autocorrelation, run_length, spread_between, spread_within, time_of_day
from tests.rehearsal.pilots import STUDY, make_frame, needs_v1, read_frame, read_v1

study = sf.Study.parse(STUDY)


@pytest.fixture(scope="module")
def logs():
    return read_frame(make_frame(), study)


@pytest.fixture(scope="module")
def model(logs):
    return sf.rehearsal.fit_pilot(logs, study, outcome="hurdle")


def with_noise(model, times):
    """The same model with another spread of outcomes within people."""
    noise = model.family.log_noise
    louder = replace(noise, models=noise.models + np.log(times), individual=noise.individual + np.log(times))
    return replace(model, family=replace(model.family, log_noise=louder))


def test_a_model_of_the_pilot_looks_like_it(model, logs):
    found = check_pilot_model(model, logs, pilots=40)
    assert found.differences == ()
    assert found.verdict == "fine"
    names = {one.name for one in found.checks}
    for wanted in (
        *("outcome: zeros", "outcome: spread within people", "outcome: spread between people", "outcome: autocorrelation"),
        *(
            "outcome: time of day",
            "outcome: length of missing runs",
            "availability: share",
            "mood: autocorrelation",
            "alone: mean",
        ),
    ):
        assert wanted in names


def test_a_model_that_halves_the_spread_is_called_so():
    clean = make_frame(zeros=False)
    plain = sf.Study.parse(STUDY.replace('column = "outcome"', 'column = "outcome"\ntransform = "log(x)"'))
    logs = read_frame(clean, plain)
    model = sf.rehearsal.fit_pilot(logs, plain, outcome="log-normal")
    assert "outcome: spread within people" not in " ".join(check_pilot_model(model, logs, pilots=30).differences)
    found = check_pilot_model(with_noise(model, 0.5), logs, pilots=30)
    assert found.verdict == "look"
    (line,) = [one for one in found.differences if one.startswith("outcome: spread within people")]
    assert "simulated (5" in line and "% of it)" in line
    assert "outcome: spread within people" in found.summary()


def test_the_page_and_the_table_say_the_same(model, logs, tmp_path):
    found = check_pilot_model(with_noise(model, 3.0), logs, pilots=20)
    page = found.to_html(tmp_path / "page.html", source="made up")
    assert page.count("<tr><td>") >= len(found.checks)
    assert all(line.split(":")[0] in page for line in found.differences)
    assert page.count("<svg") == 3 and "<script" not in page and "http" not in page.replace("http://www.w3.org", "")
    assert found.plot().axes[0].get_title(loc="left") == "Outcomes"
    assert found.to_dict()["verdict"] == found.verdict and "PilotChecks(" in repr(found)
    table = found.to_frame().to_pylist()
    assert [row["name"] for row in table] == [one.name for one in found.checks]
    with pytest.raises(sf.InputError, match="pilots is 5"):
        check_pilot_model(model, logs, pilots=5)


@needs_v1
def test_all_checks_of_heartsteps_v1_pass():
    logs, v1 = read_v1()
    model = sf.rehearsal.fit_pilot(logs, v1, per_day=5, outcome="hurdle")
    effect = sf.rehearsal.estimate_pilot_effect(logs, v1, redraws=0)
    found = check_pilot_model(model, logs, pilots=60, seed=1, environment=effect.environment)
    assert found.differences == ()
    assert len(found.checks) > 30


def test_statistics_against_their_definitions():
    rng = np.random.default_rng(0)
    values = rng.standard_normal((2, 5, 40)) + 3 * rng.standard_normal((2, 5, 1))
    values[0, 1, 7:12] = np.nan
    rows = [values[0, person][~np.isnan(values[0, person])] for person in range(5)]
    assert_allclose(spread_between(values)[0], np.std([row.mean() for row in rows], ddof=1))
    assert_allclose(spread_within(values)[0] ** 2, np.concatenate([(row - row.mean()) ** 2 for row in rows]).mean())
    away = values[1] - values[1].mean(axis=1, keepdims=True)
    top, bottom = (away[:, 1:] * away[:, :-1]).sum(), np.sqrt((away[:, 1:] ** 2).sum() * (away[:, :-1] ** 2).sum())
    assert_allclose(autocorrelation(values)[1], top / bottom)
    marks = np.array([[[0, 1, 1, 0, 1], [1, 0, 0, 0, 0]]], dtype=bool)
    assert_array_equal(run_length(marks), [4 / 3])
    slot = np.broadcast_to(np.arange(40) % 2, values.shape)
    assert_allclose(time_of_day(values, slot)[1], abs(values[1, :, ::2].mean() - values[1, :, 1::2].mean()) / 2)
