"""Policies that do not look at the state."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from surefoot.errors import InputError
from surefoot.policies.policies import Policy
from surefoot.policies.rules import Fixed


def coin(actions: int) -> Policy:
    """Every action with the same probability.

    Parameters
    ----------
    actions
        How many there are, with nothing.

    Returns
    -------
    Policy

    Examples
    --------
    >>> coin(2).probabilities([[0.0]])
    array([[0.5, 0.5]])
    """
    return fixed([1 / actions] * actions)


def never(actions: int) -> Policy:
    """Always action 0: send nothing.

    Parameters
    ----------
    actions
        How many there are, with nothing.

    Returns
    -------
    Policy

    Examples
    --------
    >>> never(2).probabilities([[0.0]])
    array([[1., 0.]])
    """
    return fixed([1.0] + [0.0] * (actions - 1))


def always(actions: int) -> Policy:
    """Never action 0: one of the others, each with the same probability.

    Parameters
    ----------
    actions
        How many there are, with nothing.

    Returns
    -------
    Policy

    Examples
    --------
    >>> always(3).probabilities([[0.0]])
    array([[0. , 0.5, 0.5]])
    """
    return fixed([0.0] + [1 / (actions - 1)] * (actions - 1))


def baselines(action_names: Sequence[str]) -> dict[str, Policy]:
    """The same action at every decision point: `never` any, and `always`, or `always walk` where there are several to send.

    Parameters
    ----------
    action_names
        Nothing first.

    Returns
    -------
    dict of Policy
        By name.

    Examples
    --------
    >>> list(baselines(["nothing", "walk", "stretch"]))
    ['never', 'always walk', 'always stretch']
    """
    two = len(action_names) == 2
    names = ["never", *("always" if two else f"always {name}" for name in action_names[1:])]
    return {
        name: replace(fixed(row), action_names=tuple(action_names))
        for name, row in zip(names, np.eye(len(action_names)), strict=True)
    }


def fixed(probabilities: ArrayLike) -> Policy:
    """The given probabilities, whatever the state.

    Parameters
    ----------
    probabilities
        Of every action, nothing first.

    Returns
    -------
    Policy

    Examples
    --------
    >>> fixed([0.7, 0.3]).probabilities([[0.0]])
    array([[0.7, 0.3]])
    """
    values = np.asarray(probabilities, dtype=np.float64)
    if values.ndim != 1 or len(values) < 2 or not (values >= 0).all() or abs(values.sum() - 1) > 1e-9:
        raise InputError(f"probabilities must be at least two numbers of at least 0 that sum to 1; got {values.tolist()}")
    return Policy(Fixed(values), tuple(str(code) for code in range(len(values))))
