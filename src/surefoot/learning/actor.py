"""Actors: the Boltzmann policy π_θ(a | s) ∝ exp(θ_aᵀ z(s)), θ_0 = 0, that earns most by the critic's expectation.

Arrays: z (people, decision points, m) holds the policy's features of a state, [s, 1]; `stakes` (people, decision points,
k) what each of the k non-reference actions is expected to gain over doing nothing, times the decision point's weight u / M;
θ (people, k, m) one block per such action. The paper writes exp(−θᵀφ); with our plus sign a positive coefficient means "more
likely to send".

The objective is smooth but not concave. It is climbed with damped Newton steps from a start along the critic's own
advantage. For two actions the objective is concave where every decision point gets the action it gains from, so that this
finds the best of those policies. Another summit can be higher: it sacrifices decision points with little at stake for a
smaller θ. Where nothing is gained by leaving the advantage's direction, there is no such trade; everybody else climbs again
from simpler policies. With more actions, or when the policy sees less than the critic, still further starts compete, or
the policy of a fit to similar decision points where one is known.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import device

from surefoot.numerics import arrays
from surefoot.numerics.batched_cholesky import solve, solve_definite

START_LOGITS = (0.5, 2.0, 8.0, 32.0)
"""Root mean squared logits among which a start takes the best."""
WORTH_TURNING = 0.08
LEAST_WORTH = 1.5e-4
"""Whoever gained by turning away from the advantage more than the first, as a share of the penalty paid, and the second, in
typical advantages, climbs again."""
OTHER_STARTS = (("advantage", 2.0), ("penalty", 4.0))
"""Directions and root mean squared logits of their further starts."""
SAME_SUMMIT = 0.003
"""A climb ends once the squared logits between its next step and a known higher summit are this share of the summit's."""
MOST_STEPS = 16
"""A climb that is still below a known summit after so many steps ends."""
INNER_SHARES = (0.2, 0.4, 0.6, 0.8)
"""Where between nothing and the boundary of the constraint a start for a summit inside it is looked for."""
EXTRA_DIRECTIONS = 32
EXTRA_CLIMBS = 8
"""Extra directions tried for a hard problem; extra climbs made."""


def gain(theta: arrays.Array, logits: arrays.Array, stakes: arrays.Array, penalty: arrays.Array) -> arrays.Array:
    """Σ_i Σ_a π_θ(a | s_i) S_ia − ½ Σ_aj ζ_j θ_aj² per participant, with the logits θ_aᵀ z_i and `penalty` (people, m)."""
    xp = arrays.array_namespace(theta)
    mean = arrays.sum_last(arrays.boltzmann(logits) * stakes)
    return xp.sum(mean, axis=1) - 0.5 * xp.sum(penalty[:, None, :] * theta**2, axis=(1, 2))


def gain_gradient_curvature(
    theta: arrays.Array, z: arrays.Array, stakes: arrays.Array, penalty: arrays.Array
) -> tuple[arrays.Array, arrays.Array, arrays.Array]:
    """`gain` with its gradient (people, k·m) and Hessian (people, k·m, k·m).

    With f = Σ_a π_a S_a and η_a = θ_aᵀ z:  ∂f/∂η_a = π_a (S_a − f) =: d_a,  ∂²f/∂η_a∂η_b = δ_ab d_a − π_a d_b − π_b d_a.
    """
    xp = arrays.array_namespace(z)
    people, k, m = theta.shape
    turned = xp.matrix_transpose(z)
    probability = arrays.boltzmann(z @ xp.matrix_transpose(theta))
    ridge = penalty[:, None, :] * xp.eye(m, dtype=z.dtype, device=device(z))
    paid = 0.5 * xp.sum(penalty[:, None, :] * theta**2, axis=(1, 2))
    if k == 1:  # The same in a third of the passes over the data.
        chance = probability[..., 0]
        mean = chance * stakes[..., 0]
        slope = mean * (1.0 - chance)
        pull = slope[:, None, :] @ z - penalty[:, None, :] * theta
        curvature = (turned * (slope * (1.0 - 2.0 * chance))[:, None, :]) @ z - ridge
        return xp.sum(mean, axis=1) - paid, pull[:, 0, :], curvature
    mean = arrays.sum_last(probability * stakes)
    slope = probability * (stakes - mean[..., None])
    pull = xp.matrix_transpose(slope) @ z - penalty[:, None, :] * theta
    curvature = xp.zeros((people, k * m, k * m), dtype=z.dtype, device=device(z))
    for a in range(k):
        for b in range(a + 1):
            bend = -probability[..., a] * slope[..., b] - probability[..., b] * slope[..., a]
            weights = bend + slope[..., a] if a == b else bend
            block = (turned * weights[:, None, :]) @ z - (ridge if a == b else 0.0)
            curvature[:, a * m : (a + 1) * m, b * m : (b + 1) * m] = block
            curvature[:, b * m : (b + 1) * m, a * m : (a + 1) * m] = block
    return xp.sum(mean, axis=1) - paid, xp.reshape(pull, (people, k * m)), curvature


