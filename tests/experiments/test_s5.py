import builtins

import numpy as np
import pytest
from numpy.testing import assert_allclose

import surefoot as sf
from surefoot.experiments import s5
from surefoot.experiments.s5 import SCENARIOS, Scenario, coefficient_errors, log_normal_logs, skewed_rewards
from surefoot.experiments.s5_figures import errors_figure, medcouple, skewness_figure
from surefoot.policies.features import critic_features


@pytest.fixture(scope="module")
def small():
    return coefficient_errors(
        [Scenario("clean"), Scenario("prompted", 0.2)], participants=30, seeds=2, seed=3, peer_participants=3
    )


def test_the_table_has_every_critic_and_the_right_baselines(small):
    assert small.critics == (*s5.FITTERS, "huber", "ransac")
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


def test_the_critics_are_those_of_the_methods():
    _, _, problem = next(iter(s5.make_problems([Scenario("sensor", 0.1)], participants=5, seeds=1, seed=4)))
    for critic, name in (
        ("least squares", "accb"),
        ("hampel", "filter-accb"),
        ("capped", "ro-accb"),
        ("high-breakdown", "hb-accb"),
    ):
        assert_allclose(
            s5.FITTERS[critic](problem), sf.method(name, penalty_units="absolute").fit(problem.logs).critic_coef_, rtol=1e-9
        )


def test_the_same_seed_gives_the_same_table(small):
    again = coefficient_errors(
        [Scenario("clean"), Scenario("prompted", 0.2)], participants=30, seeds=2, seed=3, peer_participants=0
    )
    assert_allclose(again.error, small.error[:, :6], rtol=0)


def test_without_scikit_learn_its_rows_are_left_out(monkeypatch):
    real = builtins.__import__

    def without(name, *more, **others):
        if name.startswith("sklearn"):
            raise ImportError(name)
        return real(name, *more, **others)

    monkeypatch.setattr(builtins, "__import__", without)
    found = coefficient_errors(SCENARIOS[:1], participants=3, seeds=1, seed=5)
    assert found.critics == tuple(s5.FITTERS)
    assert "not installed" in found.notes[0]


def test_log_normal_rewards_have_the_mean_and_variance_of_the_normal_ones():
    logs = sf.simulators.HeartSteps(participants=200).collect(sf.policies.coin(2), decision_points=210, seed=0)
    skewed = log_normal_logs(logs, 1)
    noise = skewed.reward - critic_features(logs.state, logs.action, 2) @ sf.simulators.HeartSteps.critic_coef
    assert_allclose(noise.mean(), 0, atol=25)
    assert_allclose(noise.std(), 1500, rtol=0.03)
    assert noise.min() > -1500


def test_skewed_rewards_cost_little():
    plain, capped, ours = skewed_rewards(participants=40, seeds=1, seed=6)
    assert plain.reward_removed == 0
    assert ours.reward_removed < 0.05
    assert capped.reward_removed > 0.3
    assert abs(ours.bias - plain.bias) < ours.deviation


def test_figures_have_labels(small):
    figure = errors_figure(small)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["prompted"]
    assert all(axes.get_xlabel() for axes in skewness_figure(participants=20, seed=0).axes)


def test_medcouple_of_a_symmetric_and_a_skewed_sample():
    assert medcouple(np.array([1.0, 2.0, 3.0, 4.0, 5.0])) == 0
    assert_allclose(medcouple(np.array([0.0, 1.0, 2.0, 4.0, 8.0])), 0.4, atol=0.1)


def test_nothing_to_do_is_refused():
    with pytest.raises(sf.InputError, match="at least one"):
        coefficient_errors(seeds=0)
