"""Evaluation in a simulator: what a policy earns in the long run, and how far it is from the truth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from surefoot.data.frames import make_frame
from surefoot.errors import InputError
from surefoot.learning.methods import Method
from surefoot.policies import baselines, coin
from surefoot.policies.policies import Policies, Policy
from surefoot.simulators.base import Simulator
from surefoot.simulators.course import Seed

Decides = Policy | Policies


class Estimate(NamedTuple):
    """A mean over people, its standard error, and everybody's value.

    Attributes
    ----------
    mean
        Over people.
    standard_error
        Of the mean.
    per_participant
        Everybody's value, (people,).
    """

    mean: float
    standard_error: float
    per_participant: NDArray[np.float64]

    @classmethod
    def over(cls, per_participant: NDArray[np.float64]) -> Estimate:
        """Standard error: standard deviation over people / √people; infinite for one participant, who has no spread."""
        people = len(per_participant)
        error = float(per_participant.std(ddof=1) / np.sqrt(people)) if people > 1 else np.inf
        return cls(float(per_participant.mean()), error, per_participant)


@overload
def long_run_average_reward(
    simulator: Simulator, policies: Decides, *, steps: int = ..., keep: int = ..., seed: Seed
) -> Estimate: ...
@overload
def long_run_average_reward(
    simulator: Simulator, policies: Mapping[str, Decides], *, steps: int = ..., keep: int = ..., seed: Seed
) -> dict[str, Estimate]: ...
def long_run_average_reward(
    simulator: Simulator, policies: Decides | Mapping[str, Decides], *, steps: int = 5000, keep: int = 4000, seed: Seed
) -> Estimate | dict[str, Estimate]:
    """ElrAR: run everybody's policy for `steps` decision points, average the rewards of the last `keep`, then over people.

    Parameters
    ----------
    simulator
        The people.
    policies
        One, or several by name: they face the same random numbers and give a result each.
    steps, keep
        How many decision points, and how many of the last count.
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
    if isinstance(policies, Mapping):
        runs = simulator.run(policies, steps=steps, keep=keep, seed=seed)
        return {name: Estimate.over(run.reward) for name, run in runs.items()}
    return Estimate.over(simulator.run({"it": policies}, steps=steps, keep=keep, seed=seed)["it"].reward)


def share_treated(simulator: Simulator, policies: Decides, *, steps: int = 5000, keep: int = 4000, seed: Seed) -> Estimate:
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
    return Estimate.over(simulator.run({"it": policies}, steps=steps, keep=keep, seed=seed)["it"].share_treated)


def immediate_regret(simulator: Simulator, policies: Decides, *, states: int = 1000, seed: Seed) -> Estimate:
    """Mean of max_a q(s, a) − Σ_a π(a | s) q(s, a), q the true expected immediate reward.

    Parameters
    ----------
    simulator
        The people.
    policies
        What is judged.
    states
        The reference states are those that a coin visits in so many decision points: the same for every policy.
    seed
        Root of the random numbers.

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
    """What a coin visits: (people, states, variables)."""
    logs = simulator.collect(coin(len(simulator.action_names)), decision_points=states, seed=seed)
    return logs.state[logs.order].reshape(len(simulator.participants), states, -1)


def regret_at(simulator: Simulator, policies: Decides, states: NDArray[np.float64]) -> Estimate:
    """The immediate regret at given states of every participant, (people, states, variables)."""
    # Every participant's rule meets all of that participant's states: the new axis makes the batch (people, states).
    probabilities = policies.rules_for(simulator.participants)[:, None].probabilities(states)
    expected = simulator.expected_reward(states)
    loss = expected.max(axis=-1) - (probabilities * expected).sum(axis=-1)
    return Estimate.over(loss.mean(axis=1))


def coefficient_error(simulator: Simulator, fitted: Method) -> Estimate:
    """‖ŵ − w*‖ of every participant's critic against the simulator's true coefficients.

    Parameters
    ----------
    simulator
        Whose logs the method was fitted to.
    fitted
        The method.

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


def reference_policies(simulator: Simulator) -> dict[str, Decides]:
    """What every table is compared with: `never`, `always`, `coin` and `oracle-myopic`.

    Parameters
    ----------
    simulator
        Whose truth the oracle knows.

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
    return {
        **baselines(simulator.action_names),
        "coin": coin(len(simulator.action_names)),
        "oracle-myopic": simulator.oracle_myopic(),
    }


def compare(
    simulator: Simulator,
    fitted: Mapping[str, Method | Decides],
    *,
    steps: int = 5000,
    keep: int = 4000,
    states: int = 1000,
    seed: Seed,
    backend: str = "pyarrow",
) -> Any:
    """A tidy frame with a row per method and measure: name, measure, mean, standard_error.

    Parameters
    ----------
    simulator
        The people.
    fitted
        Fitted methods or policies, by name.
    steps, keep
        Of the long run: how many decision points, and how many of the last count.
    states
        Reference states of the immediate regret.
    seed
        Root of the random numbers.
    backend
        Of which library the frame is.

    Returns
    -------
    frame
        Measures: `long_run_average_reward`, `share_treated`, `immediate_regret`, and for fitted methods `coefficient_error`.

    Examples
    --------
    >>> import surefoot as sf
    >>> people = sf.simulators.HeartSteps(participants=3)
    >>> compare(people, {"never": sf.policies.never(2)}, steps=20, keep=10, states=5, seed=0)["measure"].to_pylist()
    ['long_run_average_reward', 'share_treated', 'immediate_regret']
    """
    if not fitted:
        raise InputError("nothing to compare; give at least one method or policy by name")
    deciding = {name: item.policies_ if isinstance(item, Method) else item for name, item in fitted.items()}
    runs = simulator.run(deciding, steps=steps, keep=keep, seed=seed)
    visited = reference_states(simulator, states, seed)
    rows: list[tuple[str, str, float, float]] = []
    for name, item in fitted.items():
        measures = {
            "long_run_average_reward": Estimate.over(runs[name].reward),
            "share_treated": Estimate.over(runs[name].share_treated),
            "immediate_regret": regret_at(simulator, deciding[name], visited),
        }
        if isinstance(item, Method):
            measures["coefficient_error"] = coefficient_error(simulator, item)
        rows += [(name, measure, estimate.mean, estimate.standard_error) for measure, estimate in measures.items()]
    names, measured, means, errors = zip(*rows, strict=True)
    return make_frame({"name": names, "measure": measured, "mean": means, "standard_error": errors}, backend)