@dataclass(frozen=True)
class ActorFit(arrays.PerParticipant):
    """The result of an actor for each participant of a block."""

    coef: arrays.Array
    """θ, (people, k, m)."""
    gain: arrays.Array
    """(1/M) Σ_i u_i Σ_a π_a A_a − (ζ/2)‖θ‖²: the objective less the reward of doing nothing, (people,)."""
    multiplier: arrays.Array
    """λ of the stochasticity constraint, zero where it is slack, (people,)."""
    n_iter: arrays.Array
    """Newton steps on the way to θ, (people,)."""
    converged: arrays.Array


@dataclass(frozen=True)
class _Problem:
    """A block of actor problems in natural units, in which every feature and the gain have size one."""

    xp: Any
    """The namespace of the arrays."""
    rows: arrays.Array
    """The policy's features, (block's people, m, decision points): passes run along the decision points."""
    stakes: arrays.Array
    """u · advantage / (M · typical advantage), (block's people, decision points, k)."""
    penalty: arrays.Array
    """(people, m)."""
    metric: arrays.Array
    """Σ̂, (people, m, m): the weighted mean of z zᵀ, in which the size of a policy is measured."""
    direction: arrays.Array
    """θ with which the logits follow the advantage as well as they can, (people, k, m)."""
    places: arrays.Array | None = None
    """Which people of the block these are, for who is done leaves but rows stay; None: all of them."""
    radius: float | None = None
    """With a radius the search stays on Σ_a θ_aᵀ Σ̂ θ_a = radius."""
    start: arrays.Array | None = None
    """θ of a fit to similar decision points, (people, k, m), where one is known."""

    def of(self, people: arrays.Array) -> "_Problem":
        return replace(
            self,
            penalty=self.penalty[people],
            metric=self.metric[people],
            direction=self.direction[people],
            places=people if self.places is None else self.places[people],
            start=None if self.start is None else self.start[people],
        )

    @cached_property
    def chunks(self) -> list[tuple[slice, arrays.Array, arrays.Array]]:
        """Some of the people, as many as a cache holds, with their z (people, decision points, m) and stakes."""
        _, m, points = self.rows.shape
        chunks = []
        for people in arrays.split_people(self.penalty, m * points):
            rows = people if self.places is None else self.places[people]
            chunks.append((people, self.xp.matrix_transpose(self.rows[rows]), self.stakes[rows]))
        return chunks

    def gains(self, theta: arrays.Array, scales: tuple[float, ...] = (1.0,)) -> arrays.Array:
        """The gain of every multiple of θ, (scales, people)."""
        xp = self.xp
        values = xp.empty((len(scales), theta.shape[0]), dtype=theta.dtype, device=device(theta))
        for people, z, stakes in self.chunks:
            logits = z @ xp.matrix_transpose(theta[people])
            for index, scale in enumerate(scales):
                values[index, people] = gain(scale * theta[people], scale * logits, stakes, self.penalty[people])
        return values

    def size(self, theta: arrays.Array) -> arrays.Array:
        """Σ_a θ_aᵀ Σ̂ θ_a: the mean squared logit, summed over actions, (people,)."""
        return self.xp.sum(theta * (theta @ self.metric), axis=(1, 2))

    def scale_to(self, theta: arrays.Array, size: float | arrays.Array) -> arrays.Array:
        """θ stretched to the given size; zero stays zero."""
        xp = self.xp
        now = self.size(theta)
        return theta * xp.sqrt(size / xp.where(now > 0, now, 1.0))[:, None, None]

    def move_by(self, theta: arrays.Array, step: arrays.Array) -> arrays.Array:
        """θ after a step (people, k·m), back on the boundary where there is a radius."""
        moved = theta + self.xp.reshape(step, theta.shape)
        return moved if self.radius is None else self.scale_to(moved, self.radius)

    def at(self, theta: arrays.Array) -> "_Point":
        """θ with its gain and derivatives; with a radius those of the Lagrangian gain − λ/2 (size − radius)."""
        xp = self.xp
        people, k, m = theta.shape
        derivatives = []
        for chunk, z, stakes in self.chunks:
            derivatives.append(gain_gradient_curvature(theta[chunk], z, stakes, self.penalty[chunk]))
        if len(derivatives) > 1:
            derivatives = [tuple(map(xp.concat, zip(*derivatives, strict=True)))]
        ((value, gradient, curvature),) = derivatives
        if self.radius is None:
            return _Point(theta, value, gradient, curvature, xp.zeros_like(value), xp.zeros_like(gradient))
        normal = xp.reshape(theta @ self.metric, (people, k * m))
        multiplier = xp.sum(xp.reshape(theta, (people, k * m)) * gradient, axis=1) / self.radius
        gradient = gradient - multiplier[:, None] * normal
        for block in (slice(a * m, (a + 1) * m) for a in range(k)):
            curvature[:, block, block] -= multiplier[:, None, None] * self.metric
        return _Point(theta, value, gradient, curvature, multiplier, normal)


