"""Checks that would have caught a model whose prompts act wrongly later."""

from dataclasses import replace

import numpy as np
import pytest

import surefoot as sf
from surefoot.rehearsal.model_checks import LAGS, Series
from surefoot.simulators.heartsteps import HeartSteps
from tests.rehearsal.pilots import HEARTSTEPS, STUDY, make_frame, read_frame

study = sf.Study.parse(HEARTSTEPS)


@pytest.fixture(scope="module")
def model():
    pilot = HeartSteps(40).collect(sf.policies.coin(2), decision_points=120, seed=11)
    return sf.rehearsal.fit_pilot(pilot, study, per_day=5)


def test_a_model_of_its_own_pilot_is_fine(model):
    checks = sf.rehearsal.check_pilot_model(model)
    assert checks.verdict == "fine", checks.differences
    assert checks.faults == ()
    names = [check.name for check in checks.checks]
    assert [f"effect {lag} later" for lag in LAGS] == names[1:5]
    assert "people prompted often minus seldom" in names and "fatigue: response 5 later" in names
    assert len(checks.to_frame()) == len(names)
    assert checks.to_dict()["verdict"] == "fine"


def test_a_dose_in_place_of_the_last_prompt_is_unsafe(model):
    """As if every prompt moved fatigue a little for long, instead of much for a while."""
    effects = model.effects
    wrong = replace(effects, carried=np.full_like(effects.carried, 0.95), response=effects.response / 5)
    checks = sf.rehearsal.check_pilot_model(replace(model, effects=wrong))
    assert checks.verdict == "unsafe"
    assert any(fault.startswith("fatigue: response 1 later") for fault in checks.faults)


def test_a_model_without_effects_is_unsafe(model):
    checks = sf.rehearsal.check_pilot_model(model, environment=sf.rehearsal.NO_EFFECT)
    assert checks.verdict == "unsafe"


def test_gaps_that_come_together_stay_together():
    everything = sf.Study.parse(STUDY)
    frame = make_frame(20, 60, seed=4)
    model = sf.rehearsal.fit_pilot(read_frame(frame, everything), everything)
    checks = {check.name: check for check in sf.rehearsal.check_pilot_model(model, pilots=20).checks}
    complete = checks["complete decision points"]
    assert complete.simulated == pytest.approx(complete.observed)


def test_a_response_is_that_of_a_literal_loop():
    rng = np.random.default_rng(1)
    centred = rng.choice([-0.5, 0.5], (1, 3, 20))
    values = rng.normal(size=(1, 3, 20))
    values[0, 1, 4:7] = np.nan
    top = bottom = 0.0
    for person in range(3):
        mean = np.nanmean(values[0, person])
        for t in range(2, 20):
            if not np.isnan(values[0, person, t]):
                top += centred[0, person, t - 2] * (values[0, person, t] - mean)
                bottom += centred[0, person, t - 2] ** 2
    assert Series.of_values(values).measure_response(centred, 2) == pytest.approx(top / bottom)


def test_too_few_pilots_are_refused(model):
    with pytest.raises(sf.InputError, match="at least 20 simulated pilots"):
        sf.rehearsal.check_pilot_model(model, pilots=5)
