"""People of a rehearsal who are Gymnasium environments, in the units of the study."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from surefoot.data.log_columns import Problems
from surefoot.errors import InputError
from surefoot.numerics.arrays import Array
from surefoot.policies.policies import coin
from surefoot.rehearsal.plan import Environment, TrialDesign
from surefoot.simulators.gymnasium_import import GymnasiumPeople
from surefoot.simulators.simulator import Seed
from surefoot.study import Study
from surefoot.study.log_reader import transform_outcome


class EnvironmentModel(GymnasiumPeople):
    """The people of a Gymnasium environment: observations are the study's states, rewards its raw outcomes.

    Where `withheld`, sending does nothing: the environments get the first action whatever was drawn.
    """

    def __init__(self, study: Study, design: TrialDesign, environment: Environment, *, withheld: bool = False) -> None:
        for name, variable in study.state.items():
            if variable.derived or len(study.state_columns[name]) > 1:
                raise InputError(
                    f"the state '{name}' is derived or has several levels, which a Gymnasium environment does not observe; "
                    "leave it out of [state], or let the environment observe numbers"
                )
        super().__init__(
            str(environment.gymnasium),
            design.participants,
            parameters=environment.parameters,
            state_names=study.state_names,
            action_names=study.actions.names,
            restart=environment.restart,
        )
        self._study = study
        self._points = design.decision_points
        self._withheld = withheld
        kinds = list(study.variable_kinds.values())
        self._centre = np.array([kind.centre for kind in kinds])
        self._scale = np.array([kind.scale for kind in kinds])

    def draw_people(self, participants: int, *, seed: Seed | Sequence[Seed], draws: Any = None) -> Self:
        """These people: new ones follow from the seeds of the trials."""
        return self

    def measure_spread(self, seed: Seed) -> float:
        """The standard deviation of the outcome at available decision points under a coin."""
        simulation = self.start(seed=seed).advance(coin(len(self.action_names)), self._points)
        outcomes = simulation.reported[simulation.available]
        outcomes = outcomes[~np.isnan(outcomes)]
        if len(outcomes) < 2 or np.ptp(outcomes) == 0:
            raise InputError(f"the outcomes of {self._environment} do not vary under a coin, so no effect can be measured")
        return float(outcomes.std(ddof=1))

    def visible(self, state: Array) -> Array:
        ones = (1,) * (np.ndim(state) - 1)
        return (super().visible(state) - self._centre.reshape(-1, *ones)) / self._scale.reshape(-1, *ones)

    def move(self, state: Array, action: Array, numbers: Array, active: NDArray[np.bool_] | None) -> tuple[Array, Array]:
        following, rewards = super().move(state, np.zeros_like(action) if self._withheld else action, numbers, active)
        outcome = transform_outcome(np.ravel(rewards), self._study.outcome, Problems()).reshape(rewards.shape)
        lost = np.isnan(outcome) & ~np.isnan(rewards)
        if lost.any():
            raise InputError(
                f"the reward {rewards[lost][0]:g} of {self._environment} has no {self._study.outcome.transform}; change "
                "[outcome] transform"
            )
        return following, outcome


def import_environments(
    study: Study, design: TrialDesign, environments: Sequence[Environment]
) -> tuple[EnvironmentModel, ...]:
    """The people in every environment; without an effect they are those of the first one, with all actions withheld."""
    imported = environments[1:]
    null = EnvironmentModel(study, design, imported[0], withheld=True)
    return (null, *(EnvironmentModel(study, design, environment) for environment in imported))
