"""Priors from pilot data, as HeartSteps V2 and Oralytics set theirs.

One regression for everybody says which coefficients are there, with intervals that respect people; one for each participant
says how far people differ.

    mean   the estimate where its 95 % interval excludes 0, else 0
    scale  the standard deviation of the participants' own estimates; half of it where the mean is 0
"""

import warnings

import numpy as np

from surefoot.data.trajectories import Trajectories
from surefoot.errors import FitWarning, InputError
from surefoot.inference.sandwich import compute_influences
from surefoot.learning.horizon import Immediate
from surefoot.learning.methods import Method
from surefoot.learning.penalties import list_coefficient_names
from surefoot.learning.pooling import Everyone, Person
from surefoot.learning.rules import PosteriorSampler

OWN_POINTS = 2  # Usable decision points for each coefficient that a participant's own estimate needs.
LEAST_PEOPLE = 3


def estimate_prior(pilot: Trajectories, method: Method | None = None) -> dict[str, dict[str, float]]:
    """Estimate a prior from a pilot: the mean and the scale of every coefficient.

    It goes into `prior` of a method such as `ts`, or into `[method.prior]` of a study.

    Parameters
    ----------
    pilot
        Logs of other people, or of the same ones before the study.
    method
        The method that the prior is for: its critic and what it sees are used. `ts` unless given.

    Returns
    -------
    dict
        `mean` and `scale` by the name of the coefficient.

    Examples
    --------
    >>> import surefoot as sf
    >>> pilot = sf.simulators.HeartSteps(participants=30).collect(sf.policies.coin(2), decision_points=60, seed=0)
    >>> sorted(estimate_prior(pilot))[:3]
    ['engagement', 'fatigue', 'intercept']
    """
    pilot.check_probabilities()
    parameters = {} if method is None else method.get_params(deep=False)
    parameters |= {"rule": PosteriorSampler(), "horizon": Immediate()}
    with warnings.catch_warnings():
        # What one participant's fit rests on is not what the prior rests on.
        warnings.simplefilter("ignore", FitWarning)
        pooled, by_participant = (
            Method(**{**parameters, "choice": None, "pooling": pooling}).fit(pilot) for pooling in (Everyone(), Person())
        )
    size = pooled.critic_coef_.shape[1]
    count = np.bincount(pilot.participant_index[by_participant.used_], minlength=len(pilot.participants))
    enough = count >= OWN_POINTS * size
    if enough.sum() < LEAST_PEOPLE:
        raise InputError(
            f"{int(enough.sum())} participants of the pilot have {OWN_POINTS * size} usable decision points or more, "
            f"{OWN_POINTS} for each coefficient; to say how far people differ it takes {LEAST_PEOPLE} of them. Write the "
            "prior by hand, or let the critic see fewer variables"
        )
    width = compute_influences(pooled).half_width("critic")
    estimate = pooled.critic_coef_[0]
    spread = by_participant.critic_coef_[enough].std(axis=0, ddof=1)
    clear = np.abs(estimate) > width
    mean = np.where(clear, estimate, 0.0)
    scale = np.where(clear, spread, spread / 2)
    seen = np.tile(np.append(True, pooled.critic_sees_ > 0), pilot.actions)
    names = list_coefficient_names(pilot.state_names, pilot.action_names)
    return {
        name: {"mean": float(mean[j]), "scale": float(scale[j])} for j, name in enumerate(names) if seen[j] and scale[j] > 0
    }
