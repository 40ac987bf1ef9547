"""scikit-learn's manners: what its grid searches, `clone` and users expect of an estimator. scikit-learn is not needed."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError, did_you_mean
from surefoot.policies.policies import Policies


class EstimatorInterface:
    """For dataclasses whose fields are parameters and that learn `policies_`."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """What the constructor was given; with `deep` also the parameters of parts that have some (`critic__alpha`)."""
        parameters = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        components = {name: component for name, component in parameters.items() if deep and hasattr(component, "get_params")}
        inner = {
            f"{name}__{key}": value
            for name, component in components.items()
            for key, value in component.get_params().items()
        }
        return parameters | inner

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters, also those of parts (`critic__alpha=2.0`); what was learned stays until the next fit."""
        valid = [field.name for field in fields(self)]  # type: ignore[arg-type]
        for given in sorted(parameters, key=lambda name: "__" in name):
            name, _, inner = given.partition("__")
            if name not in valid:
                raise InputError(
                    f"{type(self).__name__} has no parameter '{name}'{did_you_mean(name, valid)}; it has {valid}"
                )
            if not inner:
                setattr(self, name, parameters[given])
            elif hasattr(getattr(self, name), "set_params"):
                getattr(self, name).set_params(**{inner: parameters[given]})
            else:
                raise InputError(f"{given}: {name} is {getattr(self, name)!r}, which has no parameters of its own")
        return self

    def predict_proba(self, states: Any, participant: ArrayLike | None = None) -> NDArray[np.float64]:
        """Probabilities of the actions, (n, actions), by the policies learned.

        Parameters
        ----------
        states
            An array (n, variables), a data frame, whose columns are matched by name, or Trajectories, which know whose
            states they are and who was available.
        participant
            Whose states they are: one for all, or one for each. Not needed where one policy serves anybody.

        Returns
        -------
        ndarray of shape (n, actions)
        """
        policies: Policies = self.policies_  # type: ignore[attr-defined]
        if isinstance(states, Trajectories):
            filled = np.where(states.available[:, None], states.state, 0.0)
            return policies.probabilities(states.participant, filled, states.available)
        if participant is None and policies.participants is not None:
            raise InputError("everybody has a policy of their own; say whose it is: predict_proba(states, participant=...)")
        participants = np.broadcast_to(np.asarray(0 if participant is None else participant), (len(states),))
        return policies.probabilities(participants, states)

    def score(self, logs: Trajectories, y: None = None) -> float:
        """What the method is worth on these logs, per decision point: a doubly robust value that no decision point judges
        which it was learned from.

        One policy for anybody that was learned from other people is judged as it is. In every other case the method is
        learned anew from these logs without the fold that judges it: by participant where one policy serves anybody, else by
        time. So a grid search works with folds of people, also for policies per participant.
        """
        # Methods know nothing of evaluation; the package, which holds both, is asked.
        return float(import_module("surefoot").evaluation.score_method(self, logs))

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False), input_tags=InputTags(allow_nan=True))
