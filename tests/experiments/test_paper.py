import numpy as np
import pytest
from numpy.testing import assert_allclose

import surefoot as sf
from surefoot import InputError
from surefoot.experiments.paper import (
    EXPERIMENTS,
    HOLDS,
    NOT,
    PART,
    RATIOS,
    SCENES,
    STRENGTHS,
    SWEPT_TAUS,
    Results,
    Scene,
    Settings,
    Unit,
    filters_that_win,
    judge_claims,
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
    assert SCENES[0] == Scene("heartsteps", "prompted")
    assert len(Settings().units()) == len(set(Settings().units())) == 3 * 20


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"participants": 0}, "participants is 0; it must be at least 1"),
        ({"decision_points": 7}, "8 features"),
        ({"ratio": 1.5}, "between 0 and 1"),
        ({"strength": float("nan")}, "strength"),
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
    return run_unit(Unit(SCENES[0], 1), SETTINGS)


def test_every_cell_and_reference_has_a_row(rows):
    assert len(rows) == len(list(SETTINGS.cells("heartsteps"))) + 4
    assert all(list(row) == list(rows[0]) for row in rows)
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
    assert plain["precision"] is None
    assert plain["recall"] is None
    never = next(row for row in rows if row["method"] == "never")
    assert never["experiment"] == "reference"
    assert never["share_treated"] == 0
    assert never["coefficient_error"] is None


def test_both_mechanisms_of_a_data_set_have_the_same_people():
    sensor = run_unit(Unit(SCENES[1], 1), SETTINGS)
    prompted = run_unit(Unit(SCENES[0], 1), SETTINGS)
    for name in ("never", "coin"):
        assert _reward(sensor, name) == _reward(prompted, name)
    assert _reward(sensor, "accb") != _reward(prompted, "accb")


def _reward(rows, name):
    return next(row["long_run_average_reward"] for row in rows if row["method"] == name)


# Claims are judged on made-up results, where the verdict is known.

REPLICATES = 6


def make_results(reward, settings=None):
    """Rows in which a cell's ElrAR is `reward(scene, experiment, cell)` plus noise that all cells of a replicate share."""
    settings = settings or Settings(replicates=REPLICATES)
    rng = np.random.default_rng(0)
    rows = []
    for scene in SCENES:
        shared = rng.standard_normal(REPLICATES)
        robust = rng.standard_normal(REPLICATES) * 0.01
        for experiment, cell in settings.cells(scene[0]):
            for replicate in range(REPLICATES):
                value = reward(scene, experiment, cell) + shared[replicate] + robust[replicate] * (cell.method[0] == "r")
                keys = {"experiment": experiment, **scene._asdict(), **cell._asdict(), "replicate": replicate}
                rows.append({**keys, "long_run_average_reward": value})
    return Results(rows)


def verdicts(reward):
    claims = judge_claims(make_results(reward), Settings(replicates=REPLICATES))
    return {claim.name: claim.verdict for claim in claims}


def as_the_paper_says(scene, experiment, cell):
    """Robust above filtered above plain wherever there are outliers of some strength."""
    if cell.ratio == 0 or cell.strength == 0 or cell.method.startswith("ro-"):
        return 100.0
    return 85.0 if cell.method.startswith("filter-") else 70.0


def test_everything_holds_where_everything_is_as_the_paper_says():
    assert set(verdicts(as_the_paper_says).values()) == {HOLDS}


def test_nothing_is_gained_where_all_methods_are_equal():
    verdicts_by_claim = verdicts(lambda scene, experiment, cell: 100.0)
    assert (
        verdicts_by_claim["S2 gain"] == verdicts_by_claim["S4 gain"] == NOT
        or verdicts_by_claim["S2 gain"] == verdicts_by_claim["S4 gain"] == PART
    )
    assert verdicts_by_claim["S1 best"] != HOLDS
    assert verdicts_by_claim["S2 clean"] == HOLDS


def test_a_filter_that_wins_breaks_the_claims_and_is_named():
    def reward(scene, experiment, cell):
        return 120.0 if cell.filter == "kalman" else as_the_paper_says(scene, experiment, cell)

    assert verdicts(reward)["S1 best"] == NOT
    assert verdicts(reward)["S1 filter"] == PART
    named = filters_that_win(make_results(reward), Settings(replicates=REPLICATES))
    assert len(named) == 9
    assert all("kalman" in line and "above zero" in line for line in named)


def test_the_sensor_scene_on_heartsteps_is_shown_but_does_not_count():
    def reward(scene, experiment, cell):
        return 100.0 if scene == ("heartsteps", "sensor") else as_the_paper_says(scene, experiment, cell)

    assert verdicts(reward)["S2 gain"] == HOLDS
    claims = judge_claims(make_results(reward), Settings(replicates=REPLICATES))
    shown = [finding for claim in claims for finding in claim.findings if "sensor" in str(finding.scene)]
    assert shown
    assert not any(finding.counts for finding in shown)


def test_a_small_gain_holds_in_part():
    def reward(scene, experiment, cell):
        return 100.0 if cell.method.startswith("ro-") else 99.0

    assert verdicts(reward)["S2 gain"] == PART


def test_a_robust_method_that_falls_is_not_steady():
    def reward(scene, experiment, cell):
        return 100.0 - 5 * cell.strength if experiment == "s3" else as_the_paper_says(scene, experiment, cell)

    assert verdicts(reward)["S3 strength"] == PART  # alike at ν = 0, but not level


def test_only_claims_of_experiments_that_were_run_are_judged():
    settings = Settings(experiments=("s4",), replicates=REPLICATES)
    assert [claim.name for claim in judge_claims(make_results(as_the_paper_says, settings), settings)] == ["S4 gain"]
