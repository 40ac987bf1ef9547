"""Gymnasium environments as simulators."""

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

import surefoot as sf
from surefoot.simulators.gymnasium_envs import HeartStepsEnv
from tests.simulators.stairs import Stairs

ACTIONS = ("nothing", "walk", "run")
COIN = sf.policies.coin(3)


def make_people(participants=4, **options):
    return sf.simulators.GymnasiumPeople(Stairs, participants, action_names=ACTIONS, **options)


def test_the_environment_of_the_tests_is_valid():
    check_env(Stairs(), skip_render_check=True)


def test_logs_equal_the_environments_stepped_by_hand():
    people = make_people(parameters=[{"gain": 1.0}, {"gain": 3.0, "noise": 1.0}])
    simulation = people.start(seed=[5, 6]).advance(COIN, 12)
    for replicate in range(2):
        chance = people.start(seed=[5, 6])._chance.first.reshape(2, 4)
        for person in range(4):
            env = Stairs(**({"gain": 1.0} if person % 2 == 0 else {"gain": 3.0, "noise": 1.0}))
            observation, _ = env.reset(seed=int(chance[replicate, person] * 2**31))
            for time in range(12):
                expected = [*observation["floors"], *observation["tired"]]
                np.testing.assert_array_equal(simulation.states[replicate, person, time], expected)
                assert simulation.available[replicate, person, time] == observation["available"]
                action = simulation.actions[replicate, person, time]
                assert action == 0 or observation["available"]
                observation, reward, _, _, info = env.step(action)
                assert simulation.rewards[replicate, person, time] == reward
                assert np.isnan(simulation.reported[replicate, person, time]) == (not info["reported"])
    logs = simulation.logs(1)
    assert logs.state_names == ("floors1", "floors2", "tired")
    free = logs.available.astype(bool)
    np.testing.assert_allclose(logs.probability[free], 1 / 3)
    np.testing.assert_array_equal(logs.probability[~free], 1.0)


def test_a_longer_study_begins_with_the_shorter_and_replicates_do_not_mix():
    people = make_people(parameters=[{"noise": 1.0}])
    alone = people.collect(COIN, decision_points=6, seed=3)
    together = people.start(seed=[2, 3]).advance(COIN, 4).advance(COIN, 5)
    np.testing.assert_array_equal(together.rewards[1, :, :6].ravel(), people.start(seed=3).advance(COIN, 6).rewards.ravel())
    assert len(alone) == 24


def test_people_who_are_not_active_stay_where_they_are():
    simulation = make_people(2).start(seed=1)
    first = simulation.look().state[0, 1].copy()
    for _ in range(3):
        rewards = simulation.step(np.array([[0, 2]]), np.ones((1, 2)), active=np.array([[True, False]]))
        assert np.isnan(rewards[0, 1])
    np.testing.assert_array_equal(simulation.look().state[0, 1], first)
    assert simulation.time.tolist() == [[3, 0]]


def test_a_terminated_participant_leaves_and_a_restarted_one_goes_on():
    parameters = [{"patience": 2.0}]
    send = sf.policies.always(3)
    left = make_people(3, parameters=parameters).start(seed=1).advance(send, 12)
    assert not left.available[..., 6:].any()
    assert np.isnan(left.states[..., 6:, :]).all()
    assert (left.rewards[..., 6:] == 0).all()
    assert np.isnan(left.reported[..., 6:]).all()
    going = make_people(3, parameters=parameters, restart=True).start(seed=1).advance(send, 12)
    assert not np.isnan(going.states).any()
    assert going.available[..., 6:].any()


def test_states_can_be_selected_and_ordered_by_name():
    people = make_people(2, state_names=["floors2", "tired"])
    logs = people.collect(COIN, decision_points=3, seed=0)
    assert logs.state_names == ("floors2", "tired")
    assert (logs.state[:, 0] == 1).all()


def test_long_runs_agree_with_the_simulator_behind_the_environment():
    imported = sf.simulators.GymnasiumPeople(HeartStepsEnv, 20, state_names=sf.simulators.HeartSteps.state_names)
    policies = {"never": sf.policies.never(2), "always": sf.policies.always(2)}
    runs = imported.run(policies, steps=120, keep=100, seed=1)
    truth = sf.simulators.HeartSteps(200).run(policies, steps=120, keep=100, seed=2)
    for name in policies:
        error = runs[name].reward.std(ddof=1) / np.sqrt(20)
        assert abs(runs[name].reward.mean() - truth[name].reward.mean()) < 4 * error
        assert runs[name].share_treated.mean() == truth[name].share_treated.mean()


