"""What a pilot says: a model of its people and the effect of sending; or a model from the study's description."""

import warnings
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from surefoot.data.frames import make_frame
from surefoot.data.trajectories import Trajectories
from surefoot.effects.analysis import Analysis
from surefoot.effects.result import fit_analysis
from surefoot.errors import FitWarning, InputError
from surefoot.rehearsal import components
from surefoot.rehearsal.components import Component, DerivedComponent, YesNoComponent
from surefoot.rehearsal.environments import Environment, Imputed
from surefoot.rehearsal.outcome_families import FamilyChoice, Normal, choose_family, find_family, find_step
from surefoot.rehearsal.pilot_data import NO_PILOT, PilotArrays, StudyClock, send_probability
from surefoot.rehearsal.pilot_model import PilotModel
from surefoot.rehearsal.pooled_regression import ScoreTable, Varying
from surefoot.sample_size.pilot import estimate_nuisance
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
    """A model of the people in a pilot, each with coefficients of their own, pulled towards the others by their likelihood.

    Parameters
    ----------
    logs
        The result of `study.read` (then the outcome is modelled as measured, and artefacts as the screen found them), or
        trajectories, whose reward is modelled as it is.
    study
        What the columns mean.
    seed
        Seed of the draws in fitting: scores within piles of equal values.
    outcome
        The family of outcomes; by default the one with the highest likelihood of days held out.
    per_day
        Decision points a day, where neither the study's `day_boundary` nor timestamps say it.

    Returns
    -------
    PilotModel
        A simulator of the pilot's own people; `draw_people` gives new ones.

    Examples
    --------
    >>> import surefoot as sf
    >>> text = '[columns]\\nparticipant = "p"\\ntime = "t"\\n[state.weather]\\n[state.engagement]\\n[state.fatigue]'
    >>> logs = sf.simulators.HeartSteps(participants=10).collect(sf.policies.coin(2), decision_points=60, seed=0)
    >>> fit_pilot(logs, sf.Study.parse(text), per_day=5)
    PilotModel(participants=10, outcome='normal', effects: none)
    """
    data = PilotArrays.of_logs(logs, study, per_day)
    people = len(data.participants)
    if people < FEW_PEOPLE:
        rough = f"{people} participants say little about how people differ: trials simulated from them are rough"
        warnings.warn(rough, FitWarning, stacklevel=2)
    rng = np.random.default_rng(seed)
    states: dict[tuple[str, str], Component] = {}
    predictors: dict[str, list[Floats]] = {}
    for name, variable in study.state.items():
        if variable.derived:
            states["state", name] = _derive(study, name)
            continue
        values = data.state[..., [study.state_names.index(column) for column in study.columns_of(name)]]
        _check_known(data, name, values[..., 0])
        states["state", name], columns = components.STATE_COMPONENTS.find(variable.kind).fit(data, values, rng)
        if columns:
            predictors[name] = columns
    seen = [np.where(data.present, column, 0.0) for columns in predictors.values() for column in columns]
    # The coefficient of the centred action is the pilot's own effect, which the model leaves out.
    centred = np.where(data.available, (data.action > 0) - data.probability, 0.0)
    x = data.design(*seen, data.time_features, data.available.astype(np.float64), data.carried, centred)
    weight = (data.present & ~np.isnan(data.outcome)).astype(np.float64)
    day = np.broadcast_to(data.clock.day(np.arange(x.shape[1], dtype=np.float64)), weight.shape)
    choice = choose_family(x, data.outcome, weight, day, outcome, rng)
    known = data.outcome[weight > 0]
    # The observed range and half as much on either side, but nothing below 0 where nothing was.
    half = float(np.ptp(known)) / 2
    lowest = max(float(known.min()) - half, 0.0) if known.min() >= 0 else float(known.min()) - half
    limits = (lowest, float(known.max()) + half)
    return PilotModel(
        study=study,
        participants=data.participants,
        clock=data.clock,
        components={**components.fit_marks(data), **components.fit_artefacts(data), **states},
        predictors=tuple(predictors),
        family=find_family(choice.name).fit(x, data.outcome, weight, rng),
        choice=choice,
        scores=data.scores,
        reward=study.reward if isinstance(logs, StudyLogs) else None,
        limits=study.reward.range or limits,
        step=find_step(known),
        send_rate=data.send_rate,
        sends=float(data.probability[data.available].mean()),
    )


def _derive(study: Study, name: str) -> DerivedComponent:
    kind = study.state[name].variable_kind
    return DerivedComponent(study.state[name].derived_state, kind.centre, kind.scale)


