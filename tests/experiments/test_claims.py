"""Claims are judged on made-up results, where the verdict is known."""

import numpy as np

from surefoot.experiments.claims import HOLDS, NOT, PART, filters_that_win, judge
from surefoot.experiments.paper import SCENES, Results, Settings

REPLICATES = 6


def results(reward, settings=None):
    """Rows in which a cell's ElrAR is `reward(scene, experiment, cell)` plus noise that all cells of a replicate share."""
    settings = settings or Settings(replicates=REPLICATES)
    rng = np.random.default_rng(0)
    rows = []
    for scene in SCENES:
        shared, own = rng.standard_normal(REPLICATES), rng.standard_normal(REPLICATES) * 0.01
        for experiment, cell in settings.cells(scene[0]):
            for replicate in range(REPLICATES):
                value = reward(scene, experiment, cell) + shared[replicate] + own[replicate] * (cell.method[0] == "r")
                where = {"experiment": experiment, "data_set": scene[0], "mechanism": scene[1], "replicate": replicate}
                rows.append({**where, **cell._asdict(), "long_run_average_reward": value})
    return Results(rows)


def verdicts(reward):
    found = results(reward)
    return {claim.name: claim.verdict for claim in judge(found, Settings(replicates=REPLICATES))}


def as_the_paper_says(scene, experiment, cell):
    """Robust above filtered above plain wherever there are outliers of some strength."""
    if cell.ratio == 0 or cell.strength == 0 or cell.method.startswith("ro-"):
        return 100.0
    return 85.0 if cell.method.startswith("filter-") else 70.0


def test_everything_holds_where_everything_is_as_the_paper_says():
    assert set(verdicts(as_the_paper_says).values()) == {HOLDS}


def test_nothing_is_gained_where_all_methods_are_equal():
    found = verdicts(lambda scene, experiment, cell: 100.0)
    assert found["S2 gain"] == found["S4 gain"] == NOT or found["S2 gain"] == found["S4 gain"] == PART
    assert found["S1 best"] != HOLDS
    assert found["S2 clean"] == HOLDS


def test_a_filter_that_wins_breaks_the_claims_and_is_named():
    def reward(scene, experiment, cell):
        return 120.0 if cell.filter == "kalman" else as_the_paper_says(scene, experiment, cell)

    assert verdicts(reward)["S1 best"] == NOT
    assert verdicts(reward)["S1 filter"] == PART
    named = filters_that_win(results(reward), Settings(replicates=REPLICATES))
    assert len(named) == 9
    assert all("kalman" in line and "above zero" in line for line in named)


def test_the_sensor_scene_on_heartsteps_is_shown_but_does_not_count():
    def reward(scene, experiment, cell):
        return 100.0 if scene == ("heartsteps", "sensor") else as_the_paper_says(scene, experiment, cell)

    assert verdicts(reward)["S2 gain"] == HOLDS
    claims = judge(results(reward), Settings(replicates=REPLICATES))
    beside = [finding for claim in claims for finding in claim.findings if "sensor" in finding.where]
    assert beside
    assert not any(finding.counts for finding in beside)


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
    assert [claim.name for claim in judge(results(as_the_paper_says, settings), settings)] == ["S4 gain"]