@dataclass(frozen=True)
class _Point(arrays.PerParticipant):
    theta: arrays.Array
    value: arrays.Array
    gradient: arrays.Array
    curvature: arrays.Array
    multiplier: arrays.Array
    normal: arrays.Array
    """Σ̂θ, across which the search on a boundary moves; zero without one."""


def _newton_step(
    xp: Any, point: _Point, size: arrays.Array, damping: arrays.Array, bounded: bool
) -> tuple[arrays.Array, arrays.Array]:
    """Solve (−H + μI) d = g with d orthogonal to the normal, raising μ where the system is not positive definite.

    `size` is that of H, (people,). Returns d and μ.
    """
    stiff = -point.curvature
    right = point.gradient[..., None]
    if bounded:
        # d does not depend on curvature along the normal; adding some there keeps the system positive definite.
        length = xp.sum(point.normal**2, axis=1)
        stiffness = size / xp.where(length > 0, length, 1.0)
        stiff = stiff + stiffness[:, None, None] * (point.normal[:, :, None] * point.normal[:, None, :])
        right = xp.concat([right, point.normal[..., None]], axis=-1)
    eye = xp.eye(stiff.shape[-1], dtype=stiff.dtype, device=device(stiff))
    solved = solve_definite(stiff + damping[:, None, None] * eye, right)
    step = solved.solution[..., 0]
    if bounded:
        across = solved.solution[..., 1]
        with np.errstate(all="ignore"):  # Numbers of those who failed are replaced below.
            spill = xp.sum(point.normal * across, axis=1)
            along = xp.sum(point.normal * step, axis=1) / xp.where(spill > 0, spill, 1.0)
            step = step - along[:, None] * across
    failed = xp.nonzero(~solved.positive_definite)[0]
    if failed.shape[0]:
        raised = xp.maximum(4 * damping[failed], 0.1 * size[failed] + float(xp.finfo(size.dtype).eps))
        step[failed], damping[failed] = _newton_step(xp, point.of(failed), size[failed], raised, bounded)
    return step, damping


def _judge_step(
    xp: Any, now: _Point, trial: _Point, promised: arrays.Array
) -> tuple[arrays.Array, arrays.Array, arrays.Array]:
    """The share of the promised rise that a step achieved, whether it leads to a better point, and whether none can.

    Where the promised rise drowns in rounding, the gradient tells whether the step was good.
    """
    drowned = promised <= 1e-13 * (xp.abs(now.value) + 1e-3)
    achieved = xp.where(drowned, 1.0, (trial.value - now.value) / xp.where(drowned, 1.0, promised))
    steeper = xp.sum(trial.gradient**2, axis=1) > xp.sum(now.gradient**2, axis=1)
    better = (achieved > 1e-4) & ~(drowned & steeper)
    return achieved, better, drowned & ~better


