"""Evaluation in a simulator: a policy's reward in the long run, and its distance from the truth."""

from collections.abc import Mapping
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from surefoot.data.frames import make_frame
from surefoot.errors import InputError
from surefoot.learning.methods import Method
from surefoot.policies.policies import Policies, Policy, baselines, coin
from surefoot.simulators.simulator import Seed, Simulator


class Estimate(NamedTuple):
    """A mean over people, its standard error, and the value of each person."""

    mean: float
    """Over people."""
    standard_error: float
    """Of the mean; infinite for one participant."""
    per_participant: NDArray[np.float64]
    """Everybody's value, (people,)."""

    @classmethod
    def over(cls, per_participant: NDArray[np.float64]) -> "Estimate":
        """The mean of everybody's values, with its standard error: standard deviation / √people."""
        people = len(per_participant)
        error = float(per_participant.std(ddof=1) / np.sqrt(people)) if people > 1 else np.inf
        return cls(float(per_participant.mean()), error, per_participant)


@overload
def long_run_average_reward(
    simulator: Simulator, policies: Policy | Policies, *, steps: int = ..., keep: int = ..., seed: Seed
) -> Estimate: ...
@overload
def long_run_average_reward(
    simulator: Simulator, policies: Mapping[str, Policy | Policies], *, steps: int = ..., keep: int = ..., seed: Seed
) -> dict[str, Estimate]: ...
def long_run_average_reward(
    simulator: Simulator,
    policies: Policy | Policies | Mapping[str, Policy | Policies],
    *,
    steps: int = 5000,
    keep: int = 4000,
    seed: Seed,
) -> Estimate | dict[str, Estimate]:
    """The mean reward of policies after a long time.

    Everybody's policy runs for `steps` decision points; the rewards of the last `keep` are averaged, then over people.
    The paper calls it ElrAR.

    Parameters
    ----------
    simulator
        The people.
    policies
        One, or several by name: they meet the same random numbers.
    steps, keep
        Number of decision points, and how many of the last count.
    seed
        Root of the random numbers.

    Returns
    -------
    Estimate or dict of Estimate

    Examples
    --------
    >>> from surefoot.simulators import ChainWalk
    >>> sim = ChainWalk(participants=20)
    >>> round(long_run_average_reward(sim, sim.oracle_myopic(), seed=0).mean)
    90
    """
    several = policies if isinstance(policies, Mapping) else {"": policies}
    runs = simulator.run(several, steps=steps, keep=keep, seed=seed)
    rewards = {name: Estimate.over(run.reward) for name, run in runs.items()}
    return rewards if isinstance(policies, Mapping) else rewards[""]


def share_treated(
    simulator: Simulator, policies: Policy | Policies, *, steps: int = 5000, keep: int = 4000, seed: Seed
) -> Estimate:
    """Share of decision points with an action other than 0, in the same run as `long_run_average_reward`.

    Parameters
    ----------
    simulator, policies, steps, keep, seed
        As in `long_run_average_reward`.

    Returns
    -------
    Estimate

    Examples
    --------
    >>> import surefoot as sf
    >>> float(share_treated(sf.simulators.HeartSteps(participants=3), sf.policies.always(2), steps=20, keep=10, seed=0).mean)
    1.0
    """
    return Estimate.over(simulator.run({"": policies}, steps=steps, keep=keep, seed=seed)[""].share_treated)


def immediate_regret(simulator: Simulator, policies: Policy | Policies, *, states: int = 1000, seed: Seed) -> Estimate:
    """The reward that policies lose at the next decision point, compared with the best action.

    The mean of max_a q(s, a) − Σ_a π(a | s) q(s, a), q the true expected immediate reward.

    Parameters
    ----------
    simulator, policies, seed
        As in `long_run_average_reward`.
    states
        Number of reference states: those that a coin visits, the same for every policy.

    Returns
    -------
    Estimate

    Examples
    --------
    >>> import surefoot as sf
    >>> people = sf.simulators.HeartSteps(participants=3)
    >>> float(immediate_regret(people, people.oracle_myopic(), states=10, seed=0).mean)
    0.0
    """
    return regret_at(simulator, policies, reference_states(simulator, states, seed))


