"""Actors: who turns the critic's expected reward into a Boltzmann policy, for all people of a block at once.

The objective is smooth but not concave. It is climbed with damped Newton steps from a start along the critic's own
advantage, which for two actions is already in the right valley; with more actions, or when the policy sees less than the
critic, further starts compete. Arrays are as in `surefoot.boltzmann`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from array_api_compat import array_namespace, device

from surefoot.boltzmann import gain, gain_gradient_curvature
from surefoot.cholesky import Array, Cholesky
from surefoot.critics import gram

START_LOGITS = (0.5, 2.0, 8.0, 32.0)
"""Root mean squared logits among which a start takes the best."""
EXTRA_DIRECTIONS = 32
EXTRA_CLIMBS = 4
"""A hard problem looks along so many further directions, and climbs from so many of them."""


@dataclass(frozen=True)
class ActorFit:
    """What an actor found for each person of a block."""

    coef: Array
    """θ, (people, k, m)."""
    gain: Array
    """(1/M) Σ_i u_i Σ_a π_a A_a − (ζ/2)‖θ‖²: the objective less the reward of doing nothing, (people,)."""
    multiplier: Array
    """λ of the stochasticity constraint, zero where it is slack, (people,)."""
    n_iter: Array
    """Newton steps on the way to θ, (people,)."""
    converged: Array

    def replaced(self, people: Array, other: ActorFit, rows: Array) -> None:
        """Overwrite the results of `people` with `rows` of another fit."""
        for mine, theirs in zip(vars(self).values(), vars(other).values(), strict=True):
            mine[people] = theirs[rows]


@dataclass(frozen=True)
class _Problem:
    """A block of actor problems. θ is in natural units, in which every feature has size one; the data are not copied."""

    z: Array
    advantage: Array
    weights: Array
    """u / (M · typical advantage), so that the gain has size one."""
    penalty: Array
    """ζ / typical advantage, (people, m)."""
    width: Array
    """Root mean square of each feature, (people, m): a coefficient of z is θ / width."""
    metric: Array
    """Σ̂ in natural units, (people, m, m): the weighted mean of z zᵀ, in which the size of a policy is measured."""
    direction: Array
    """θ with which the logits follow the advantage as well as they can, (people, k, m)."""
    radius: float | None = None
    """With a radius the search stays on Σ_a θ_aᵀ Σ̂ θ_a = radius."""

    def of(self, people: Array) -> _Problem:
        parts = {name: part[people] for name, part in vars(self).items() if name != "radius"}
        return _Problem(**parts, radius=self.radius)

    def size(self, theta: Array) -> Array:
        """Σ_a θ_aᵀ Σ̂ θ_a: the mean squared logit, summed over actions, (people,)."""
        return array_namespace(theta).sum(theta * (theta @ self.metric), axis=(1, 2))

    def scaled(self, theta: Array, size: float) -> Array:
        """θ stretched to the given size; zero stays zero."""
        xp = array_namespace(theta)
        now = self.size(theta)
        return theta * xp.sqrt(size / xp.where(now > 0, now, xp.ones_like(now)))[:, None, None]

    def gain(self, theta: Array) -> Array:
        return gain(theta / self.width[:, None, :], self.z, self.advantage, self.weights, self.penalty)

    def at(self, theta: Array) -> _Point:
        """θ with its gain and derivatives; with a radius those of the Lagrangian gain − λ/2 (size − radius)."""
        xp = array_namespace(theta)
        people, k, m = theta.shape
        raw = theta / self.width[:, None, :]
        value, gradient, curvature = gain_gradient_curvature(raw, self.z, self.advantage, self.weights, self.penalty)
        shrink = xp.concat([1 / self.width] * k, axis=1)
        gradient, curvature = gradient * shrink, curvature * (shrink[:, :, None] * shrink[:, None, :])
        normal, multiplier = xp.zeros_like(gradient), xp.zeros_like(value)
        if self.radius is not None:
            normal = xp.reshape(theta @ self.metric, (people, k * m))
            multiplier = xp.sum(xp.reshape(theta, (people, k * m)) * gradient, axis=1) / self.radius
            gradient = gradient - multiplier[:, None] * normal
            for block in (slice(a * m, (a + 1) * m) for a in range(k)):
                curvature[:, block, block] -= multiplier[:, None, None] * self.metric
        return _Point(theta, value, gradient, curvature, multiplier, normal)


@dataclass(frozen=True)
class _Point:
    theta: Array
    value: Array
    gradient: Array
    curvature: Array
    multiplier: Array
    normal: Array

    def of(self, people: Array) -> _Point:
        return _Point(*(part[people] for part in vars(self).values()))

    def move(self, people: Array, other: _Point) -> None:
        for mine, theirs in zip(vars(self).values(), vars(other).values(), strict=True):
            mine[people] = theirs


def _norm(values: Array) -> Array:
    xp = array_namespace(values)
    return xp.sqrt(xp.sum(values**2, axis=tuple(range(1, values.ndim))))


def _newton_step(point: _Point, damping: Array) -> tuple[Array, Array]:
    """Solve (−H + μI) d = g with d orthogonal to the normal, raising μ where the system is not positive definite."""
    xp = array_namespace(damping)
    size = _norm(point.curvature)
    # d does not depend on curvature along the normal; adding some there keeps the system positive definite.
    length = xp.sum(point.normal**2, axis=1)
    stiffness = size / xp.where(length > 0, length, xp.ones_like(length))
    stiff = stiffness[:, None, None] * point.normal[:, :, None] * point.normal[:, None, :] - point.curvature
    eye = xp.eye(stiff.shape[-1], dtype=stiff.dtype, device=device(stiff))
    system = Cholesky(stiff + damping[:, None, None] * eye)
    while not xp.all(system.positive_definite):
        raised = xp.maximum(4 * damping, 1e-3 * size + float(xp.finfo(size.dtype).eps))
        damping = xp.where(system.positive_definite, damping, raised)
        system = Cholesky(stiff + damping[:, None, None] * eye)
    step = system.solve(point.gradient)
    if not xp.any(length > 0):
        return step, damping
    across = system.solve(point.normal)
    spill = xp.sum(point.normal * across, axis=1)
    along = xp.sum(point.normal * step, axis=1) / xp.where(spill > 0, spill, xp.ones_like(spill))
    return step - along[:, None] * across, damping


def _climb(problem: _Problem, start: Array, max_iter: int = 200) -> ActorFit:
    """Damped Newton ascent (Levenberg–Marquardt) from θ = `start`.

    Every person has a damping of their own and leaves the batch on convergence: nobody's result depends on who else is
    in it.
    """
    xp = array_namespace(start)
    best = problem.at(start)
    damping = xp.zeros_like(best.value)
    n_iter = xp.zeros(start.shape[0], dtype=xp.int64, device=device(start))
    converged = ~xp.any(best.gradient != 0, axis=1)
    active = xp.nonzero(~converged)[0]
    part, now = problem, best
    for _ in range(max_iter):
        if active.shape[0] == 0:
            break
        n_iter[active] += 1
        if active.shape[0] < part.z.shape[0]:
            part = problem.of(active)
        now = best.of(active)
        step, mu = _newton_step(now, damping[active])
        theta = now.theta + xp.reshape(step, now.theta.shape)
        trial = part.at(theta if problem.radius is None else part.scaled(theta, problem.radius))
        promised = xp.sum(step * (now.gradient + 0.5 * (now.curvature @ step[..., None])[..., 0]), axis=1)
        # Where the promised rise drowns in rounding, the gradient tells whether the step was good.
        drowned = promised <= 1e-13 * (xp.abs(now.value) + 1e-3)
        kept = xp.where(drowned, xp.ones_like(promised), (trial.value - now.value) / xp.where(drowned, 1.0, promised))
        better = (kept > 1e-4) & (~drowned | (_norm(trial.gradient) <= _norm(now.gradient)))
        best.move(active[better], trial.of(better))
        size = _norm(now.curvature)
        undamped = mu <= 1e-8 * size
        softer = xp.where(kept > 0.75, mu / 8, xp.where(kept < 0.25, 4 * mu, mu))
        harder = xp.maximum(8 * mu, 1e-3 * size)
        damping[active] = xp.where(better, xp.where(undamped, xp.zeros_like(mu), softer), harder)
        arrived = better & undamped & (_norm(step) <= 1e-9 * (1 + _norm(theta)))
        converged[active] = arrived | (drowned & ~better)
        active = active[~converged[active]]
    return ActorFit(best.theta, best.value, best.multiplier, n_iter, converged)


def _best_start(problem: _Problem, direction: Array) -> tuple[Array, Array]:
    """The best of the start scales along a direction (people, k, m), and its gain."""
    xp = array_namespace(direction)
    sizes = [logit**2 for logit in START_LOGITS] if problem.radius is None else [problem.radius]
    start = problem.scaled(direction, sizes[0])
    value = problem.gain(start)
    for size in sizes[1:]:
        other = problem.scaled(direction, size)
        other_value = problem.gain(other)
        start = xp.where((other_value > value)[:, None, None], other, start)
        value = xp.maximum(value, other_value)
    return start, value


def _search(problem: _Problem, hard: Array) -> ActorFit:
    """Climb from the direction in which the logits follow the advantage, and from more where that may not be enough."""
    xp = array_namespace(problem.z)
    fit = _climb(problem, _best_start(problem, problem.direction)[0])
    people = xp.nonzero(hard)[0]
    if people.shape[0]:
        _search_further(problem.of(people), fit, people)
    return fit


def _search_further(problem: _Problem, fit: ActorFit, people: Array) -> None:
    """Climb from zero and from the best of many fixed directions, and keep what beats `fit`."""
    direction = problem.direction
    xp = array_namespace(direction)
    rng = np.random.default_rng(0)  # The same directions for everyone, always: a search grid, not chance.
    # What the policy does not see is always zero, and a coefficient for it stays exactly zero.
    seen = xp.stack([problem.metric[:, j, j] > 0 for j in range(direction.shape[-1])], axis=-1)[:, None, :]
    starts, values = [], []
    for extra in range(EXTRA_DIRECTIONS):
        turn = xp.asarray(0.7 * rng.standard_normal(direction.shape[1:]), device=device(direction))
        start, value = _best_start(problem, seen * turn + (direction if extra % 2 else xp.zeros_like(direction)))
        starts.append(start)
        values.append(value)
    order = xp.argsort(-xp.stack(values), axis=0)
    rows = xp.arange(direction.shape[0], device=device(direction))
    chosen = [xp.stack(starts)[order[place], rows] for place in range(EXTRA_CLIMBS)]
    for start in chosen if problem.radius is not None else [*chosen, xp.zeros_like(direction)]:
        other = _climb(problem, start)
        better = other.gain > fit.gain[people]
        fit.replaced(people[better], other, better)


def optimise(
    z: Array, advantage: Array, weights: Array, *, count: Array, penalty: float, radius: float | None = None
) -> ActorFit:
    """θ = argmax (1/M) Σ_i u_i Σ_a π_θ(a | s_i) A_ia − (ζ/2)‖θ‖², and Σ_a θ_aᵀ Σ̂ θ_a ≤ radius where one is given.

    `weights` are u, `count` is M, both per person; Σ̂ is the u-weighted mean of z zᵀ. With a radius (SACCB) either the
    constraint is slack and the answer is that without it, or it holds with equality.

    >>> import numpy as np
    >>> z, advantage, ones = np.ones((1, 5, 1)), np.full((1, 5, 1), 2.0), np.ones((1, 5))
    >>> optimise(z, advantage, ones, count=np.array([5]), penalty=0.5).coef.round(3)  # 2 π (1 − π) = 0.5 θ
    array([[[0.842]]])
    """
    problem, unit, hard = _posed(z, advantage, weights, count, penalty)
    fit = _search(problem, hard)
    if radius is not None:
        _constrain(problem, hard, fit, radius)
    coef = fit.coef / problem.width[:, None, :]
    return ActorFit(coef, fit.gain * unit, fit.multiplier * unit, fit.n_iter, fit.converged)


def _posed(z: Array, advantage: Array, weights: Array, count: Array, penalty: float) -> tuple[_Problem, Array, Array]:
    """The problems in natural units, the typical advantage, and for whom one start may not be enough."""
    xp = array_namespace(z)
    k, m = advantage.shape[-1], z.shape[-1]
    total = xp.sum(weights, axis=1)
    total = xp.where(total > 0, total, xp.ones_like(total))
    metric = gram(z, weights) / total[:, None, None]
    weighted = weights[..., None] * advantage
    moments = xp.matrix_transpose(weighted) @ z / total[:, None, None]
    unit = _root_or_one(xp.sum(weighted * advantage, axis=(1, 2)) / total)
    width = _root_or_one(xp.stack([metric[:, j, j] for j in range(m)], axis=-1))
    metric = metric / (width[:, :, None] * width[:, None, :])
    moments = moments / (width[:, None, :] * unit[:, None, None])
    system = Cholesky(metric)
    direction = xp.stack([system.solve(xp.asarray(moments[:, a, :], copy=True)) for a in range(k)], axis=1)
    # What the direction does not explain of the advantage, whose size is one: more than rounding makes a problem hard.
    explained = xp.sum(direction * moments, axis=(1, 2))
    hard = (explained < 1 - 1e-10) if k == 1 else explained > 0
    hard = hard & xp.any(moments != 0, axis=(1, 2))
    scale = xp.maximum(xp.astype(count, z.dtype), xp.ones_like(total)) * unit
    shrunk = penalty / unit[:, None] * xp.ones_like(width)
    return _Problem(z, advantage, weights / scale[:, None], shrunk, width, metric, direction), unit, hard


def _root_or_one(squares: Array) -> Array:
    xp = array_namespace(squares)
    return xp.where(squares > 0, xp.sqrt(squares), xp.ones_like(squares))


def _constrain(problem: _Problem, hard: Array, fit: ActorFit, radius: float) -> None:
    """Move those whose policy is too sure of itself onto the boundary of the stochasticity constraint."""
    xp = array_namespace(fit.coef)
    outside = xp.nonzero(problem.size(fit.coef) > radius)[0]
    if outside.shape[0] == 0:
        return
    bounded = replace(problem.of(outside), radius=radius)
    bound = _search(bounded, hard[outside])
    # A negative multiplier says that the gain rises inwards: then there may be a higher summit inside the constraint.
    inwards = xp.nonzero(bound.multiplier < 0)[0]
    if inwards.shape[0]:
        inner = _climb(problem.of(outside[inwards]), xp.zeros_like(bound.coef[inwards]))
        higher = (inner.gain > bound.gain[inwards]) & (bounded.of(inwards).size(inner.coef) <= radius)
        bound.replaced(inwards[higher], inner, higher)
    fit.replaced(outside, bound, xp.arange(outside.shape[0], device=device(outside)))
