import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import surefoot as sf
from surefoot.learning.penalties import FitScales, StandardUnits
from tests.reference import literal


@pytest.fixture(scope="module")
def logs():
    sim = sf.simulators.HeartSteps(participants=8)
    made = sim.collect(sf.policies.coin(2), decision_points=120, seed=0)
    return sf.simulators.contaminate(made, mechanism="prompted", ratio=0.05, strength=5, seed=1).logs


def in_other_units(logs, reward=1.0, offset=0.0):
    """Milliseconds for hours, metres for kilometres, °F for °C; a reward counted from elsewhere."""
    state = logs.state * np.array([3.6e6, 1e-3, 1.8]) + np.array([0.0, 0.0, 32.0])
    return logs.with_values(state=state, outcome=logs.outcome * reward + offset)


@pytest.mark.parametrize("pooling", ["person", "all"])
@pytest.mark.parametrize("name", [name for name, parts in sf.METHODS.items() if "choice" not in parts])
def test_units_change_nothing(logs, name, pooling):
    if sf.method(name).horizon.looks_ahead and pooling == "person":
        pytest.skip("too few decision points to look ahead for each participant")
    found = sf.method(name, pooling=pooling).fit(logs)
    expected = found.policies_.probabilities(logs.participant, logs.state)
    for reward, offset in ((1e3, 0.0), (1 / 3600, 273.15)):
        other = in_other_units(logs, reward, offset)
        again = sf.method(name, pooling=pooling).fit(other)
        assert_array_equal(again.weights_, found.weights_)
        assert_allclose(again.policies_.probabilities(other.participant, other.state), expected, atol=1e-9)


def test_absolute_penalties_mean_something_else_in_other_units(logs):
    """As the paper has it: in milliseconds nearly every decision was made for certain, in hours none."""
    shares = []
    for reward in (1000.0, 1 / 3.6e6):
        scaled = logs.with_values(outcome=logs.outcome * reward)
        fitted = sf.method("accb", penalty_units="absolute", actor_penalty=1e-3).fit(scaled)
        send = fitted.policies_.probabilities(logs.participant, logs.state)[:, 1]
        shares.append(((send > 0.1) & (send < 0.9)).mean())
    assert shares[0] < 0.1
    assert shares[1] > 0.9


@pytest.mark.parametrize("radius", [False, True])
def test_the_policy_is_that_of_standardised_logs_with_absolute_penalties(logs, radius):
    """Against the paper's objective written out, in units of the quartiles."""
    fitted = sf.method("saccb" if radius else "accb", actor_penalty=1e-2, critic_penalty=0.0).fit(logs)
    for place in range(3):
        rows = logs.order[logs.starts[place] : logs.starts[place + 1]]
        low, middle, high = np.quantile(logs.state[rows], (0.25, 0.5, 0.75), axis=0)
        spread = np.subtract(*np.quantile(logs.outcome[rows], (0.75, 0.25))) / 1.349
        width = (high - low) / 1.349
        assert_allclose(fitted.scaling_.width[place], width)
        assert_allclose(fitted.scaling_.reward[place], spread)
        state = (logs.state[rows] - middle) / width
        x = np.array([literal.critic_features(s, a, 2) for s, a in zip(state, logs.action[rows], strict=True)])
        w = np.linalg.lstsq(x, logs.outcome[rows] / spread, rcond=None)[0]
        expected = np.array([[literal.critic_features(s, a, 2) @ w for a in range(2)] for s in state])
        z = np.column_stack([state, np.ones(len(rows))])
        theta = np.append(fitted.coef_[place][:-1] * width, fitted.coef_[place][-1] + fitted.coef_[place][:-1] @ middle)
        ours = literal.actor_objective(theta, z, expected, np.ones(len(rows)), 1e-2)
        if radius:
            assert_allclose(np.mean((z @ theta) ** 2), fitted.rule.radius, rtol=1e-6)
        else:
            assert ours >= literal.slsqp_actor(z, expected, np.ones(len(rows)), 1e-2).fun - 1e-9