def reference_states(simulator: Simulator, states: int, seed: Seed) -> NDArray[np.float64]:
    """The states that a coin visits, (people, states, variables)."""
    logs = simulator.collect(coin(len(simulator.action_names)), decision_points=states, seed=seed)
    return logs.state[logs.order].reshape(len(simulator.participants), states, -1)


def regret_at(simulator: Simulator, policies: Policy | Policies, states: NDArray[np.float64]) -> Estimate:
    """The immediate regret at given states of every participant, (people, states, variables)."""
    # Every participant's rule meets all of that participant's states: the new axis makes the batch (people, states).
    probabilities = policies.rules_for(simulator.participants)[:, None].probabilities(states)
    expected = simulator.expected_reward(states)
    loss = expected.max(axis=-1) - (probabilities * expected).sum(axis=-1)
    return Estimate.over(loss.mean(axis=1))


def coefficient_error(simulator: Simulator, fitted: Method) -> Estimate:
    """The distance of each fitted critic from the simulator's true coefficients, ‖ŵ − w*‖.

    Parameters
    ----------
    simulator
        The people.
    fitted
        The method, fitted to their logs.

    Returns
    -------
    Estimate

    Examples
    --------
    >>> import surefoot as sf
    >>> people = sf.simulators.HeartSteps(participants=5)
    >>> logs = people.collect(sf.policies.coin(2), decision_points=100, seed=0)
    >>> bool(coefficient_error(people, sf.method("accb").fit(logs)).mean > 0)
    True
    """
    return Estimate.over(np.linalg.norm(fitted.critic_coef_ - simulator.critic_coef, axis=1))


def reference_policies(simulator: Simulator) -> dict[str, Policy | Policies]:
    """The references of every table: `never`, `always`, `coin` and `oracle-myopic`.

    Parameters
    ----------
    simulator
        Its truth defines the oracle.

    Returns
    -------
    dict
        Policies by name.

    Examples
    --------
    >>> import surefoot as sf
    >>> list(reference_policies(sf.simulators.HeartSteps(participants=3)))
    ['never', 'always', 'coin', 'oracle-myopic']
    """
    references = {**baselines(simulator.action_names), "coin": coin(len(simulator.action_names))}
    return {**references, "oracle-myopic": simulator.oracle_myopic()}


def compare(
    simulator: Simulator,
    fitted: Mapping[str, Method | Policy | Policies],
    *,
    steps: int = 5000,
    keep: int = 4000,
    states: int = 1000,
    seed: Seed,
    backend: str | None = None,
) -> Any:
    """Compare fitted methods and policies in a simulator: a frame with a row for each and every measure.

    Its columns are name, measure, mean and standard_error.

    Parameters
    ----------
    simulator, steps, keep, states, seed
        As in `long_run_average_reward` and `immediate_regret`.
    fitted
        Fitted methods or policies, by name.
    backend
        The library of the frame.

    Returns
    -------
    frame
        Measures: `long_run_average_reward`, `share_treated`, `immediate_regret`, and for fitted methods `coefficient_error`.

    Examples
    --------
    >>> import surefoot as sf
    >>> people = sf.simulators.HeartSteps(participants=3)
    >>> compare(people, {"never": sf.policies.never(2)}, steps=20, keep=10, states=5, seed=0)["measure"].tolist()
    ['long_run_average_reward', 'share_treated', 'immediate_regret']
    """
    if not fitted:
        raise InputError("nothing to compare; give at least one method or policy by name")
    policies = {name: item.policies_ if isinstance(item, Method) else item for name, item in fitted.items()}
    runs = simulator.run(policies, steps=steps, keep=keep, seed=seed)
    visited = reference_states(simulator, states, seed)
    columns: dict[str, list[Any]] = {"name": [], "measure": [], "mean": [], "standard_error": []}
    for name, item in fitted.items():
        measures = {
            "long_run_average_reward": Estimate.over(runs[name].reward),
            "share_treated": Estimate.over(runs[name].share_treated),
            "immediate_regret": regret_at(simulator, policies[name], visited),
        }
        if isinstance(item, Method):
            measures["coefficient_error"] = coefficient_error(simulator, item)
        for measure, estimate in measures.items():
            for column, value in zip(columns.values(), (name, measure, *estimate[:2]), strict=True):
                column.append(value)
    return make_frame(columns, backend)
