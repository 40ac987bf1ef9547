import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

import surefoot as sf
from surefoot.experiments.coefficient_errors import (
    ARTEFACT_SCENES,
    ARTEFACTS,
    CRITICS,
    OURS,
    PEERS,
    SCENARIOS,
    Scene,
    collect_logs,
    draw_errors,
    log_normal_logs,
    measure_errors,
    measure_oracle,
    measure_peers,
    measure_screen,
    report_artefacts,
    run_scenes,
    skewed_rewards,
    summarise_errors,
)
from surefoot.policies.features import critic_features
from tests.problems import ridge

SMALL = (Scene("clean"), Scene("prompted", 0.2))


def run_small(peers, replicates=2):
    parameters = {"participants": 30, "seed": 3, "peer_participants": peers}
    return summarise_errors(
        [row for number in range(replicates) for row in run_scenes(number, parameters, SMALL, measure_peers)]
    )


@pytest.fixture(scope="module")
def small():
    return run_small(peers=3)


def test_the_table_has_every_critic_and_the_right_baselines(small):
    clean = {row["critic"]: row for row in small if row["kind"] == "clean"}
    dirty = {row["critic"]: row for row in small if row["kind"] == "prompted"}
    assert list(clean) == list(dirty) == ["oracle", *CRITICS, *PEERS]
    assert {name: row["people"] for name, row in clean.items()} == dict.fromkeys(clean, 60) | dict.fromkeys(PEERS, 6)
    assert_allclose([clean["oracle"]["relative"], clean["least squares"]["relative"]], 1)
    assert_allclose([clean["oracle"]["to_oracle"], dirty["oracle"]["to_oracle"]], 1)
    assert dirty[OURS]["relative"] < 2 < dirty["capped"]["relative"] < dirty["least squares"]["relative"]


def test_least_squares_and_the_oracle_are_ridge_by_hand():
    clean, outliers = collect_logs(5, 0, 4)
    logs, touched = Scene("sensor", 0.1).contaminate(clean, outliers)
    rows = logs.order.reshape(5, -1)
    features = critic_features(logs.state, logs.action, 2)[rows]
    truth = sf.simulators.HeartSteps.critic_coef
    for measured, weights in (
        (measure_errors(logs, "least squares"), np.ones(rows.shape)),
        (measure_oracle(logs, touched), (~touched)[rows].astype(float)),
    ):
        coefficients = ridge(features, logs.outcome[rows], weights, np.full(8, 1e-3))
        assert_allclose(measured, np.linalg.norm(coefficients - truth, axis=1), rtol=1e-9)


def test_the_same_seed_gives_the_same_table(small):
    again = {(row["data"], row["critic"]): row["error"] for row in run_small(peers=0)}
    assert again == {(row["data"], row["critic"]): row["error"] for row in small if row["critic"] not in PEERS}


def test_without_scikit_learn_its_columns_are_left_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    logs, _ = collect_logs(3, 0, 5)
    assert measure_peers(logs, logs, {"peer_participants": 3}) == {}


def test_scenes_have_the_names_of_the_tables():
    assert [scene.data for scene in SCENARIOS][:2] == ["clean", "sensor 4 %"]
    assert "sensor 30 %, ν = 10" in [scene.data for scene in SCENARIOS]


def test_log_normal_rewards_have_the_mean_and_variance_of_the_normal_ones():
    logs = sf.simulators.HeartSteps(participants=200).collect(sf.policies.coin(2), decision_points=210, seed=0)
    skewed = log_normal_logs(logs, 1)
    noise = skewed.outcome - critic_features(logs.state, logs.action, 2) @ sf.simulators.HeartSteps.critic_coef
    assert_allclose(noise.mean(), 0, atol=25)
    assert_allclose(noise.std(), 1500, rtol=0.03)
    assert noise.min() > -1500


def test_skewed_rewards_cost_little():
    plain, capped, ours = skewed_rewards(participants=40, replicates=1, seed=6)
    assert plain["reward_removed"] == 0
    assert ours["reward_removed"] < 0.05
    assert capped["reward_removed"] > 0.3
    assert abs(ours["bias"] - plain["bias"]) < ours["deviation"]


def test_the_figure_has_a_panel_for_each_kind(small):
    assert [axes.get_title(loc="left") for axes in draw_errors(small, (1, 1), 4, 4).axes] == ["prompted"]


@pytest.fixture(scope="module")
def studies():
    """Few people, at 20 %; other seeds than those of the committed table, which holds the limits."""
    scenes = [scene for scene in ARTEFACT_SCENES if scene.ratio in (0.0, 0.2)]
    return run_scenes(0, {"participants": 15, "seed": 41}, scenes, measure_screen)


@pytest.fixture(scope="module")
def report(studies):
    return report_artefacts(studies, {"replicates": 1, "participants": 15, "seed": 41})


def test_the_screen_brings_every_artefact_near_the_oracle(studies, report):
    assert all(row["right_flagged"] <= 0.003 for row in studies)
    rows = {(row["kind"], row["critic"], row["screened"]): row for row in report.rows}
    for kind, (_, limit) in ARTEFACTS.items():
        if limit is not None:
            assert rows[kind, OURS, True]["to_oracle"] < limit + 0.1
    assert rows["reward × 10 (unit)", "least squares", False]["relative"] > 3
    assert rows["reward × 10 (unit)", "least squares", True]["relative"] < 1.7


def test_limits_name_the_data_they_are_about(report):
    limits = {limit.data: limit for limit in report.limits}
    assert limits["clean"].held
    assert limits["reward 0 after nothing only"].value == 1.0
    assert {limit.limit for limit in limits.values()} == {0.003, 1.05, 1.1, 1.15, 0.95}


def test_the_report_and_the_figure_hold_every_critic(studies, report):
    assert len(report.rows) == len(studies) * (2 * len(CRITICS) + 1)
    panels = [axes for axes in report.figure.axes if axes.has_data()]
    assert [axes.get_title(loc="left") for axes in panels] == list(ARTEFACTS)
    assert any(line.startswith("| reward 9999 (code) | 20 % |") for line in report.page.splitlines())