def test_the_critic_shrinks_slopes_by_the_width_of_their_state(logs):
    fitted = sf.method("accb", pooling="all", critic_penalty=50.0).fit(logs)
    x = np.array([literal.critic_features(s, a, 2) for s, a in zip(logs.state, logs.action, strict=True)])
    width = np.subtract(*np.quantile(logs.state, (0.75, 0.25), axis=0)) / 1.349
    shrink = 50.0 * np.diag([0.0, *width**2, 0.0, *width**2])
    assert_allclose(fitted.critic_coef_[0], np.linalg.solve(x.T @ x + shrink, x.T @ logs.outcome), rtol=1e-8)


def test_what_mostly_takes_one_value_has_a_width_and_what_never_changes_has_one_of_1():
    state = np.zeros((1, 100, 3))
    state[0, ::5, 0], state[0, :, 2] = 1.0, np.arange(100)
    units = StandardUnits().measure(state, np.full((1, 100), 7.0), np.ones((1, 100)))
    assert_allclose(units.width, [[0.4, 1.0, 49.5 / 1.349]])
    assert_allclose(units.centre, [[0.0, 0.0, 49.5]])
    assert_allclose(units.reward, [1.0])
    nobody = StandardUnits().measure(state, np.zeros((1, 100)), np.zeros((1, 100)))
    assert_allclose(nobody.width, 1.0)
    assert_allclose(nobody.centre, 0.0)


def test_a_few_artefacts_do_not_move_the_units(logs):
    spoiled = logs.outcome.copy()
    spoiled[::50] = 1e9
    before, after = (sf.method("accb").fit(one).scaling_ for one in (logs, logs.with_values(outcome=spoiled)))
    assert_allclose(after.reward, before.reward, rtol=0.15)


def test_coefficients_go_back_and_forth():
    rng = np.random.default_rng(0)
    scaling = FitScales(rng.standard_normal((5, 3)), rng.uniform(0.1, 10, (5, 3)), np.ones(5))
    coef, state = rng.standard_normal((5, 2, 4)), rng.standard_normal((5, 9, 3))
    assert_allclose(scaling.to_standard(scaling.to_raw(coef)), coef)
    z = np.concatenate([scaling.standardise(state, np.ones(3)), np.ones((5, 9, 1))], axis=-1)
    raw = np.concatenate([state, np.ones((5, 9, 1))], axis=-1)
    assert_allclose(z @ np.swapaxes(coef, 1, 2), raw @ np.swapaxes(scaling.to_raw(coef), 1, 2))


def test_unknown_units_are_named(logs):
    with pytest.raises(sf.InputError, match=r"there is no unit of penalties 'standart' \(did you mean 'standard'"):
        sf.method("accb", penalty_units="standart").fit(logs)


def test_many_rows_are_measured_by_a_sample():
    """Against the quartiles of all rows, which a sample meets to some hundredths; up to 2¹⁴ all rows are measured."""
    rng = np.random.default_rng(0)
    state, reward = rng.gamma(2.0, size=(1, 2**17, 2)), rng.normal(size=(1, 2**17))
    units, ones = StandardUnits(), np.ones((1, 2**17))
    found = units.measure(state, reward, ones)
    low, middle, high = np.quantile(np.dstack([state, reward[..., None]])[0], (0.25, 0.5, 0.75), axis=0)
    width = (high - low) / 1.349
    assert_allclose(np.append(found.width, found.reward), width, rtol=0.04)
    assert_allclose(found.centre[0], middle[:2], atol=0.04)
    few = units.measure(state[:, : 2**14], reward[:, : 2**14], ones[:, : 2**14])
    assert_allclose(few.centre[0], np.quantile(state[0, : 2**14], 0.5, axis=0), rtol=1e-12)