def _adapt_damping(
    xp: Any, damping: arrays.Array, achieved: arrays.Array, better: arrays.Array, size: arrays.Array
) -> arrays.Array:
    """Less damping after a step that achieved what it promised, more after one that did not, much more after a bad one."""
    softer = xp.where(achieved > 0.75, damping / 64, xp.where(achieved < 0.25, 4 * damping, damping))
    return xp.where(better, softer, xp.maximum(8 * damping, 1e-3 * size))


def _climb(problem: _Problem, start: arrays.Array, known: ActorFit | None = None, max_iter: int = 200) -> ActorFit:
    """Damped Newton ascent (Levenberg–Marquardt) from θ = `start`; it ends early close to a `known` higher summit.

    Every participant has a damping of their own and leaves the batch on convergence: nobody's result depends on who else is
    in it. Newton's steps shrink quadratically, so that the last two tell how long the next would be: where that is
    negligible, this step is taken without evaluating it again.
    """
    xp = problem.xp
    part = problem
    now = problem.at(start)
    active = xp.arange(start.shape[0], device=device(start))
    fit = ActorFit(*map(xp.empty_like, (start, now.value, now.multiplier, active, active < 0)))
    damping = xp.zeros_like(now.value)
    last = xp.zeros_like(now.value)
    stuck = ~xp.any(now.gradient != 0, axis=1)
    # On the boundary λ needs the gradient, so an evaluation is never skipped there.
    skip_tolerance = 1e-6 if problem.radius is None else 0.0
    for iteration in range(1, max_iter + 1):
        size = xp.sqrt(xp.sum(now.curvature**2, axis=(1, 2)))
        step, damping = _newton_step(xp, now, size, damping, problem.radius is not None)
        target = part.move_by(now.theta, step)
        promised = xp.sum(step * (now.gradient + 0.5 * (now.curvature @ step[..., None])[..., 0]), axis=1)
        undamped = damping <= 1e-8 * size
        length = xp.sqrt(xp.sum(step**2, axis=1))
        reach = 1 + xp.sqrt(xp.sum(now.theta**2, axis=(1, 2)))
        ending = (length <= 1e-9 * reach) | ((length <= skip_tolerance * reach) & (length**3 <= 1e-12 * last**2 * reach))
        if known is not None:
            close = part.size(target - known.coef) <= SAME_SUMMIT * part.size(known.coef)
            stuck = stuck | ((close | (iteration > MOST_STEPS)) & (now.value <= known.gain))
        done = stuck | (undamped & ending)
        if xp.any(done):
            theta = xp.where(stuck[:, None, None], now.theta, target)
            value = xp.where(stuck, now.value, now.value + promised)
            ended = ActorFit(theta, value, now.multiplier, xp.full_like(active, iteration), done)
            fit.record(active[done], ended.of(done))
            climbing = xp.nonzero(~done)[0]
            if not climbing.shape[0]:
                return fit
            part = part.of(climbing)
            now = now.of(climbing)
            active = active[climbing]
            target = target[climbing]
            size = size[climbing]
            damping = damping[climbing]
            undamped = undamped[climbing]
            length = length[climbing]
            promised = promised[climbing]
            known = known and known.of(climbing)
        trial = part.at(target)
        achieved, better, stuck = _judge_step(xp, now, trial, promised)
        damping = _adapt_damping(xp, xp.where(undamped, 0.0, damping), achieved, better, size)
        last = xp.where(better & undamped, length, 0.0)
        if not xp.all(better):
            trial.record(~better, now.of(~better))
        now = trial
    fit.record(active, ActorFit(now.theta, now.value, now.multiplier, xp.full_like(active, max_iter), active < 0))
    return fit


def _best_start(
    problem: _Problem, direction: arrays.Array, scales: tuple[float, ...] = START_LOGITS
) -> tuple[arrays.Array, arrays.Array]:
    """The best of some scales along a direction (people, k, m), and its gain; on a boundary there is but one."""
    xp = arrays.array_namespace(direction)
    scales = scales if problem.radius is None else (problem.radius**0.5,)
    unit = problem.scale_to(direction, 1.0)
    values = problem.gains(unit, scales)
    best = xp.asarray(scales, dtype=unit.dtype, device=device(unit))[xp.argmax(values, axis=0)]
    return best[:, None, None] * unit, xp.max(values, axis=0)