def _check_known(data: PilotArrays, name: str, column: Floats) -> None:
    """Refuse a variable that is never known twice in a row, since its transitions cannot be learned."""
    known = data.present & ~np.isnan(column)
    if not (known[:, 1:] & known[:, :-1]).any():
        known_at = "at two decision points in a row" if known.any() else "at any decision point"
        raise InputError(
            f"the pilot's '{name}' is not known {known_at}, so its changes over time cannot be learned; leave it out of "
            f"[state], give a longer pilot, or {NO_PILOT}"
        )


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
    """A model without a pilot: from the study's ranges and the given numbers.

    Parameters
    ----------
    study
        Its state variables move within their ranges (without one: within three scales of their centre).
    participants, seed
        The number of people, and the seed of their draw.
    mean, sd
        Of the outcome; by default the middle of the reward's range and a sixth of its width.
    between
        The share of the outcome's variance that lies between people.
    carried
        The share of an outcome's score that carries over to the next.
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
    >>> text = '[columns]\\nparticipant = "p"\\ntime = "t"\\n[state.mood]\\nrange = [0, 10]\\n[reward]\\nrange = [0, 100]'
    >>> from_study(sf.Study.parse(text), participants=4, seed=1).state_names
    ('mood',)
    """
    limits = study.reward.range
    if limits is not None:
        mean = sum(limits) / 2 if mean is None else mean
        sd = (limits[1] - limits[0]) / 6 if sd is None else sd
    if mean is None or sd is None:
        raise InputError("the study does not say how the outcome varies; write [reward] range = [0, 100], or give mean, sd")
    if not (sd > 0 and 0 <= between < 1 and 0 <= carried < 1 and 0 < availability <= 1 and 0 <= missing < 1):
        raise InputError("sd must be above 0; between, carried and missing are shares below 1, availability one above 0")
    clock = StudyClock.of_length(per_day or (study.days if isinstance(study.days, int) else 1), 42)
    # Features [1, clock …, availability, score, dose, effect]: y = m + carried · sd · score + σ ε, so that a person's mean
    # is m / (1 − carried) and the variance within people σ² / (1 − carried²).
    weights = np.zeros(clock.size + 5)
    weights[0] = mean
    weights[-3] = carried * sd
    spread = np.zeros(clock.size + 5)
    spread[0] = (1 - carried) * sd * np.sqrt(between)
    noise = np.log(sd * np.sqrt((1 - between) * (1 - carried**2)))
    edges = np.linspace(-4.0, 4.0, 201)
    assumed: dict[tuple[str, str], Component] = {}
    if availability < 1:
        assumed["mark", "available"] = YesNoComponent.assume_marks(availability, clock.size, int(missing > 0))
    if missing > 0:
        assumed["mark", "lost"] = YesNoComponent.assume_marks(missing, clock.size, 1 + len(assumed))
    for name, variable in study.state.items():
        kind = variable.variable_kind
        derived = _derive(study, name) if variable.derived else None
        assumed["state", name] = derived or components.STATE_COMPONENTS.find(variable.kind).assume(kind, clock.size)
    model = PilotModel(
        study=study,
        participants=np.arange(1),
        clock=clock,
        components=assumed,
        predictors=(),
        family=Normal(
            Varying.normal(weights, spread),
            Varying.normal(np.array([noise]), np.zeros(1)),
            ScoreTable(edges, edges, edges),
        ),
        choice=FamilyChoice(Normal.name, {}),
        scores=ScoreTable(mean + sd * edges, edges, edges),
        reward=None,
        limits=limits or (-np.inf, np.inf),
        step=0.0,
        send_rate=0.0,
        sends=0.5,
    )
    return model.draw_people(participants, seed=seed)


@dataclass(frozen=True)
class PilotEffect:
    """The effect of sending in a pilot, on the reward."""

    estimate: float
    """The average effect at available decision points, by weighted and centred least squares."""
    standard_error: float
    """Of the estimate, corrected for small samples."""
    between: float
    """Standard deviation of people's own effects beyond chance; 0 where chance explains them all."""
    spread: float
    """Standard deviation of the reward at available decision points."""
    null: tuple[tuple[float, float], ...] = ()
    """(estimate, standard error) for each of several redraws of the actions, without any effect."""

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
    >>> text = '[columns]\\nparticipant = "p"\\ntime = "t"\\n[state.weather]\\n[state.engagement]\\n[state.fatigue]'
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
            f"the pilot sent something {happened} available decision point, so it does not show the effect of sending; "
            f"include decision points of both kinds, or {NO_PILOT}"
        )
    try:
        estimate, error = _estimate(rows, study)
        null = [_estimate(redraw_actions(rows, rng), study) for _ in range(redraws)]
    except InputError as problem:
        raise InputError(f"the pilot does not show the effect of sending: {problem}; or {NO_PILOT}") from problem
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
