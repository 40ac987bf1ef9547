"""What a pilot says, against the truth of made-up trials."""

import numpy as np
import pytest

from surefoot import InputError, Study, Trajectories
from surefoot.sample_size import estimate_nuisance, size_trial

STUDY = Study.parse(
    '[columns]\nparticipant = "person"\ntime = "t"\navailable = "available"\nprobability = "p"\n'
    '[state.x]\n[actions]\ncolumn = "sent"\n[outcome]\ncolumn = "y"\n[effects]\ncontrols = ["x"]\n'
)


def make_pilot(people=200, points=100, effect_sd=0.4, sd=1.5, binary=False, seed=0):
    rng = np.random.default_rng(seed)
    shape = people, points
    x, available = rng.normal(size=shape), rng.random(shape) < 0.7
    sent = (rng.random(shape) < 0.4) * available
    y = 2 * x + sent * (0.3 + effect_sd * rng.normal(size=(people, 1))) + sd * rng.normal(size=shape)
    if binary:
        y = (rng.random(shape) < np.where(sent == 1, 0.35, 0.25)).astype(float)
    return Trajectories.from_arrays(
        x[:, :, None], action=sent.astype(float), outcome=y, available=available.astype(float),
        probability=np.where(sent == 1, 0.4, 0.6), state_names=["x"],
    )  # fmt: skip


def test_estimates_are_near_the_truth_and_their_intervals_hold_it():
    found = estimate_nuisance(STUDY, make_pilot()).estimates
    for name, truth in (("availability", 0.7), ("sd", 1.5), ("effect_sd", 0.4)):
        assert found[name].low <= found[name].value <= found[name].high
        assert found[name].value == pytest.approx(truth, abs=4 * found[name].standard_error)
    assert found["sd"].value == pytest.approx(1.5, rel=0.03)


def test_a_binary_pilot_says_the_chance_without_treatment():
    found = estimate_nuisance(STUDY, make_pilot(binary=True), binary=True)
    assert found.estimates["baseline"].value == pytest.approx(0.25, abs=0.02)
    sized = size_trial("binary", 30, 2, effect=0.2, pilot=found)
    assert sized.people <= sized.cautious.people and len(sized.pilot_lines) == 2


def test_the_effect_is_said_in_units_of_the_outcome_and_in_standard_deviations():
    pilot = estimate_nuisance(STUDY, make_pilot(sd=150.0, effect_sd=0.0))
    sized = size_trial("continuous", 30, 2, effect=15.0, pilot=pilot)
    standardised = size_trial(
        "continuous", 30, 2, effect=15.0 / pilot.values["sd"], availability=pilot.values["availability"]
    )
    assert sized.people == pytest.approx(standardised.people, abs=2)
    (units,) = (line for line in sized.pilot_lines if line.startswith("Effects are in units of y."))
    assert f"In the pilot, 15 is {15 / pilot.values['sd']:.2g} of its standard deviation;" in units
    assert f"a standardised effect of 0.1 is {0.1 * pilot.values['sd']:.4g}" in units
    with pytest.raises(InputError, match=r"too small for any trial; give it in the outcome's units, in which 0.1 standard"):
        size_trial("continuous", 30, 2, effect=0.1, pilot=pilot)


def test_people_without_differing_effects_are_told_so():
    found = estimate_nuisance(STUDY, make_pilot(effect_sd=0.0)).estimates["effect_sd"]
    assert found.low == 0 and found.value < 0.15


def test_pilots_that_cannot_tell_are_refused():
    with pytest.raises(InputError, match="at least three participants"):
        estimate_nuisance(STUDY, make_pilot(people=2))
    with pytest.raises(InputError, match="not 0 or 1"):
        estimate_nuisance(STUDY, make_pilot(), binary=True)