def _search(problem: _Problem, hard: arrays.Array) -> ActorFit:
    """Climb from the direction in which the logits follow the advantage, and from more where that may not be enough."""
    fit = _climb(problem, _best_start(problem, problem.direction)[0])
    if problem.radius is None:
        turn = _is_worth_turning(problem, fit)
        _climb_again(problem, fit, turn if problem.start is None else turn & ~hard, _other_starts)
    _climb_again(problem, fit, hard, _extra_starts)
    return fit


def _climb_again(
    problem: _Problem, fit: ActorFit, chosen: arrays.Array, starts: Callable[[_Problem], list[arrays.Array]]
) -> None:
    """Climb from further starts for some people, and keep what beats `fit`."""
    xp = arrays.array_namespace(chosen)
    people = xp.nonzero(chosen)[0]
    if not people.shape[0]:
        return
    thetas = starts(problem.of(people))
    again = xp.concat([people] * len(thetas))  # One batch: few people climb from many starts in the time of one.
    other = _climb(problem.of(again), xp.concat(thetas), fit.of(again))
    size = people.shape[0]
    for part in (other.of(slice(at, at + size)) for at in range(0, size * len(thetas), size)):
        better = part.gain > fit.gain[people]
        fit.record(people[better], part.of(better))


def _is_worth_turning(problem: _Problem, fit: ActorFit) -> arrays.Array:
    """Whose policy gains so much over one of the same size along the advantage that others may gain more, (people,)."""
    xp = arrays.array_namespace(fit.gain)
    straight = problem.scale_to(problem.direction, problem.size(fit.coef))
    turned = fit.gain - problem.gains(straight)[0, :]
    paid = 0.5 * xp.sum(problem.penalty[:, None, :] * fit.coef**2, axis=(1, 2))
    return (turned > WORTH_TURNING * paid) & (turned > LEAST_WORTH)


def _other_starts(problem: _Problem) -> list[arrays.Array]:
    """Starts along the advantage, and along the policies that very strong penalties leave: the gradient at θ = 0 over ζ."""
    xp = arrays.array_namespace(problem.direction)
    gradient = problem.direction @ problem.metric
    strong = gradient / xp.where(problem.penalty > 0, problem.penalty, 1.0)[:, None, :]
    directions = {"advantage": problem.direction, "penalty": strong}
    return [problem.scale_to(directions[name], size**2) for name, size in OTHER_STARTS]


def _extra_starts(problem: _Problem) -> list[arrays.Array]:
    """The policy of a fit to similar decision points, the best of many starts there, or else of many fixed directions."""
    if problem.start is not None:
        return [problem.start if problem.radius is None else problem.scale_to(problem.start, problem.radius)]
    direction = problem.direction
    xp = arrays.array_namespace(direction)
    rng = np.random.default_rng(0)  # The same directions for everyone, always: a search grid, not chance.
    # What the policy does not see is always zero, and a coefficient for it stays exactly zero.
    seen = xp.stack([problem.metric[:, j, j] > 0 for j in range(direction.shape[-1])], axis=-1)[:, None, :]
    starts = []
    values = []
    for extra in range(EXTRA_DIRECTIONS):
        turn = xp.asarray(0.7 * rng.standard_normal(direction.shape[1:]), device=device(direction))
        start, value = _best_start(problem, seen * turn + (direction if extra % 2 else xp.zeros_like(direction)))
        starts.append(start)
        values.append(value)
    order = xp.argsort(-xp.stack(values), axis=0)
    rows = xp.arange(direction.shape[0], device=device(direction))
    return [xp.stack(starts)[order[rank], rows] for rank in range(EXTRA_CLIMBS)]