def test_a_registered_id_and_its_parameters():
    people = sf.simulators.GymnasiumPeople("CartPole-v1", 2, parameters=[{"max_episode_steps": 5}])
    with pytest.raises(sf.InputError, match=r"participant 0 in CartPole-v1 was truncated.*max_episode_steps"):
        people.collect(sf.policies.coin(2), decision_points=6, seed=0)
    assert people.state_names == ("state1", "state2", "state3", "state4")


class Continuous(Stairs):
    def __init__(self):
        super().__init__()
        self.action_space = spaces.Box(0.0, 1.0)


class Worded(Stairs):
    def __init__(self):
        super().__init__()
        self.observation_space = spaces.Dict({"diary": spaces.Text(10)})


class Masked(Stairs):
    def reset(self, **options):
        observation, _ = super().reset(**options)
        return observation, {"action_mask": np.array([1, 0, 1])}


class Broken(Stairs):
    """Stairs that raise an error or return something else from one method."""

    def __init__(self, method="step", returned=None):
        super().__init__()
        self.method = method
        self.returned = returned

    def answer(self, method, result):
        if method != self.method:
            return result
        if self.returned is None:
            raise RuntimeError("the stairs are closed")
        return self.returned

    def reset(self, **options):
        return self.answer("reset", super().reset(**options))

    def step(self, action):
        return self.answer("step", super().step(action))


def collect_broken(method, returned=None):
    people = sf.simulators.GymnasiumPeople(Broken, 2, parameters=[{"method": method, "returned": returned}])
    return people.collect(sf.policies.coin(3), decision_points=3, seed=0)


class Unfinished(Stairs):
    def __init__(self):
        raise ValueError("no stairs yet")


OBSERVATION = {"tired": np.zeros(1), "floors": np.zeros(2), "available": 1}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: collect_broken("reset"), "participant 0 failed in reset: RuntimeError: the stairs are closed; check"),
        (lambda: collect_broken("step"), "participant 0 failed in step: RuntimeError: the stairs are closed; check"),
        (lambda: collect_broken("reset", OBSERVATION), r"from reset; it must return \(observation, info\)"),
        (lambda: collect_broken("step", (OBSERVATION, 0.0, False, {})), r"from step; it must return \(observation, reward"),
        (lambda: collect_broken("step", (OBSERVATION, None, False, False, {})), "from step; it must return"),
        (lambda: collect_broken("step", (OBSERVATION, 0.0, False, False, None)), "from step; it must return"),
        (lambda: collect_broken("reset", ({"tired": np.zeros(1)}, {})), "not of its observation space"),
        (lambda: collect_broken("reset", ({**OBSERVATION, "floors": np.zeros(3)}, {})), "not of its observation space"),
        (lambda: sf.simulators.GymnasiumPeople(Unfinished, 2), "could not be made with {}: no stairs yet"),
        (lambda: sf.simulators.GymnasiumPeople(dict, 2), "which is no gymnasium.Env"),
        (lambda: sf.simulators.GymnasiumPeople("NoSuch-v0", 2), "NoSuch-v0 of participant 0 could not be made"),
        (lambda: sf.simulators.GymnasiumPeople("no_such_package:A-v0", 2), "write package.module:Name-v0"),
        (lambda: make_people(parameters=[{"gians": 1.0}]), "gians"),
        (lambda: sf.simulators.GymnasiumPeople(Continuous, 2), "needs a Discrete action space"),
        (lambda: sf.simulators.GymnasiumPeople(Worded, 2), "'diary' is .*needs numbers"),
        (lambda: sf.simulators.GymnasiumPeople(Stairs, 2, action_names=["no", "yes"]), "3 actions, but 2 are named"),
        (lambda: make_people(state_names=["tird"]), "does not observe 'tird'.*tired"),
        (lambda: sf.simulators.GymnasiumPeople("CartPole-v1", 2, state_names=["x"]), "observes 4 numbers, but 1"),
        (lambda: sf.simulators.GymnasiumPeople(Masked, 2).start(seed=0), "action_mask"),
        (lambda: make_people().run({"coin": COIN}, steps=3, keep=1, seed=0, engine="torch"), "engine = 'numpy' only"),
        (lambda: make_people().run({"coin": COIN}, steps=3, keep=4, seed=0), "keep is 4 of 3"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(sf.InputError, match=message):
        make()


def test_an_id_whose_module_is_imported():
    people = sf.simulators.GymnasiumPeople("tests.simulators.stairs:stairs/Stairs-v0", 2, parameters=[{"gain": 2.0}])
    assert people.state_names == ("floors1", "floors2", "tired")
