"""The best that could be done in an environment, by somebody who knows everybody's effects.

Where effects remember at most one number m (a burden), the plan is found by dynamic programming from the last decision point
to the first, on the scale of the outcome's score and for everybody at once:

    V_t(m) = max over a of shift(m, a, day) + V_{t+1}(m′(m, a))

with m on a grid and V interpolated in between. Where somebody is not available, a = 0; the share of those moments is the
model's average. Without a memory this is the best immediate action. It looks neither at what the last outcome and the state
carry on, nor at drop-out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.rehearsal.environments import Environment
from surefoot.rehearsal.pilot_model import PilotModel

Floats = NDArray[np.float64]
GRID = 21
"""Values of the memory at which the plan is found."""


@dataclass(frozen=True, eq=False)
class BestPlan:
    """What to do at every decision point: send where the memory lies below or above, by interpolation of the advantage.

    Attributes
    ----------
    grid
        Values of the memory, (grid,).
    advantage
        Of sending, (decision points, grid, *lanes).
    """

    grid: Floats
    advantage: Floats

    def sends(self, point: int, memory: Floats) -> NDArray[np.bool_]:
        """Whether to send, for memories (*lanes)."""
        return _interpolate(self.grid, self.advantage[point], memory) > 0


def can_plan(environment: Environment) -> bool:
    """Whether its effects remember at most one number."""
    return environment.rows <= 1


def plan_best(environment: Environment, lanes: tuple[int, ...], days: Floats, availability: float) -> BestPlan:
    """The plan for people (*lanes) over decision points that lie on these days of theirs."""
    grid = np.linspace(0.0, _largest_memory(environment), GRID) if environment.rows else np.zeros(1)
    memory = np.broadcast_to(grid.reshape(-1, *[1] * len(lanes)), (len(grid), *lanes))
    rows = np.stack([memory]) if environment.rows else np.empty((0, *memory.shape))
    zero = np.zeros(memory.shape)
    after = [environment.advance(rows, zero + sent)[0] if environment.rows else memory for sent in (0.0, 1.0)]
    value, advantage = zero, np.empty((len(days), *memory.shape))
    for point in range(len(days) - 1, -1, -1):
        worth = [
            environment.shift(rows, zero + sent, np.asarray(days[point])) + _interpolate(grid, value, after[place])
            for place, sent in enumerate((0.0, 1.0))
        ]
        advantage[point] = worth[1] - worth[0]
        value = worth[0] + availability * advantage[point].clip(0)
    return BestPlan(grid, advantage)


def _largest_memory(environment: Environment) -> float:
    """What the memory comes to where everything is sent."""
    memory = environment.begin((1,))
    for _ in range(500):
        memory = environment.advance(memory, np.ones(1))
    return float(memory[0, 0])


def _interpolate(grid: Floats, values: Floats, memory: Floats) -> Floats:
    """values (grid, *lanes) at memories (…, *lanes), evenly spaced grid; one value only is the same everywhere."""
    if len(grid) == 1:
        return np.broadcast_to(values[0], memory.shape)
    place = memory / grid[1]
    low = np.floor(place).clip(0, len(grid) - 2).astype(np.int64)
    share = place - low
    rows = low if low.ndim == values.ndim else low[None]
    below, above = np.take_along_axis(values, rows, axis=0), np.take_along_axis(values, rows + 1, axis=0)
    found = below + (share if low.ndim == values.ndim else share[None]) * (above - below)
    return np.asarray(found if low.ndim == values.ndim else found[0])


def run_best(simulator: PilotModel, *, per_day: int, days: int, seeds: list[int]) -> Floats:
    """True rewards under the plan, (trials, people, decision points), with the chance that every candidate meets."""
    environment, points = simulator.environment, per_day * days
    lanes = (len(seeds), len(simulator.participants))
    plan = plan_best(
        environment, lanes, simulator.anatomy.clock.day(np.arange(points, dtype=np.float64)), _available(simulator)
    )
    course = simulator.start(seed=seeds)
    rows = environment.begin(lanes)
    for point in range(points):
        free = course.look().available
        memory = rows[0] if environment.rows else np.zeros(lanes)
        action = (plan.sends(point, memory) & free).astype(np.int64)
        course.step(action, np.ones(lanes))
        rows = environment.advance(rows, action.astype(np.float64))
    return course.rewards


def _available(simulator: PilotModel, points: int = 40) -> float:
    """The mean share of available moments, from a short simulation."""
    if simulator.anatomy.availability is None:
        return 1.0
    from surefoot.policies.constant_policies import never

    replicates = simulator.people_differ_by_replicate
    course = simulator.start(seed=list(range(replicates or 1))).advance(never(len(simulator.action_names)), points)
    return float(course.available.mean())
