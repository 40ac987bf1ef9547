"""When a look-ahead is refused, and what is said of one that rests on too little: it is never myopic in silence."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from surefoot.errors import FitWarning, InputError
from surefoot.learning.diagnostics import SHOWN_PEOPLE
from surefoot.learning.horizon.consequences import PooledView
from surefoot.learning.horizon.horizon import HorizonTask, Outlook
from surefoot.learning.horizon.horizon_batch import TransitionData
from surefoot.learning.horizon.look_ahead import MOST_RADIUS

PAIRS_PER_COEFFICIENT = 5
"""With fewer consecutive decision points for each coefficient of the next state nothing is learned about what follows."""
ENOUGH_FOR_ONE = 1500
"""Consecutive decision points from which a look-ahead by itself, without other people, begins to gain on doing nothing."""


def refuse_hopeless(task: HorizonTask, data: TransitionData) -> None:
    """Pooled logs from which nobody could learn what follows an action; of people by themselves it is said in warnings."""
    if not task.pooling.needs_everybody:
        return
    logs = task.logs
    never = [name for code, name in enumerate(logs.action_names) if not (logs.action[logs.usable] == code).any()]
    if never:
        raise InputError(
            f"action '{never[0]}' was never taken at a usable decision point, so its consequences cannot be learned; "
            "randomise it, leave it out of the actions, or use horizon = 'immediate'"
        )
    pairs = int(data.pairs.sum())
    needed = PAIRS_PER_COEFFICIENT * (len(logs.state_names) + 1) * logs.actions
    if pairs < needed:
        raise InputError(
            f"{pairs} of {len(logs)} decision points are followed by the participant's next one with a known state; a look "
            f"ahead needs at least {needed} ({PAIRS_PER_COEFFICIENT} for each coefficient). Log missed decision points "
            "(unavailable ones too), let max_gap cross gaps, or use horizon = 'immediate'"
        )


def warn_of_doubts(task: HorizonTask, outlook: Outlook, enough: NDArray[np.bool_]) -> None:
    """Too little to look ahead for some, no state that reacts, a state that carries over for ever."""
    for text in (*_doubt_amounts(task, outlook, enough), *_doubt_model(outlook)):
        warnings.warn(text, FitWarning, stacklevel=5)


def _doubt_amounts(task: HorizonTask, outlook: Outlook, enough: NDArray[np.bool_]) -> Iterator[str]:
    people = task.pooling.list_participants(task.logs)[~enough]
    if people.size:
        names = ", ".join(repr(name.item()) for name in people[:SHOWN_PEOPLE])
        others = f" and {people.size - SHOWN_PEOPLE} more" if people.size > SHOWN_PEOPLE else ""
        yield (
            f"participant {names}{others}: fewer than {PAIRS_PER_COEFFICIENT} consecutive decision points per coefficient, "
            "so the policy does nothing"
        )
    typical = float(np.median(outlook.transitions))
    if not task.pooling.needs_everybody and typical < ENOUGH_FOR_ONE:
        yield (
            f"a typical participant has {typical:.0f} consecutive decision points, too few to look ahead alone: with fewer "
            f"than about {ENOUGH_FOR_ONE:,} such a policy does not beat doing nothing. Learn one for all (pooling = 'all')"
        )


def _doubt_model(outlook: Outlook) -> Iterator[str]:
    view = PooledView.of_outlook(outlook)
    if not view.some_state_reacts:
        yield (
            "no state variable reacts to the actions, so looking ahead only adds noise to the immediate effect; add one "
            "that remembers (a derived state such as dose), or use horizon = 'immediate'"
        )
    radius = float(view.model.radius[0])
    if radius > MOST_RADIUS:
        yield (
            f"the state seems to carry over for ever (spectral radius {radius:.2f}), so its long-run worth is a guess; take "
            "out a variable that only grows, such as a count or the day in the study"
        )
