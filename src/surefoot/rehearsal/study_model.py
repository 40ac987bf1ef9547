"""A model of participants without a pilot, from what the study says and what is stated."""

from __future__ import annotations

import numpy as np

from surefoot.errors import InputError
from surefoot.rehearsal.anatomy import Anatomy
from surefoot.rehearsal.clock import StudyClock
from surefoot.rehearsal.family_choice import FamilyChoice
from surefoot.rehearsal.normal_scores import ScoreTable
from surefoot.rehearsal.outcome_families import Normal
from surefoot.rehearsal.pilot_model import PilotModel
from surefoot.rehearsal.state_fits import find_state_fit
from surefoot.rehearsal.state_parts import DerivedPart, StatePart, YesNoPart
from surefoot.rehearsal.varying import Varying
from surefoot.study import Study

EDGES = np.linspace(-4.0, 4.0, 201)


def from_study(
    study: Study,
    *,
    participants: int = 50,
    seed: int,
    mean: float | None = None,
    sd: float | None = None,
    between: float = 0.3,
    carried: float = 0.2,
    availability: float = 1.0,
    missing: float = 0.0,
    per_day: int | None = None,
) -> PilotModel:
    """A model without a pilot: from the study's ranges, and what is stated here.

    Parameters
    ----------
    study
        Its state variables move within their ranges (without one: within three scales of their centre).
    participants, seed
        How many people, and the seed that they are drawn from.
    mean, sd
        Of the outcome; by default the middle of the reward's range and a sixth of its width.
    between
        The share of the outcome's variance that lies between people.
    carried
        How much of an outcome's score is carried over to the next.
    availability, missing
        Shares of decision points: available, and with the outcome lost.
    per_day
        Decision points a day; by default the study's `day_boundary`, or 1.

    Returns
    -------
    PilotModel
        Without any effect; give it one with `in_environment`.

    Examples
    --------
    >>> import surefoot as sf
    >>> text = '''[columns]
    ... participant = "participant"
    ... time = "time"
    ... [state.mood]
    ... range = [0, 10]
    ... [reward]
    ... range = [0, 100]'''
    >>> from_study(sf.Study.parse(text), participants=4, seed=1).state_names
    ('mood',)
    """
    mean, sd = _stated_spread(study, mean, sd)
    if not (sd > 0 and 0 <= between < 1 and 0 <= carried < 1 and 0 < availability <= 1 and 0 <= missing < 1):
        raise InputError("sd must be above 0; between, carried and missing are shares below 1, availability one above 0")
    clock = StudyClock.of_length(per_day or (study.days if isinstance(study.days, int) else 1), 42)
    anatomy = Anatomy(
        study=study,
        clock=clock,
        states=_assume_states(study, clock),
        predictors=(),
        availability=None if availability == 1 else _assume_chain(availability, clock.size, int(missing > 0)),
        missing={},
        lost=None if missing == 0 else _assume_chain(missing, clock.size, 1 + int(availability < 1)),
        artefacts=(),
        family=_assume_outcome(mean, sd, between, carried, clock),
        scores=ScoreTable(mean + sd * EDGES, EDGES, EDGES),
        reward=None,
        limits=study.reward.range or (-np.inf, np.inf),
        step=0.0,
        send_rate=0.0,
        sends=0.5,
    )
    whole = PilotModel(anatomy, np.arange(1), choice=FamilyChoice(Normal.name, {}))
    return whole.draw_people(participants, seed=seed)


def _stated_spread(study: Study, mean: float | None, sd: float | None) -> tuple[float, float]:
    wide = study.reward.range
    if wide is not None:
        return (sum(wide) / 2 if mean is None else mean), ((wide[1] - wide[0]) / 6 if sd is None else sd)
    if mean is None or sd is None:
        raise InputError("the study does not say how the outcome varies; write [reward] range = [0, 100], or give mean, sd")
    return mean, sd


def _assume_states(study: Study, clock: StudyClock) -> dict[str, StatePart]:
    states: dict[str, StatePart] = {}
    for name, variable in study.state.items():
        kind = variable.variable_kind
        derived = DerivedPart(variable.derived_state, kind.centre, kind.scale) if variable.derived else None
        states[name] = derived or find_state_fit(variable.kind).assume(kind, clock.size)
    return states


def _assume_outcome(mean: float, sd: float, between: float, carried: float, clock: StudyClock) -> Normal:
    """Normal, given [1, clock …, availability, score, dose, own effect]: the state variables do not matter."""
    weights, spread = np.zeros(clock.size + 5), np.zeros(clock.size + 5)
    # y = m + carried · sd · score + σ ε: a person's mean is m / (1 − carried), the variance within σ² / (1 − carried²).
    weights[0], weights[-3], spread[0] = mean, carried * sd, (1 - carried) * sd * np.sqrt(between)
    noise = np.log(sd * np.sqrt((1 - between) * (1 - carried**2)))
    return Normal(
        Varying.normal(weights, spread), Varying.normal(np.array([noise]), np.zeros(1)), ScoreTable(EDGES, EDGES, EDGES)
    )


def _assume_chain(share: float, clock_features: int, looks_at: int) -> YesNoPart:
    """Marks in runs, on in this share of the decision points."""
    weights = np.zeros(2 + clock_features + looks_at)
    logit = np.log(share / (1 - share))
    # logit P ∓ 0.5 after 0 and 1: about as often as asked, with runs.
    weights[:2] = logit - share, 1.0
    spread = np.zeros_like(weights)
    spread[0] = 0.3
    return YesNoPart(Varying.normal(weights, spread), looks_at=looks_at, shown=False)
