import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import brentq, minimize

from surefoot.learning.actor import optimise
from tests.problems import actor_problems, trade_off_problems
from tests.reference import literal

RADIUS = 0.1 * np.log(9) ** 2
ZETA = 1e-3


def against_slsqp(rng, people, actions, points, scale, radius):
    """Relative difference of what we reach to what SLSQP reaches, one per problem."""
    z, advantage, kept = actor_problems(rng, people, actions, points, scale)
    found = optimise(z, advantage, kept, count=np.full(people, points), penalty=ZETA, radius=radius)
    assert found.converged.all()
    differences = []
    for participant in range(people):
        expected = np.column_stack([np.zeros(points), advantage[participant]])
        theirs = literal.slsqp_actor(z[participant], expected, kept[participant], ZETA, radius)
        value = literal.actor_objective(found.coef[participant].ravel(), z[participant], expected, kept[participant], ZETA)
        assert_allclose(value, found.gain[participant], rtol=1e-9, atol=1e-12 * scale)
        differences.append((value - theirs.fun) / max(abs(theirs.fun), 1e-9 * scale))
    return differences


@pytest.mark.parametrize("radius", [None, RADIUS], ids=["accb", "saccb"])
def test_reaches_at_least_what_slsqp_reaches(radius):
    rng = np.random.default_rng(0)
    differences = np.concatenate(
        [
            against_slsqp(rng, 5, actions, points, scale, radius)
            for actions in (2, 3, 4)
            for points in (10, 60)
            for scale in (1e-3, 1.0, 1e3, 1e6)
        ]
    )
    # With the constraint SLSQP may violate it by its own tolerance, which is worth a little of the objective.
    rounding = 1e-9 if radius is None else 1e-7
    assert (differences >= -rounding).mean() >= 0.99
    assert differences.min() > -1e-3


