"""The effect that a pilot showed, with its uncertainty, and what is found when there cannot be one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from surefoot.data.frames import make_frame
from surefoot.data.trajectories import Trajectories
from surefoot.effects.analysis import Analysis
from surefoot.effects.result import fit_analysis
from surefoot.errors import InputError
from surefoot.rehearsal.environments import Environment, Imputed
from surefoot.rehearsal.pilot_data import NO_PILOT, send_probability
from surefoot.rehearsal.varying import Varying
from surefoot.sample_size.pilot import estimate_nuisance
from surefoot.study import Study, StudyLogs

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PilotEffect:
    """What sending did in a pilot, on the reward.

    Attributes
    ----------
    estimate, standard_error
        Of the average effect at available decision points (weighted and centred least squares, corrected for small samples).
    between
        Standard deviation of people's own effects beyond chance; 0 where chance explains them all.
    spread
        Standard deviation of the reward at available decision points.
    null
        (estimate, standard error) after the actions were drawn anew, so that there is no effect, several times.
    """

    estimate: float
    standard_error: float
    between: float
    spread: float
    null: tuple[tuple[float, float], ...] = ()

    @property
    def environment(self) -> Environment:
        """For `PilotModel.in_environment`: in every trial the average effect is drawn from its uncertainty, and people's own
        around it; states and outcomes depend on earlier prompts as in the pilot."""
        middle, sd = np.array([self.estimate / self.spread]), np.array([self.between / self.spread])
        effect = Imputed(Varying.normal(middle, sd), self.standard_error / self.spread)
        return Environment("the pilot's effect", (effect,), feels_dose=True)

    @property
    def null_mean(self) -> tuple[float, float]:
        """The mean effect over all drawings of the actions, and its standard error."""
        found = np.array(self.null)
        return float(found[:, 0].mean()), float(np.sqrt((found[:, 1] ** 2).mean() / len(found)))

    @property
    def null_is_zero(self) -> bool:
        """Whether that mean is 0 within two of its standard errors."""
        mean, error = self.null_mean
        return abs(mean) <= 2 * error


def estimate_pilot_effect(logs: StudyLogs | Trajectories, study: Study, *, redraws: int = 20, seed: int = 0) -> PilotEffect:
    """The pilot's own effect, and the same analysis with actions drawn anew.

    Parameters
    ----------
    logs, study
        As for `fit_pilot`.
    redraws
        How often the actions are drawn anew, from the probabilities of the pilot.
    seed
        Of those drawings.

    Returns
    -------
    PilotEffect
        The effect with its standard error, and the effects after the actions were drawn anew.

    Examples
    --------
    >>> import surefoot as sf
    >>> text = '''[columns]
    ... participant = "participant"
    ... time = "time"
    ... [state.weather]
    ... [state.engagement]
    ... [state.fatigue]'''
    >>> logs = sf.simulators.HeartSteps(participants=20).collect(sf.policies.coin(2), decision_points=60, seed=0)
    >>> found = estimate_pilot_effect(logs, sf.Study.parse(text), redraws=10)
    >>> found.null_is_zero
    True
    """
    rows = logs.logs if isinstance(logs, StudyLogs) else logs
    rng = np.random.default_rng(seed)
    sent = rows.action[rows.available] > 0
    if len(np.unique(sent)) < 2:
        happened = "at every" if sent.any() else "at no"
        raise InputError(
            f"the pilot sent something {happened} available decision point, so it does not say what sending does; include "
            f"decision points of both kinds, or {NO_PILOT}"
        )
    try:
        estimate, error = _estimate(rows, study)
        null = [_estimate(redraw_actions(rows, rng), study) for _ in range(redraws)]
    except InputError as problem:
        raise InputError(f"the pilot does not say what sending does: {problem}; or {NO_PILOT}") from problem
    between = estimate_nuisance(study, rows).values["effect_sd"] if len(rows.participants) > 2 else 0.0
    spread = float(np.nanstd(rows.reward[rows.available]))
    return PilotEffect(estimate, error, between, spread, tuple(null))


def redraw_actions(logs: Trajectories, rng: np.random.Generator) -> Trajectories:
    """The same people, states and rewards with actions drawn anew from the same probabilities: they do nothing."""
    sends = send_probability(logs)
    sent = logs.available & (rng.random(len(logs)) < sends)
    probability = np.where(logs.available, np.where(sent, sends, 1 - sends), 1.0)
    return replace(logs, action=sent.astype(np.int64), probability=probability, sorted_rows=logs.order)


def _estimate(logs: Trajectories, study: Study) -> tuple[float, float]:
    controls = [column for name in study.effects.controls if name in study.state for column in study.columns_of(name)]
    places = [logs.state_names.index(column) for column in controls]
    frame = make_frame(
        {
            "participant": logs.participant_index,
            "time": np.argsort(logs.order) - logs.starts[logs.participant_index],
            "sent": (logs.action > 0).astype(np.int64),
            "sends": send_probability(logs),
            "available": logs.available,
            "reward": logs.reward,
            **{f"x{place}": logs.state[:, place] for place in places},
        },
        "pyarrow",
    )
    analysis = Analysis(
        participant="participant",
        time="time",
        outcome="reward",
        treatment="sent",
        probability="sends",
        probability_of="sending",
        available="available",
        controls=[f"x{place}" for place in places],
    )
    # Whether the pilot's actions were drawn with these probabilities was checked before.
    result = fit_analysis(frame, analysis, check_draws=False)
    return float(result.params[0]), float(result.bse[0])
