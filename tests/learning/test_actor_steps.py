"""The pieces of the actor's search, each against linear algebra or the objective written out."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import approx_fprime

from surefoot.learning import actor
from surefoot.learning.actor import ActorFit, _Point, _Problem, gain
from tests.problems import actor_problems, trade_off_problems
from tests.reference import literal

PENALTY = 0.02


def find_size(curvature):
    return np.sqrt((curvature**2).sum(axis=(1, 2)))


def make_point(rng, people, size, curvature=None):
    gradient, normal = rng.standard_normal((2, people, size))
    if curvature is None:
        root = rng.standard_normal((people, size, size))
        curvature = -(root @ np.swapaxes(root, 1, 2) + 0.1 * np.eye(size))
    return _Point(np.zeros((people, 1, size)), np.zeros(people), gradient, curvature, np.zeros(people), normal)


def pose(people=5, actions=3, points=30, radius=None, seed=0):
    z, advantage, kept = actor_problems(np.random.default_rng(seed), people, actions, points, 2.0)
    problem, hard, width, unit = actor._pose_problem(z, advantage, kept, np.full(people, points), PENALTY)
    return (z, advantage, kept), replace(problem, radius=radius), hard, width, unit


def z_of(problem):
    return np.swapaxes(problem.rows[problem.places if problem.places is not None else slice(None)], 1, 2)


def value_of(problem, theta):
    stakes = problem.stakes[problem.places if problem.places is not None else slice(None)]
    return gain(theta, z_of(problem) @ np.swapaxes(theta, 1, 2), stakes, problem.penalty)


def test_a_free_step_solves_the_damped_system():
    rng = np.random.default_rng(0)
    point, damping = make_point(rng, 4, 3), np.array([0.0, 0.5, 2.0, 0.0])
    step, kept = actor._newton_step(np, point, find_size(point.curvature), damping.copy(), False)
    assert_array_equal(kept, damping)
    system = -point.curvature + damping[:, None, None] * np.eye(3)
    assert_allclose(step, np.linalg.solve(system, point.gradient[..., None])[..., 0], rtol=1e-9)


def test_damping_is_raised_until_the_system_is_definite():
    """First 0.1 of the size, then four times as much, until all curvature points down."""
    rng = np.random.default_rng(1)
    point = make_point(rng, 3, 3, np.stack([np.diag([1.0, -2.0, -2.0]), np.diag([-1.0, -1.0, -1.0]), np.diag([8.0, -6, 0])]))
    size = find_size(point.curvature)
    assert_allclose(size, [3.0, np.sqrt(3), 10.0])
    step, damping = actor._newton_step(np, point, size, np.zeros(3), False)
    assert_allclose(damping, [1.2, 0.0, 16.0])
    system = -point.curvature + damping[:, None, None] * np.eye(3)
    assert_allclose(step, np.linalg.solve(system, point.gradient[..., None])[..., 0], rtol=1e-9)
    _, damping = actor._newton_step(np, point, size, np.array([0.6, 0.0, 0.6]), False)
    assert_allclose(damping, [2.4, 0.0, 9.6])


@pytest.mark.parametrize("along", [-1.0, 0.6], ids=["curved down", "curved up along the normal"])
def test_a_step_on_the_boundary_is_that_of_lagrange(along):
    """[−H + μI, n; nᵀ, 0] [d; λ] = [g; 0]; curvature along the normal does not matter and needs no damping."""
    rng = np.random.default_rng(2)
    point = make_point(rng, 4, 3)
    unit = point.normal / np.linalg.norm(point.normal, axis=1, keepdims=True)
    across = np.eye(3) - unit[:, :, None] * unit[:, None, :]
    curvature = across @ point.curvature @ across + along * unit[:, :, None] * unit[:, None, :]
    point, damping = replace(point, curvature=curvature), np.array([0.0, 0.0, 0.3, 0.0])
    step, kept = actor._newton_step(np, point, find_size(curvature), damping.copy(), True)
    assert_array_equal(kept, damping)
    for one in range(4):
        system = np.block(
            [
                [-curvature[one] + damping[one] * np.eye(3), point.normal[one][:, None]],
                [point.normal[one][None, :], np.zeros((1, 1))],
            ]
        )
        expected = np.linalg.solve(system, np.append(point.gradient[one], 0.0))[:3]
        assert_allclose(step[one], expected, rtol=1e-8, atol=1e-10)


def judge(value, rise, promised, gradient=1.0, before=1.0):
    now = _Point(*(np.zeros((1, 1, 2)), np.array([value]), np.array([[0.0, before]])), *[np.zeros(1)] * 3)
    trial = _Point(*(np.zeros((1, 1, 2)), np.array([value + rise]), np.array([[gradient, 0.0]])), *[np.zeros(1)] * 3)
    kept, better, ended = actor._judge_step(np, now, trial, np.array([promised]))
    return float(kept[0]), bool(better[0]), bool(ended[0])


def test_a_step_is_judged_by_what_it_kept_of_its_promise():
    assert judge(0.0, 0.5, 1.0, gradient=9.0) == (0.5, True, False)
    assert judge(0.0, 1.01e-4, 1.0) == (1.01e-4, True, False)
    assert judge(0.0, 0.99e-4, 1.0) == (0.99e-4, False, False)
    assert judge(0.0, -1.0, 1.0) == (-1.0, False, False)


@pytest.mark.parametrize("value", [0.0, 5.0, -5.0])
def test_where_the_promise_drowns_in_rounding_the_gradient_judges(value):
    limit = 1e-13 * (abs(value) + 1e-3)
    for gradient, good in ((0.5, True), (1.0, True), (1.5, False)):
        assert judge(value, -1.0, 0.99 * limit, gradient) == (1.0, good, not good)
    assert judge(value, 0.0, 1.01 * limit, 0.5) == (0.0, False, False)


@pytest.mark.parametrize(
    ("damping", "kept", "better", "expected"),
    [
        (64.0, 0.76, True, 1.0),
        (64.0, 0.75, True, 64.0),
        (64.0, 0.25, True, 64.0),
        (64.0, 0.24, True, 256.0),
        (64.0, 0.9, False, 512.0),
        (0.0, 0.0, False, 0.5),
        (0.0, 0.1, True, 0.0),
    ],
)
def test_damping_follows_what_was_kept(damping, kept, better, expected):
    found = actor._adapt_damping(np, np.array([damping]), np.array([kept]), np.array([better]), np.array([500.0]))
    assert_allclose(found, [expected])


@pytest.mark.parametrize("actions", [2, 3])
def test_the_posed_problem_is_the_same_objective_in_other_units(actions):
    """unit · gain(θ) = the literal objective of θ / width, whatever θ; its features and its advantage have size one."""
    (z, advantage, kept), problem, hard, width, unit = pose(actions=actions)
    rng = np.random.default_rng(3)
    theta = rng.standard_normal((5, actions - 1, 4))
    found = unit * value_of(problem, theta)
    for one in range(5):
        expected = np.column_stack([np.zeros(30), advantage[one]])
        own = (theta[one] / width[one]).ravel()
        assert_allclose(found[one], literal.actor_objective(own, z[one], expected, kept[one], PENALTY), rtol=1e-10)
    share = kept / kept.sum(axis=1, keepdims=True)
    assert_allclose(width**2, (share[..., None] * z**2).sum(axis=1))
    assert_allclose(unit**2, (share[..., None] * advantage**2).sum(axis=(1, 2)))
    assert_allclose(problem.metric, np.einsum("pi,pia,pib->pab", share, z_of(problem), z_of(problem)), rtol=1e-10)
    # The advantage is linear in z, so that the direction gives it exactly.
    assert_allclose(
        z_of(problem) @ np.swapaxes(problem.direction, 1, 2), advantage / unit[:, None, None], rtol=1e-8, atol=1e-10
    )
    assert hard.tolist() == [actions > 2] * 5


def test_what_the_policy_does_not_see_makes_a_problem_hard_and_no_advantage_makes_it_easy():
    z, advantage, kept = actor_problems(np.random.default_rng(4), 3, 2, 40, 1.0)
    advantage[2] = 0.0
    assert not actor._pose_problem(z, advantage, kept, np.full(3, 40), PENALTY)[1].any()
    problem, hard, width, _ = actor._pose_problem(z * [0, 1, 1, 1], advantage, kept, np.full(3, 40), PENALTY)
    assert hard.tolist() == [True, True, False]
    assert_array_equal(width[:, 0], 1.0)
    assert_allclose(problem.penalty[:, 0] * actor._pose_problem(z, advantage, kept, np.full(3, 40), 1.0)[3], PENALTY)


@pytest.mark.parametrize("radius", [None, 0.7])
def test_a_point_holds_the_derivatives_of_the_lagrangian(radius):
    _, problem, *_ = pose(radius=radius)
    theta = np.random.default_rng(5).standard_normal((5, 2, 4))
    if radius is not None:
        theta = problem.scale_to(theta, radius)
        assert_allclose(problem.size(theta), radius)
    point = problem.at(theta)
    assert_allclose(point.value, value_of(problem, theta), rtol=1e-12)
    for one in range(5):
        own = problem.of(np.array([one]))

        def lagrangian(flat, own=own, multiplier=point.multiplier[one]):
            given = flat.reshape(1, 2, 4)
            return value_of(own, given)[0] - multiplier / 2 * own.size(given)[0]

        numerical = approx_fprime(theta[one].ravel(), lagrangian, 1e-7)
        assert_allclose(point.gradient[one], numerical, atol=2e-6)
        for j in range(8):
            turn = np.zeros(8)
            turn[j] = 1e-5

            def slope(flat, own=own, multiplier=point.multiplier[one]):
                at = replace(own, radius=None).at(flat.reshape(1, 2, 4)).gradient[0]
                return at - multiplier * (flat.reshape(2, 4) @ own.metric[0]).ravel()

            change = (slope(theta[one].ravel() + turn) - slope(theta[one].ravel() - turn)) / 2e-5
            assert_allclose(point.curvature[one][j], change, atol=1e-6)
    if radius is None:
        assert (point.multiplier == 0).all() and (point.normal == 0).all()
    else:
        assert_allclose(np.einsum("pj,pj->p", theta.reshape(5, 8), point.gradient), 0, atol=1e-10)


def test_sizes_and_moves():
    _, problem, *_ = pose(radius=2.0)
    rng = np.random.default_rng(6)
    theta, step = rng.standard_normal((5, 2, 4)), rng.standard_normal((5, 8))
    logits = z_of(problem) @ np.swapaxes(theta, 1, 2)
    (_, _, kept), *_ = pose()
    share = kept / kept.sum(axis=1, keepdims=True)
    assert_allclose(problem.size(theta), (share[..., None] * logits**2).sum(axis=(1, 2)))
    free = replace(problem, radius=None).move_by(theta, step)
    assert_allclose(free, theta + step.reshape(5, 2, 4))
    there = problem.move_by(theta, step)
    assert_allclose(problem.size(there), 2.0)
    assert_allclose(there, free * (there / free)[:, :1, :1], rtol=1e-9)
    assert (problem.scale_to(np.zeros((5, 2, 4)), 3.0) == 0).all()


def test_a_start_is_the_best_of_its_scales():
    _, problem, *_ = pose()
    unit = problem.scale_to(problem.direction, 1.0)
    by_scale = np.array([value_of(problem, scale * unit) for scale in actor.START_LOGITS])
    start, value = actor._best_start(problem, problem.direction)
    assert_allclose(value, by_scale.max(axis=0))
    assert len(set(by_scale.argmax(axis=0))) > 1 or by_scale.argmax(axis=0)[0] > 0
    assert_allclose(start, np.array(actor.START_LOGITS)[by_scale.argmax(axis=0)][:, None, None] * unit)
    bounded = replace(problem, radius=0.5)
    start, value = actor._best_start(bounded, problem.direction)
    assert_allclose(bounded.size(start), 0.5)
    assert_allclose(value, value_of(problem, start))


def test_a_climb_that_runs_out_of_steps_says_so():
    _, problem, *_ = pose()
    start = actor._best_start(problem, problem.direction)[0]
    short, whole = actor._climb(problem, start, max_iter=1), actor._climb(problem, start)
    assert not short.converged.any() and whole.converged.all()
    assert_array_equal(short.n_iter, 1)
    assert_allclose(short.gain, value_of(problem, short.coef))
    assert_allclose(whole.gain, value_of(problem, whole.coef), rtol=1e-9)
    assert (value_of(problem, start) < short.gain).all() and (short.gain < whole.gain).all()
    assert (whole.n_iter > 1).all() and (whole.n_iter < 40).all()


def test_newton_ends_in_few_steps_where_the_gradient_is_zero():
    _, problem, *_ = pose()
    whole = actor._climb(problem, actor._best_start(problem, problem.direction)[0])
    assert_allclose(problem.at(whole.coef).gradient, 0.0, atol=1e-8)
    again = actor._climb(problem, whole.coef)
    assert (again.n_iter <= 2).all()
    assert_allclose(again.coef, whole.coef, rtol=1e-7, atol=1e-9)


def test_a_climb_ends_close_to_a_known_higher_summit_and_goes_on_to_a_higher_one():
    _, problem, *_ = pose()
    start = actor._best_start(problem, problem.direction)[0]
    summit = actor._climb(problem, start)
    early = actor._climb(problem, start, summit)
    assert (early.n_iter < summit.n_iter).all()
    assert (early.gain <= summit.gain).all()
    lower = ActorFit(summit.coef, summit.gain - 100, *list(vars(summit).values())[2:])
    assert_array_equal(actor._climb(problem, start, lower).n_iter, summit.n_iter)
    far = ActorFit(-9 * summit.coef, summit.gain + 1, *list(vars(summit).values())[2:])
    assert_array_equal(actor._climb(problem, start, far).n_iter, np.minimum(summit.n_iter, actor.MOST_STEPS + 1))


def test_further_starts_have_their_sizes_and_directions():
    _, problem, *_ = pose(actions=2)
    starts = actor._other_starts(problem)
    assert_allclose([problem.size(start) for start in starts], [[size**2] * 5 for _, size in actor.OTHER_STARTS])
    gradient = replace(problem, penalty=0 * problem.penalty).at(np.zeros((5, 1, 4))).gradient
    for start, direction in zip(starts, (problem.direction[:, 0], gradient / problem.penalty), strict=True):
        cosine = np.einsum("pj,pj->p", start[:, 0], direction)
        assert_allclose(cosine, np.linalg.norm(start[:, 0], axis=1) * np.linalg.norm(direction, axis=1), rtol=1e-9)


def test_extra_starts_are_the_best_of_many_and_do_not_touch_what_is_not_seen():
    z, advantage, kept = actor_problems(np.random.default_rng(7), 4, 3, 30, 1.0)
    problem, *_ = actor._pose_problem(z * [1, 0, 1, 1], advantage, kept, np.full(4, 30), PENALTY)
    starts = actor._extra_starts(problem)
    assert len(starts) == actor.EXTRA_CLIMBS
    values = np.array([value_of(problem, start) for start in starts])
    assert (np.diff(values, axis=0) <= 1e-12).all()
    assert all((start[:, :, 1] == 0).all() for start in starts)
    rng, everything = np.random.default_rng(0), []
    for extra in range(actor.EXTRA_DIRECTIONS):
        turn = 0.7 * rng.standard_normal((2, 4)) * [1, 0, 1, 1] + (problem.direction if extra % 2 else 0.0)
        everything.append(actor._best_start(problem, np.broadcast_to(turn, (4, 2, 4)))[1])
    assert_allclose(values, np.sort(everything, axis=0)[::-1][: actor.EXTRA_CLIMBS])


def test_who_gained_by_turning_climbs_again():
    z, advantage, kept = trade_off_problems(np.random.default_rng(0), 60)
    problem, *_ = actor._pose_problem(z, advantage, kept, np.full(60, 60), 1e-3)
    fit = actor._climb(problem, actor._best_start(problem, problem.direction)[0])
    worth = actor._is_worth_turning(problem, fit)
    for one in range(60):
        own, theta = problem.of(np.array([one])), fit.coef[[one]]
        straight = own.direction * np.sqrt(own.size(theta) / own.size(own.direction))[:, None, None]
        turned = float((value_of(own, theta) - value_of(own, straight))[0])
        paid = float((own.penalty * theta[:, 0] ** 2).sum() / 2)
        assert worth[one] == (turned > actor.WORTH_TURNING * paid and turned > actor.LEAST_WORTH)
    assert 0 < worth.sum() < 60


def test_climbing_again_keeps_what_is_higher():
    """From an opposite start a climb ends elsewhere; only the people who are asked for and gain are changed."""
    z, advantage, kept = trade_off_problems(np.random.default_rng(0), 40)
    problem, *_ = actor._pose_problem(z, advantage, kept, np.full(40, 60), 1e-3)
    best = actor._climb(problem, actor._best_start(problem, problem.direction)[0])
    poor = ActorFit(0 * best.coef, best.gain - 1e3, *list(vars(best).values())[2:])
    who = np.arange(40) % 2 == 0
    actor._climb_again(problem, poor, who, lambda part: [part.direction, 2 * part.direction])
    assert (poor.gain[who] > best.gain[who] - 1).all() and (poor.coef[~who] == 0).all()
    expected = np.maximum(*(actor._climb(problem, size * problem.direction).gain for size in (1, 2)))
    assert_allclose(poor.gain[who], expected[who], rtol=1e-6)
    before = {name: part.copy() for name, part in vars(best).items()}
    actor._climb_again(problem, best, np.zeros(40, dtype=bool), lambda part: [part.direction])
    for name, part in vars(best).items():
        assert_array_equal(part, before[name])


def test_problem_of_some_people_keeps_the_radius():
    _, problem, *_ = pose(radius=0.3)
    assert isinstance(problem.of(np.array([2])), _Problem) and problem.of(np.array([2])).radius == 0.3
    some = problem.of(np.array([3, 1, 4])).of(np.array([2, 0]))
    ((_, z, stakes),) = some.chunks
    assert_array_equal(z, z_of(problem)[[4, 3]])
    assert_array_equal(stakes, problem.stakes[[4, 3]])
    assert_array_equal(some.metric, problem.metric[[4, 3]])


def test_a_climb_never_goes_down():
    """Whatever the start, another step does not leave a lower point: steps that would are not taken."""
    _, problem, *_ = pose(people=40, actions=2)
    start = problem.scale_to(np.random.default_rng(8).standard_normal((40, 1, 4)), 9.0)
    gains = np.array([actor._climb(problem, start, max_iter=steps).gain for steps in range(1, 12)])
    assert (np.diff(gains, axis=0) >= -1e-12).all()
    assert (gains[0] >= value_of(problem, start) - 1e-12).all()
