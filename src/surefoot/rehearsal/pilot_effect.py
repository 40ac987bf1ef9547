"""The effect in a pilot, with its uncertainty, and the same analysis where there cannot be one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from surefoot.data.frames import make_frame
from surefoot.data.trajectories import Trajectories
from surefoot.effects.analysis import Analysis
from surefoot.effects.result import fit_analysis
from surefoot.errors import InputError
from surefoot.rehearsal.environments import Environment, Imputed
from surefoot.rehearsal.pilot_data import NO_PILOT, send_probability
from surefoot.rehearsal.pooled_regression import Varying
from surefoot.sample_size.pilot import estimate_nuisance
from surefoot.study import Study, StudyLogs


@dataclass(frozen=True)
class PilotEffect:
    """The effect of sending in a pilot, on the reward.

    Attributes
    ----------
    estimate, standard_error
        Of the average effect at available decision points (weighted and centred least squares, corrected for small samples).
    between
        Standard deviation of people's own effects beyond chance; 0 where chance explains them all.
    spread
        Standard deviation of the reward at available decision points.
    null
        (estimate, standard error) for each of several redraws of the actions, without any effect.
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
        effects = Varying.normal(np.array([self.estimate / self.spread]), np.array([self.between / self.spread]))
        imputed = Imputed(effects, self.standard_error / self.spread)
        return Environment("the pilot's effect", (imputed,), feels_dose=True)

    @property
    def null_mean(self) -> tuple[float, float]:
        """The mean effect over all redraws of the actions, and its standard error."""
        null = np.array(self.null)
        return float(null[:, 0].mean()), float(np.sqrt((null[:, 1] ** 2).mean() / len(null)))

    @property
    def null_is_zero(self) -> bool:
        """Whether that mean is 0 within two of its standard errors."""
        mean, error = self.null_mean
        return abs(mean) <= 2 * error


def estimate_pilot_effect(logs: StudyLogs | Trajectories, study: Study, *, redraws: int = 20, seed: int = 0) -> PilotEffect:
    """The effect in the pilot, and the same analysis with redrawn actions.

    Parameters
    ----------
    logs, study
        As for `fit_pilot`.
    redraws, seed
        The number of redraws of the actions, from the probabilities of the pilot, and their seed.

    Returns
    -------
    PilotEffect
        The effect with its standard error, and the effects after redraws of the actions.

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
    >>> estimate_pilot_effect(logs, sf.Study.parse(text), redraws=10).null_is_zero
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
    return PilotEffect(estimate, error, between, float(np.nanstd(rows.reward[rows.available])), tuple(null))


def redraw_actions(logs: Trajectories, rng: np.random.Generator) -> Trajectories:
    """The same people, states and rewards with actions redrawn from the same probabilities, so that they have no effect."""
    sends = send_probability(logs)
    sent = logs.available & (rng.random(len(logs)) < sends)
    probability = np.where(logs.available, np.where(sent, sends, 1 - sends), 1.0)
    return replace(logs, action=sent.astype(np.int64), probability=probability, sorted_rows=logs.order)


def _estimate(logs: Trajectories, study: Study) -> tuple[float, float]:
    names = [column for name in study.effects.controls if name in study.state for column in study.columns_of(name)]
    controls = {f"x{number}": logs.state[:, number] for number in map(logs.state_names.index, names)}
    columns = {
        "participant": logs.participant_index,
        "time": np.argsort(logs.order) - logs.starts[logs.participant_index],
        "sent": (logs.action > 0).astype(np.int64),
        "sends": send_probability(logs),
        "available": logs.available,
        "reward": logs.reward,
        **controls,
    }
    analysis = Analysis(
        participant="participant",
        time="time",
        outcome="reward",
        treatment="sent",
        probability="sends",
        probability_of="sending",
        available="available",
        controls=list(controls),
    )
    # The pilot's actions were checked against their probabilities before.
    result = fit_analysis(make_frame(columns, "pyarrow"), analysis, check_draws=False)
    return float(result.params[0]), float(result.bse[0])
