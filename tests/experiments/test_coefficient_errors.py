import builtins

import numpy as np
import pytest
from numpy.testing import assert_allclose

import surefoot as sf
from surefoot.experiments.coefficient_errors import (
    ARTEFACTS,
    CRITICS,
    SCENARIOS,
    Scenario,
    coefficient_errors,
    collect_logs,
    draw_artefacts,
    draw_scenarios,
    list_artefact_limits,
    log_normal_logs,
    measure_errors,
    measure_oracle,
    report_artefacts,
    run_artefacts,
    skewed_rewards,
    summarise_artefacts,
)
from surefoot.learning.critics.ridge import ridge
from surefoot.policies.features import critic_features


@pytest.fixture(scope="module")
def small():
    return coefficient_errors(
        [Scenario("clean"), Scenario("prompted", 0.2)], participants=30, replicates=2, seed=3, peer_participants=3
    )


def test_the_table_has_every_critic_and_the_right_baselines(small):
    assert small.critics == ("oracle", *CRITICS, "huber", "ransac")
    assert small.people == (60,) * 6 + (6, 6)
    assert_allclose(small.relative[0, :2], 1)
    assert_allclose(small.to_oracle[:, 0], 1)
    ours, capped, plain = (
        small.relative[1, small.critics.index(name)] for name in ("high-breakdown", "capped", "least squares")
    )
    assert ours < 2 < capped < plain
    frame = small.to_frame("pandas")
    assert len(frame) == 16
    assert list(frame.columns[:6]) == ["data", "mechanism", "ratio", "strength", "critic", "people"]
    assert "| prompted 20 % |" in small.to_markdown()


def test_least_squares_and_the_oracle_are_ridge_by_hand():
    clean, outliers = collect_logs(5, 0, 4)
    logs, touched = Scenario("sensor", 0.1).contaminate(clean, outliers)
    rows = logs.order.reshape(5, -1)
    features = critic_features(logs.state, logs.action, 2)[rows]
    truth = sf.simulators.HeartSteps.critic_coef
    for measured, weights in (
        (measure_errors(logs, "least squares"), np.ones(rows.shape)),
        (measure_oracle(logs, touched), (~touched)[rows].astype(float)),
    ):
        coefficients = ridge(features, logs.reward[rows], weights, np.full(8, 1e-3))
        assert_allclose(measured, np.linalg.norm(coefficients - truth, axis=1), rtol=1e-9)


def test_the_same_seed_gives_the_same_table(small):
    again = coefficient_errors(
        [Scenario("clean"), Scenario("prompted", 0.2)], participants=30, replicates=2, seed=3, peer_participants=0
    )
    assert_allclose(again.error, small.error[:, :6], rtol=0)


def test_without_scikit_learn_its_rows_are_left_out(monkeypatch):
    real = builtins.__import__

    def without(name, *more, **others):
        if name.startswith("sklearn"):
            raise ImportError(name)
        return real(name, *more, **others)

    monkeypatch.setattr(builtins, "__import__", without)
    found = coefficient_errors(SCENARIOS[:1], participants=3, replicates=1, seed=5)
    assert found.critics == ("oracle", *CRITICS)
    assert "not installed" in found.notes[0]


def test_log_normal_rewards_have_the_mean_and_variance_of_the_normal_ones():
    logs = sf.simulators.HeartSteps(participants=200).collect(sf.policies.coin(2), decision_points=210, seed=0)
    skewed = log_normal_logs(logs, 1)
    noise = skewed.reward - critic_features(logs.state, logs.action, 2) @ sf.simulators.HeartSteps.critic_coef
    assert_allclose(noise.mean(), 0, atol=25)
    assert_allclose(noise.std(), 1500, rtol=0.03)
    assert noise.min() > -1500


def test_skewed_rewards_cost_little():
    plain, capped, ours = skewed_rewards(participants=40, replicates=1, seed=6)
    assert plain.reward_removed == 0
    assert ours.reward_removed < 0.05
    assert capped.reward_removed > 0.3
    assert abs(ours.bias - plain.bias) < ours.deviation


def test_the_figure_has_a_panel_for_each_mechanism(small):
    assert [axes.get_title(loc="left") for axes in draw_scenarios(small).axes] == ["prompted"]


def test_nothing_to_do_is_refused():
    with pytest.raises(sf.InputError, match="at least one"):
        coefficient_errors(replicates=0)


@pytest.fixture(scope="module")
def studies():
    """Few people; other seeds than those of the committed table, which holds the limits."""
    return [run_artefacts(0, {"participants": 15, "seed": 41}, (0.2,))]


@pytest.fixture(scope="module")
def rows(studies):
    return summarise_artefacts(studies)


def test_the_screen_brings_every_artefact_near_the_oracle(rows):
    by_name = {row.artefact: row for row in rows}
    assert set(by_name) == {"clean", *(artefact.name for artefact in ARTEFACTS)}
    assert by_name["clean"].right_flagged <= 0.003
    for artefact in ARTEFACTS:
        row = by_name[artefact.name]
        if artefact.limit is not None:
            assert row.to_oracle < artefact.limit + 0.1
        assert row.right_flagged <= 0.003
    unit = by_name["reward × 10 (unit)"]
    assert unit.plain["least squares"] > 3
    assert unit.screened["least squares"] < 1.7


def test_zeros_after_nothing_only_are_called_unsafe(rows):
    assert {row.artefact: row.unsafe for row in rows}["reward 0 after nothing only"] == 1.0


def test_limits_name_the_data_they_are_about(rows):
    limits = {limit.data: limit for limit in list_artefact_limits(rows)}
    assert limits["clean"].held
    assert limits["reward 0 after nothing only"].held
    assert {limit.limit for limit in limits.values()} == {0.003, 1.05, 1.1, 1.15, 0.95}


def test_the_report_and_the_figure_hold_every_critic(studies, rows):
    report = report_artefacts(studies, {"replicates": 1, "participants": 15, "seed": 41})
    assert len(report.columns["critic"]) == len(rows) * (2 * len(CRITICS) + 1)
    assert set(report.columns["critic"]) == {"oracle", *CRITICS}
    panels = [axes for axes in draw_artefacts(rows).axes if axes.has_data()]
    assert [axes.get_title(loc="left") for axes in panels] == [artefact.name for artefact in ARTEFACTS]
    assert "| reward 9999 (code) | 20 % |" in report.page
