"""Fitting a model of participants to a pilot."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from surefoot.data.trajectories import Trajectories
from surefoot.errors import FitWarning, InputError
from surefoot.rehearsal.anatomy import Anatomy
from surefoot.rehearsal.count_outcomes import ZeroInflatedCount  # noqa: F401 - registers the family
from surefoot.rehearsal.family_choice import choose_family, find_step
from surefoot.rehearsal.outcome_families import find_family
from surefoot.rehearsal.pilot_data import NO_PILOT, PilotData
from surefoot.rehearsal.pilot_model import PilotModel
from surefoot.rehearsal.state_fits import find_state_fit, fit_artefacts, fit_marks
from surefoot.rehearsal.state_parts import DerivedPart, StatePart
from surefoot.study import Study, StudyLogs

Floats = NDArray[np.float64]
FEW_PEOPLE = 5


def fit_pilot(
    logs: StudyLogs | Trajectories,
    study: Study,
    *,
    seed: int = 0,
    outcome: str | None = None,
    per_day: int | None = None,
) -> PilotModel:
    """A model of the people of a pilot, each with numbers of their own, pulled towards the others as the data ask.

    Parameters
    ----------
    logs
        What `study.read` gives (then the outcome is modelled as measured, and artefacts as the screen found them), or
        trajectories, whose reward is modelled as it is.
    study
        What the columns mean.
    seed
        Of what is drawn in fitting: scores within piles of equal values.
    outcome
        The family of outcomes; by default the one under which days held out are most likely.
    per_day
        Decision points a day, where neither the study's `day_boundary` nor timestamps say it.

    Returns
    -------
    PilotModel
        A simulator of the pilot's own people; `draw_people` gives new ones.

    Examples
    --------
    >>> import surefoot as sf
    >>> text = '''[columns]
    ... participant = "participant"
    ... time = "time"
    ... [state.weather]
    ... [state.engagement]
    ... [state.fatigue]'''
    >>> logs = sf.simulators.HeartSteps(participants=10).collect(sf.policies.coin(2), decision_points=60, seed=0)
    >>> fit_pilot(logs, sf.Study.parse(text), per_day=5)
    PilotModel(participants=10, outcome='normal', effects: none)
    """
    data = PilotData.of_logs(logs, study, per_day)
    if data.people < FEW_PEOPLE:
        rough = f"{data.people} participants say little about how people differ: trials simulated from them are rough"
        warnings.warn(rough, FitWarning, stacklevel=2)
    rng = np.random.default_rng(seed)
    states, predictors = _fit_states(data, rng)
    x = _outcome_features(data, predictors)
    weight = (data.present & ~np.isnan(data.outcome)).astype(np.float64)
    day = data.clock.day(np.arange(x.shape[1], dtype=np.float64))
    choice = choose_family(x, data.outcome, weight, np.broadcast_to(day, weight.shape), outcome, rng)
    known = data.outcome[weight > 0]
    marks = fit_marks(data)
    anatomy = Anatomy(
        study=study,
        clock=data.clock,
        states=states,
        predictors=tuple(name for name, found in predictors.items() if found),
        availability=marks.availability,
        missing=marks.missing,
        lost=marks.lost,
        artefacts=fit_artefacts(data),
        family=find_family(choice.name).fit(x, data.outcome, weight, rng),
        scores=data.scores,
        reward=study.reward if isinstance(logs, StudyLogs) else None,
        limits=_limits(known, study),
        step=find_step(known),
        send_rate=data.send_rate,
        sends=float(data.probability[data.available].mean()),
    )
    return PilotModel(anatomy, data.participants, choice=choice)


def _fit_states(data: PilotData, rng: np.random.Generator) -> tuple[dict[str, StatePart], dict[str, tuple[Floats, ...]]]:
    """Every state variable's part, and what the outcome's model sees of those that are not computed."""
    study = data.study
    parts: dict[str, StatePart] = {}
    predictors: dict[str, tuple[Floats, ...]] = {}
    for name, variable in study.state.items():
        if variable.derived:
            kind = variable.variable_kind
            parts[name] = DerivedPart(variable.derived_state, kind.centre, kind.scale)
            continue
        columns = [study.state_names.index(column) for column in study.columns_of(name)]
        _check_course(data, name, data.state[..., columns[0]])
        fitted = find_state_fit(variable.kind).fit(data, data.state[..., columns], rng)
        parts[name] = fitted.part
        predictors[name] = fitted.predictors
    return parts, predictors


def _check_course(data: PilotData, name: str, column: Floats) -> None:
    """Refuse a variable that is never known twice in a row: how it moves cannot be learned."""
    known = data.present & ~np.isnan(column)
    if not (known[:, 1:] & known[:, :-1]).any():
        known_at = "at two decision points in a row" if known.any() else "at any decision point"
        raise InputError(
            f"the pilot's '{name}' is not known {known_at}, so nothing about its course can be learned; leave it out of "
            f"[state], give a longer pilot, or {NO_PILOT}"
        )


def _outcome_features(data: PilotData, predictors: dict[str, tuple[Floats, ...]]) -> Floats:
    """In the order of `PilotModel.features`; the last is the centred action, whose coefficient is the pilot's own effect."""
    columns = [np.where(data.present, one, 0.0) for found in predictors.values() for one in found]
    centred = np.where(data.available, (data.action > 0) - data.probability, 0.0)
    last = [data.available.astype(np.float64), data.past_score, data.dose, centred]
    parts = [data.constant, *(one[..., None] for one in columns), data.time_features, *(one[..., None] for one in last)]
    return np.concatenate(parts, axis=-1)


def _limits(known: Floats, study: Study) -> tuple[float, float]:
    """The plausible range, or what was seen and half as much again; nothing falls below 0 where nothing did."""
    if study.reward.range is not None:
        return study.reward.range
    low, high = float(known.min()), float(known.max())
    width = (high - low) / 2
    return (max(low - width, 0.0) if low >= 0 else low - width), high + width
