import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import surefoot as sf
import surefoot.simulators
from surefoot.simulators.gymnasium_envs import ParticipantEnv

NAMES = ["surefoot/HeartSteps-v0", "surefoot/ChainWalk-v0"]


@pytest.mark.parametrize("name", NAMES)
def test_the_checker_is_content(name):
    check_env(gymnasium.make(name).unwrapped)  # its warnings are errors here
    check_env(gymnasium.make(name, disable_env_checker=True).unwrapped, skip_render_check=False)


def test_any_simulator_is_an_environment():
    env = ParticipantEnv(sf.simulators.HeartSteps(participants=3, spread=1.0), participant=1)
    check_env(env, skip_render_check=True)
    env.reset(seed=1)
    observed, reward, _, _, info = env.step(1)
    assert observed["available"] == 1
    assert observed["missing"].sum() == 0
    assert info["reported"]
    assert np.isfinite(reward)


@pytest.mark.parametrize("name", NAMES)
def test_an_episode_is_210_decision_points(name):
    env = gymnasium.make(name)
    env.reset(seed=0)
    ended = [env.step(1)[2:4] for _ in range(210)]
    assert not any(terminated for terminated, _ in ended)
    assert [truncated for _, truncated in ended] == [False] * 209 + [True]


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_gives_the_same_person(name):
    first, second = gymnasium.make(name), gymnasium.make(name)
    first.reset(seed=7)
    second.reset(seed=7)
    for _ in range(20):
        one, other = first.step(1), second.step(1)
        np.testing.assert_array_equal(one[0], other[0])
        assert one[1] == other[1]


@pytest.mark.parametrize(("name", "kind"), [(NAMES[0], sf.simulators.HeartSteps), (NAMES[1], sf.simulators.ChainWalk)])
def test_stepping_and_simulating_give_the_same_averages(name, kind):
    env = gymnasium.make(name).unwrapped
    env.reset(seed=1)
    rng = np.random.default_rng(0)
    stepped = np.array([env.step(np.int64(rng.integers(2)))[1] for _ in range(20_000)])[1000:]
    logs = kind(participants=40).collect(sf.policies.coin(2), decision_points=1000, seed=1)
    simulated = logs.outcome[logs.time >= 100]
    batches = stepped.reshape(19, 1000).mean(axis=1)
    assert abs(stepped.mean() - simulated.mean()) < 5 * batches.std() / np.sqrt(19)
    assert abs(stepped.std() / simulated.std() - 1) < 0.05
