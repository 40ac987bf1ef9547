import numpy as np
import pytest
from numpy.testing import assert_allclose

import surefoot as sf
from surefoot import InputError
from surefoot.experiments.paper import (
    COLUMNS,
    EXPERIMENTS,
    RATIOS,
    SCENES,
    STRENGTHS,
    SWEPT_TAUS,
    Settings,
    Unit,
    run_unit,
)

SETTINGS = Settings(experiments=("s1", "s4"), replicates=2, participants=4, decision_points=60, steps=60, keep=40)


def test_the_experiments_are_those_of_the_paper():
    cells = list(Settings().cells("heartsteps"))
    counts = {name: sum(experiment == name for experiment, _ in cells) for name in EXPERIMENTS}
    assert counts == {"s1": 6 + 6, "s2": 10 * 6, "s3": 11 * 6, "s4": 1 + len(SWEPT_TAUS["heartsteps"])}
    assert (RATIOS[0], RATIOS[-1], STRENGTHS[0], STRENGTHS[-1]) == (0.0, 0.09, 0.0, 10.0)
    assert (SWEPT_TAUS["heartsteps"][0], SWEPT_TAUS["heartsteps"][-1]) == (0.1, 8.0)
    assert (SWEPT_TAUS["chain-walk"][0], SWEPT_TAUS["chain-walk"][-1]) == (0.2, 4.0)
    assert {cell.filter for experiment, cell in cells if experiment == "s1"} == {"", "hampel", "kalman"}
    assert SCENES[0] == ("heartsteps", "prompted")
    assert len(Settings().units()) == len(set(Settings().units())) == 3 * 20


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"participants": 0}, "participants is 0; it must be at least 1"),
        ({"decision_points": 7}, "8 features"),
        ({"ratio": 1.5}, "between 0 and 1"),
        ({"strength": float("nan")}, "strength"),
        ({"experiments": ("s1", "s9")}, "no experiment 's9'"),
        ({"experiments": ()}, "at least one"),
        ({"replicates": 1}, "at least 2"),
        ({"keep": 6000}, "keep is 6000 of 5000"),
        ({"seed": -1}, "seed"),
    ],
)
def test_what_cannot_be_run_is_refused(wrong, words):
    with pytest.raises(InputError, match=words):
        Settings(**wrong).check()


def test_few_replicates_are_owned_up_to():
    assert "3 replicates are few" in Settings(replicates=3).caution
    assert Settings().caution == Settings(replicates=10).caution == ""


@pytest.fixture(scope="module")
def rows():
    return run_unit(Unit("heartsteps", "prompted", 1), SETTINGS)


def test_every_cell_and_reference_has_a_row(rows):
    assert len(rows) == len(list(SETTINGS.cells("heartsteps"))) + 4
    assert all(list(row) == list(COLUMNS) for row in rows)
    assert {row["replicate"] for row in rows} == {1}


def test_a_row_is_what_one_gets_by_hand(rows):
    """The same people, outliers and random numbers through the public interface."""
    seeds = [np.random.SeedSequence(0, spawn_key=(0, 1, use)) for use in range(4)]
    sim = sf.simulators.HeartSteps(participants=4)
    clean = sim.collect(sf.policies.coin(2), decision_points=60, seed=seeds[0])
    dirty = sf.simulators.contaminate(clean, mechanism="prompted", ratio=0.04, strength=5, seed=seeds[1])
    fitted = sf.method("ro-accb", tau=2.0, penalty_units="absolute", actor_penalty=1e-3).fit(dirty.logs)
    row = next(row for row in rows if row["method"] == "ro-accb" and row["tau"] == 2.0)
    reward = sf.simulators.long_run_average_reward(sim, fitted.policies_, steps=60, keep=40, seed=seeds[2])
    assert row["long_run_average_reward"] == reward.mean
    assert row["immediate_regret"] == sf.simulators.immediate_regret(sim, fitted.policies_, states=200, seed=seeds[3]).mean
    removed = fitted.weights_ == 0
    assert_allclose(row["share_removed"], removed.mean())
    assert_allclose(row["precision"], dirty.touched[removed].mean())
    assert_allclose(row["recall"], removed[dirty.touched].mean())


def test_measures_that_do_not_apply_are_missing(rows):
    plain = next(row for row in rows if row["method"] == "accb")
    assert plain["share_removed"] == 0
    assert np.isnan(plain["precision"])
    assert np.isnan(plain["recall"])
    never = next(row for row in rows if row["method"] == "never")
    assert never["experiment"] == "reference"
    assert never["share_treated"] == 0
    assert np.isnan(never["coefficient_error"])


def test_both_mechanisms_of_a_data_set_have_the_same_people():
    sensor = run_unit(Unit("heartsteps", "sensor", 1), SETTINGS)
    prompted = run_unit(Unit("heartsteps", "prompted", 1), SETTINGS)
    for name in ("never", "coin"):
        assert _reward(sensor, name) == _reward(prompted, name)
    assert _reward(sensor, "accb") != _reward(prompted, "accb")


def _reward(rows, name):
    return next(row["long_run_average_reward"] for row in rows if row["method"] == name)
