"""Any regressor as a model of the expected reward: what an actor needs of a critic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from surefoot.errors import InputError
from surefoot.policies.features import critic_features


@dataclass(frozen=True)
class RewardModel:
    """A fitted regressor of the reward on state and action.

    Attributes
    ----------
    regressor
        As fitted.
    actions
        How many there are.
    weights
        What every decision point counted: the regressor's `weights_`, else 1.
    """

    regressor: Any
    actions: int
    weights: NDArray[np.float64]

    def predict_rewards(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        """E[r | s, a] for every action, (decision points, actions)."""
        rows = (np.full(len(state), code) for code in range(self.actions))
        return np.stack([self.regressor.predict(_features(state, code, self.actions)) for code in rows], axis=1)


def fit_reward_model(
    regressor: Any, state: NDArray[np.float64], action: NDArray[np.int64], reward: NDArray[np.float64], *, actions: int
) -> RewardModel:
    """Fit a copy of the regressor to decision points that can be used, on [s, 1{a=1}, 1{a=1} s, …].

    Parameters
    ----------
    regressor
        Any with scikit-learn's `fit` and `predict`.
    state, action, reward
        (decision points, variables), (decision points,) and (decision points,).
    actions
        How many there are, with nothing.

    Returns
    -------
    RewardModel

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> state, action = np.array([[0.0], [1.0], [0.0], [1.0]]), np.array([0, 0, 1, 1])
    >>> found = fit_reward_model(LinearRegression(), state, action, np.array([1.0, 2.0, 3.0, 6.0]), actions=2)
    >>> found.predict_rewards(np.array([[2.0]])).round(6)
    array([[3., 9.]])
    """
    if not hasattr(regressor, "predict"):
        raise InputError(f"{type(regressor).__name__} is not a regressor: it has no predict")
    fitted = clone(regressor).fit(_features(state, action, actions), reward)
    return RewardModel(fitted, actions, np.asarray(getattr(fitted, "weights_", np.ones(len(reward)))))


def _features(state: NDArray[np.float64], action: NDArray[np.int64], actions: int) -> NDArray[np.float64]:
    """The critic's features without the intercept, which regressors have of their own."""
    return np.ascontiguousarray(critic_features(state, action, actions)[:, 1:])
