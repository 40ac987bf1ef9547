import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import surefoot as sf
from surefoot.data.derived_states import DayInStudy, Dose, OutcomeMean, TimeSincePrompt, derive_states
from surefoot.simulators import ChainWalk, HeartSteps, WithMemory

KINDS = {"dose": Dose(0.8), "mean": OutcomeMean(0.9), "since": TimeSincePrompt(), "day": DayInStudy()}


@pytest.mark.parametrize(
    "inner", [HeartSteps(participants=4), HeartSteps(participants=4, spread=1.0), ChainWalk(participants=4)]
)
def test_simulated_memory_is_what_the_logs_of_the_simulation_give(inner):
    sim = WithMemory(inner, KINDS, day_boundary=5)
    logs, plain = (s.collect(sf.policies.coin(2), decision_points=23, seed=3) for s in (sim, inner))
    own = len(inner.state_names)
    assert_array_equal(logs.state[:, :own], plain.state)
    assert_array_equal(logs.reward, plain.reward)
    expected = derive_states(KINDS, logs.participant_index, logs.time, logs.action.astype(float), logs.reward, 5)
    assert_allclose(logs.state[:, own:], np.column_stack(list(expected.values())), rtol=1e-12)


def test_the_truth_is_that_of_the_simulator_and_policies_may_look_at_memory():
    sim = WithMemory(HeartSteps(participants=20), {"dose": Dose(0.9)})
    assert sim.critic_coef.tolist() == [*HeartSteps.critic_coef[:4], 0, *HeartSteps.critic_coef[4:], 0]
    assert sf.simulators.immediate_regret(sim, sim.oracle_myopic(), states=20, seed=0).mean == 0
    rule = sf.policies.rules.UpperConfidence(np.array([[0.0] * 5, [0, 0, 0, -1.0, 0.5]]), np.zeros((2, 5, 5)))
    sparing = sf.policies.Policy(rule, sim.action_names, sim.state_names)
    dose, sent = 0.0, 0
    for _ in range(700):
        send = dose < 0.5
        dose, sent = 0.9 * dose + send, sent + send
    assert sf.simulators.share_treated(sim, sparing, steps=700, keep=700, seed=0).mean == pytest.approx(sent / 700)


def test_days_need_a_boundary():
    with pytest.raises(sf.InputError, match="'day' counts days; give day_boundary"):
        WithMemory(HeartSteps(), {"day": DayInStudy()})