def optimise(
    z: arrays.Array,
    advantage: arrays.Array,
    weights: arrays.Array,
    *,
    count: arrays.Array,
    penalty: float,
    radius: float | None = None,
    start: arrays.Array | None = None,
) -> ActorFit:
    """θ = argmax (1/M) Σ_i u_i Σ_a π_θ(a | s_i) A_ia − (ζ/2)‖θ‖², and Σ_a θ_aᵀ Σ̂ θ_a ≤ radius where one is given.

    `weights` are u, `count` is M, both per participant; Σ̂ is the u-weighted mean of z zᵀ. With a radius (SACCB) either the
    constraint is slack and the answer is that without it, or it holds with equality. `start` is the θ of a fit to similar
    decision points: where one start may not be enough, it takes the place of many.

    >>> import numpy as np
    >>> z, advantage, ones = np.ones((1, 5, 1)), np.full((1, 5, 1), 2.0), np.ones((1, 5))
    >>> optimise(z, advantage, ones, count=np.array([5]), penalty=0.5).coef.round(3)  # 2 π (1 − π) = 0.5 θ
    array([[[0.842]]])
    """
    problem, hard, width, unit = _pose_problem(z, advantage, weights, count, penalty)
    problem = replace(problem, start=None if start is None else start * width[:, None, :])
    fit = _search(problem, hard)
    if radius is not None:
        _constrain(problem, hard, fit, radius)
    coef = fit.coef / width[:, None, :]
    return ActorFit(coef, fit.gain * unit, fit.multiplier * unit, fit.n_iter, fit.converged)


def _pose_problem(
    z: arrays.Array, advantage: arrays.Array, weights: arrays.Array, count: arrays.Array, penalty: float
) -> tuple[_Problem, arrays.Array, arrays.Array, arrays.Array]:
    """The problems in natural units, for whom one start may not be enough, and the units of features and advantage."""
    xp = arrays.array_namespace(z)
    k = advantage.shape[-1]
    m = z.shape[-1]
    total = xp.sum(weights, axis=1)
    total = xp.where(total > 0, total, 1.0)
    rows = arrays.contiguous(xp.matrix_transpose(z))
    metric = arrays.gram(xp.matrix_transpose(rows), weights) / total[:, None, None]
    weighted = weights[..., None] * advantage
    moments = xp.matrix_transpose(rows @ weighted) / total[:, None, None]
    unit = xp.sqrt(xp.sum(weighted * advantage, axis=(1, 2)) / total)
    unit = xp.where(unit > 0, unit, 1.0)
    width = xp.sqrt(xp.stack([metric[:, j, j] for j in range(m)], axis=-1))
    width = xp.where(width > 0, width, 1.0)
    metric = metric / (width[:, :, None] * width[:, None, :])
    moments = moments / (width[:, None, :] * unit[:, None, None])
    direction = xp.matrix_transpose(solve(metric, xp.matrix_transpose(moments)).solution)
    # What the direction does not explain of the advantage, whose size is one: more than rounding makes a problem hard.
    explained = xp.sum(direction * moments, axis=(1, 2))
    hard = (explained < 1 - 1e-10) if k == 1 else explained > 0
    hard = hard & xp.any(moments != 0, axis=(1, 2))
    scale = xp.maximum(xp.astype(count, z.dtype), xp.ones_like(total)) * unit
    shrunk = penalty / (unit[:, None] * width**2)
    rows /= width[:, :, None]
    problem = _Problem(xp, rows, weighted / scale[:, None, None], shrunk, metric, direction)
    return problem, hard, width, unit


def _constrain(problem: _Problem, hard: arrays.Array, fit: ActorFit, radius: float) -> None:
    """Move those whose policy is too sure of itself onto the boundary of the stochasticity constraint."""
    xp = arrays.array_namespace(fit.coef)
    outside = xp.nonzero(problem.size(fit.coef) > radius)[0]
    if outside.shape[0] == 0:
        return
    bounded = replace(problem.of(outside), radius=radius)
    bound = _search(bounded, hard[outside])
    # A negative multiplier says that the gain rises inwards: then there may be a higher summit inside the constraint.
    inwards = xp.nonzero(bound.multiplier < 0)[0]
    if inwards.shape[0]:
        inside = problem.of(outside[inwards])
        sizes = tuple(radius**0.5 * share for share in INNER_SHARES)
        inner = _climb(inside, _best_start(inside, bound.coef[inwards], sizes)[0])
        higher = (inner.gain > bound.gain[inwards]) & (bounded.of(inwards).size(inner.coef) <= radius)
        bound.record(inwards[higher], inner.of(higher))
    fit.record(outside, bound)