@pytest.mark.parametrize("penalty", [1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_rewards_and_penalties_of_any_size(scale, penalty):
    z, advantage, kept = actor_problems(np.random.default_rng(1), 30, 2, 60, scale)
    found = optimise(z, advantage, kept, count=np.full(30, 60), penalty=penalty)
    assert found.converged.all()
    assert np.isfinite(found.coef).all()
    coin = (kept * advantage[..., 0]).sum(axis=1) / 60 / 2
    assert (found.gain >= coin - 1e-12 * scale).all()


def test_saccb_meets_its_constraint_and_equals_accb_where_it_is_slack():
    rng = np.random.default_rng(2)
    for actions in (2, 3):
        z, advantage, kept = actor_problems(rng, 60, actions, 50, 1.0)
        advantage *= 10.0 ** rng.uniform(-3, 2, size=(60, 1, 1))
        count = np.full(60, 50)
        free = optimise(z, advantage, kept, count=count, penalty=0.02)
        bound = optimise(z, advantage, kept, count=count, penalty=0.02, radius=RADIUS)
        metric = np.einsum("nt,nti,ntj->nij", kept / kept.sum(axis=1, keepdims=True), z, z)
        size = {
            name: np.einsum("nki,nij,nkj->n", fit.coef, metric, fit.coef) for name, fit in (("free", free), ("bound", bound))
        }
        slack = size["free"] <= RADIUS
        assert 5 < slack.sum() < 55
        assert_array_equal(bound.coef[slack], free.coef[slack])
        assert_allclose(size["bound"][~slack], RADIUS, rtol=1e-6)
        assert (bound.multiplier[~slack] > 0).all()
        assert (bound.multiplier[slack] == 0).all()
        assert (bound.gain <= free.gain + 1e-12).all()


def test_one_feature_has_a_closed_condition():
    """z = 1 and one advantage A: A π (1 − π) = ζ θ."""
    gains = np.array([0.5, 2.0, 30.0, -4.0])
    ones = np.ones((4, 7, 1))
    found = optimise(ones, gains[:, None, None] * ones, ones[..., 0], count=np.full(4, 7), penalty=0.1).coef[:, 0, 0]
    for theta, gain in zip(found, gains, strict=True):
        edges = (0, 500) if gain > 0 else (-500, 0)
        expected = brentq(lambda t, gain=gain: gain * np.exp(-abs(t)) / (1 + np.exp(-abs(t))) ** 2 - 0.1 * t, *edges)
        assert_allclose(theta, expected, rtol=1e-8)


def test_rescaling_the_reward_and_the_penalty_changes_nothing():
    z, advantage, kept = actor_problems(np.random.default_rng(3), 10, 3, 40, 1.0)
    count = np.full(10, 40)
    small = optimise(z, advantage, kept, count=count, penalty=1e-3)
    large = optimise(z, 1e6 * advantage, kept, count=count, penalty=1e3)
    assert_allclose(large.coef, small.coef, rtol=1e-6, atol=1e-8)


def test_nobody_is_influenced_by_the_others_in_the_batch():
    z, advantage, kept = actor_problems(np.random.default_rng(4), 8, 3, 40, 1.0)
    together = optimise(z, advantage, kept, count=np.full(8, 40), penalty=1e-3, radius=RADIUS)
    for participant in range(8):
        one = slice(participant, participant + 1)
        alone = optimise(z[one], advantage[one], kept[one], count=np.array([40]), penalty=1e-3, radius=RADIUS)
        assert_array_equal(alone.coef[0], together.coef[participant])


def test_no_advantage_or_no_tuple_gives_a_coin():
    z = np.ones((2, 16, 2))
    weights = np.array([np.ones(16), np.zeros(16)])
    advantage = np.stack([np.zeros((16, 1)), np.ones((16, 1))])
    found = optimise(z, advantage, weights, count=np.array([16, 0]), penalty=1e-3, radius=RADIUS)
    assert_array_equal(found.coef, 0)
    assert found.converged.all()


def best_of_bfgs(z, advantage, starts=25):
    """The best objective that SciPy's BFGS reaches from random starts, two actions and every decision point kept."""

    def loss(theta):
        probability = 1 / (1 + np.exp(-(z @ theta)))
        pull = (advantage * probability * (1 - probability)) @ z / len(z) - ZETA * theta
        return -((advantage * probability).mean() - ZETA / 2 * theta @ theta), -pull

    rng = np.random.default_rng(0)
    sizes = 10 ** rng.uniform(-0.5, 1.0, size=starts)
    found = [minimize(loss, size * rng.standard_normal(z.shape[1]), jac=True, method="BFGS") for size in sizes]
    return max(-one.fun for one in found)


FIRST_SUMMIT_IS_NOT_THE_BEST = [186, 212, 284, 309, 312, 335, 340, 385, 438, 442, 670, 743]
FIXED_DIRECTIONS_ARE_NEEDED = [39, 144, 702]


@pytest.mark.parametrize(
    ("chosen", "sees"),
    [(FIRST_SUMMIT_IS_NOT_THE_BEST, [1, 1, 1, 1, 1]), (FIXED_DIRECTIONS_ARE_NEEDED, [0, 1, 1, 1, 1])],
    ids=["the policy sees what the critic sees", "the policy sees less"],
)
def test_finds_the_highest_of_several_summits(chosen, sees):
    z, advantage, kept = (part[chosen] for part in trade_off_problems(np.random.default_rng(0), 2000))
    z = z * sees
    found = optimise(z, advantage, kept, count=np.full(len(z), z.shape[1]), penalty=ZETA)
    assert found.converged.all()
    for ours, *problem in zip(found.gain, z, advantage[..., 0], strict=True):
        best = best_of_bfgs(*problem)
        assert ours >= best - 1e-6 * abs(best)


def test_a_summit_inside_the_constraint_beats_its_boundary():
    """One feature: the gain rises while one strong row turns, falls while many weak rows do, and rises far outside."""
    z = np.repeat([10.0, 1.0, 0.1], [1, 500, 499])[None, :, None]
    advantage = np.repeat([60.0, -0.2, 1.0], [1, 500, 499])[None, :, None]
    found = optimise(z, advantage, np.ones((1, 1000)), count=np.array([1000]), penalty=1e-6, radius=RADIUS)
    edge = np.sqrt(RADIUS / (z**2).mean())
    grid = np.linspace(-edge, edge, 20_001)
    gains = [(advantage / (1 + np.exp(-z * theta))).mean() - 5e-7 * theta**2 for theta in grid]
    assert_allclose(found.coef[0, 0, 0], grid[np.argmax(gains)], atol=2 * edge / 20_000)
    assert abs(found.coef[0, 0, 0]) < 0.5 * edge
    assert found.multiplier[0] == 0
