"""What a policy does: its probabilities as one variable moves, what carries its logit, whom it treats when, and where it
moves against the effects."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.data.column_kinds import Category, Number, VariableKind, VariableSetting, YesNo
from surefoot.data.trajectories import Trajectories
from surefoot.explain.coefficients import Coefficients
from surefoot.inference.intervals import CONFIDENCE, Interval, mean_interval, t_interval, t_quantile
from surefoot.inference.sandwich import Influences
from surefoot.learning.methods import Method
from surefoot.policies.features import policy_features
from surefoot.policies.rules import DecisionRule
from surefoot.reports.figures import spread_evenly

Clip = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Moves probabilities (rows, actions) into the study's limits."""
REFERENCE = "(none of these)"
"""The reference level of a category whose name is not known."""
ROUNDING = 1e-9
"""Movements of the logit's terms below this are rounding."""
CURVE_ROWS = 5000
CURVE_PEOPLE = 500
"""A curve is a mean over at most this many decision points, of this many people: the eye could not distinguish more."""
CURVE_CELLS = 2**23
LEAST_ROWS = 100
"""The rules of all decision points of a curve hold at most this many numbers; a curve has at least this many points."""
BAND_DRAWS = 200
BAND_ROWS = 500
"""Policies drawn for a band, and decision points at which they decide."""
MANY_VARIABLES = 24
MOST_CURVES = 12
MOST_LEVELS = 40
"""Of more than `MANY_VARIABLES`, curves are traced for `MOST_CURVES`, and of a category for `MOST_LEVELS` levels."""
ENDS = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)
COURSE_BINS = 20
SHOWN_SHARE = 0.05
"""State variables that carry less than this share of the delayed effect are not named."""


@dataclass(frozen=True)
class Variable:
    """A state variable and the positions of its columns in the state; a category is one variable with several columns."""

    name: str
    kind: VariableKind
    places: tuple[int, ...]

    def take(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        """Its columns of the states, (rows, columns)."""
        return state[:, self.places]


def find_variables(logs: Trajectories, kinds: Mapping[str, VariableKind] | None) -> tuple[Variable, ...]:
    """The variables of a study (`study.variable_kinds`), then those that only the logs know, guessed from their values."""
    columns = {name: j for j, name in enumerate(logs.state_names)}
    variables = []
    for name, kind in (kinds or {}).items():
        names = kind.state_columns(name)
        if all(column in columns for column in names):
            variables.append(Variable(name, kind, tuple(columns.pop(column) for column in names)))
    groups: dict[str, list[int]] = {}
    for column, j in columns.items():
        groups.setdefault(column.partition("=")[0], []).append(j)
    for name, places in groups.items():
        values = logs.state[logs.usable][:, places]
        binary = np.atleast_1d(np.isin(values, (0, 1)).all(axis=0))
        levels = tuple(logs.state_names[j].removeprefix(f"{name}=") for j in places)
        # Columns `name=level` that are 0 or 1, and never 1 together, are one category.
        if values.size and binary.all() and levels != (name,) and values.sum(axis=1).max() <= 1:
            variables.append(Variable(name, Category(levels=(REFERENCE, *levels)), tuple(places)))
        else:
            for j, is_binary in zip(places, binary, strict=True):
                variables.append(Variable(logs.state_names[j], YesNo() if is_binary else Number(), (j,)))
    return tuple(sorted(variables, key=lambda variable: variable.places))


@dataclass(frozen=True)
class Importance:
    """How much of the policy's logit depends on one variable."""

    feature: str
    """The state variable, or `intercept`."""
    swing: float
    """Mean over people and actions of the standard deviation of its term of the logit."""
    share: float
    """Cov(the variable's term of the logit, logit) / Var(logit), over people and decision points; the shares sum to 1."""


def measure_importances(fitted: Method, variables: tuple[Variable, ...]) -> tuple[Importance, ...]:
    """Shares of the logit's variance; with a policy per participant also that of the intercepts."""
    state = fitted.logs_.state[fitted.used_]
    coefficients = fitted.policies_.rule.preferences()[fitted.unit_[fitted.used_]]
    terms = coefficients * policy_features(state)[:, None, :]
    centred = terms - terms.mean(axis=0)
    logit = centred.sum(axis=2, keepdims=True)
    variance = float((logit**2).sum())
    # A logit that moves by rounding only has no variance to share.
    scale = variance if variance > ROUNDING**2 * float((terms**2).sum()) else np.inf
    shares = (centred * logit).sum(axis=(0, 1)) / scale
    importances = []
    for variable in variables:
        places = list(variable.places)
        spread = np.atleast_2d(np.cov(variable.take(state), rowvar=False, bias=True))
        seen = coefficients[:, :, places]
        swing = np.sqrt(np.maximum(np.einsum("rai,ij,raj->ra", seen, spread, seen), 0.0)).mean()
        importances.append(Importance(variable.name, float(swing), float(shares[places].sum())))
    if not fitted.pooled_:
        swing = np.abs(centred[:, :, -1]).mean()
        importances.append(Importance("the participant's own intercept", float(swing), float(shares[-1])))
    return tuple(sorted(importances, key=lambda item: -item.share))


@dataclass(frozen=True, eq=False)
class Curve:
    """Probability of every action as one state variable changes and the others keep their logged values."""

    variable: str
    """The name of the state variable."""
    settings: tuple[VariableSetting, ...]
    """The values to which the variable was set."""
    probability: NDArray[np.float64]
    """(settings, actions), averaged over people and decision points."""
    low: NDArray[np.float64]
    """The lower end of a band around it."""
    high: NDArray[np.float64]
    """The upper end of the band."""
    band: str
    """What lies between low and high, in words; empty where there is no band."""
    changes: tuple[tuple[Interval, ...], ...]
    """For every setting and action, how much more probable than at the first setting."""
    points: tuple[int, int]
    """The number of decision points it was averaged over, and of usable ones."""
    rare: int = 0
    """The number of rare levels that were left out."""

    @property
    def grid(self) -> NDArray[np.float64]:
        """In the variable's own units."""
        return np.array([setting.shown for setting in self.settings])

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the settings; empty where they are points on an axis of numbers."""
        labels = tuple(setting.label for setting in self.settings)
        return labels if all(labels) else ()

    @property
    def largest_change(self) -> float:
        """Of the probability of any action, between any two settings."""
        return float(np.ptp(self.probability, axis=0).max())


def list_seen(fitted: Method, variables: tuple[Variable, ...]) -> list[Variable]:
    """The variables that the decision rule looks at."""
    return [variable for variable in variables if fitted.rule_sees_[list(variable.places)].any()]


def choose_variables(fitted: Method, variables: tuple[Variable, ...], importances: tuple[Importance, ...]) -> list[Variable]:
    """The variables that the policy sees; of many, those that move its logit most."""
    seen = list_seen(fitted, variables)
    swings = {item.feature: item.swing for item in importances}
    largest = sorted(seen, key=lambda variable: -swings[variable.name])[:MOST_CURVES]
    return [variable for variable in seen if len(seen) <= MANY_VARIABLES or variable in largest]


def trace_curves(
    fitted: Method, variables: list[Variable], *, clip: Clip | None, seed: int, influences: Influences | None
) -> tuple[Curve, ...]:
    """One curve for each of the variables; `influences` are those of people on a pooled fit."""
    rows = _choose_rows(fitted)
    state = fitted.logs_.state[rows]
    rules = fitted.policies_.rule[fitted.unit_[rows]]
    present, person = np.unique(fitted.logs_.participant_index[rows], return_inverse=True)
    sample = spread_evenly(np.arange(len(rows)), BAND_ROWS)
    drawn_rules = _draw_rules(fitted, seed, influences) if fitted.pooled_ and len(present) > 1 else None

    def decide(rule: DecisionRule, states: NDArray[np.float64], setting: VariableSetting) -> NDArray[np.float64]:
        moved = states.copy()
        moved[..., variable.places] = setting.columns
        probabilities = rule.probabilities(moved)
        if clip is None:
            return probabilities
        return clip(probabilities.reshape(-1, probabilities.shape[-1])).reshape(probabilities.shape)

    curves = []
    for variable in variables:
        settings, rare = _list_settings(variable, state)
        at = np.stack([decide(rules, state, setting) for setting in settings])
        mean = at.mean(axis=1)
        change = mean - mean[0]
        errors = least = most = np.full_like(change, np.nan)
        low = high = mean
        band = ""
        if not fitted.pooled_:
            sums = np.zeros((len(present), len(settings), mean.shape[1]))
            np.add.at(sums, person, np.swapaxes(at, 0, 1))
            by_person = sums / np.bincount(person)[:, None, None]
            low, high = np.quantile(by_person, (0.1, 0.9), axis=0)
            band = "middle 80 % of people"
            change, errors, least, most = np.apply_along_axis(mean_interval, 0, by_person - by_person[:, :1])
        elif drawn_rules is not None:
            drawn = np.stack([decide(drawn_rules, state[None, sample], setting).mean(axis=1) for setting in settings])
            # Drawn at a sample of the decision points: the band is put around the curve of all of them.
            drawn += (mean - at[:, sample].mean(axis=1))[:, None, :]
            low, high = np.quantile(drawn, ENDS, axis=1)
            low = np.clip(low, 0, mean)
            high = np.clip(high, mean, 1)
            band = "95 % interval"
            moved = drawn - drawn[0]
            errors = moved.std(axis=1)
            least, most = np.quantile(moved, ENDS, axis=1)
            least = np.minimum(least, change)
            most = np.maximum(most, change)
        changes = np.stack([change, errors, least, most], axis=-1).tolist()
        curves.append(
            Curve(
                variable=variable.name,
                settings=settings,
                probability=mean,
                low=low,
                high=high,
                band=band,
                changes=tuple(tuple(Interval(*numbers) for numbers in row) for row in changes),
                points=(len(rows), int(fitted.used_.sum())),
                rare=rare,
            )
        )
    return tuple(curves)


def _list_settings(variable: Variable, state: NDArray[np.float64]) -> tuple[tuple[VariableSetting, ...], int]:
    """The values to set the variable to, of many levels the first and the most frequent, and how many are left out."""
    values = variable.take(state)
    settings = variable.kind.list_settings(values)
    counts = [len(values), *((values == setting.columns).all(axis=1).sum() for setting in settings[1:])]
    often = np.sort(np.argsort(-np.array(counts), kind="stable")[:MOST_LEVELS])
    return tuple(settings[number] for number in often), len(settings) - len(often)


def _choose_rows(fitted: Method) -> NDArray[np.int64]:
    """Usable rows of enough people, in their order."""
    logs = fitted.logs_
    rows = logs.order[fitted.used_[logs.order]]
    most = min(CURVE_ROWS, max(LEAST_ROWS, CURVE_CELLS // fitted.policies_.rule.cells))
    if fitted.pooled_ or len(rows) <= most:
        return spread_evenly(rows, most)
    index = logs.participant_index[rows]
    people = spread_evenly(np.unique(index), CURVE_PEOPLE)
    points = max(1, most // len(people))
    return np.concatenate([spread_evenly(rows[index == person], points) for person in people])


def _draw_rules(fitted: Method, seed: int, influences: Influences | None) -> DecisionRule | None:
    """Policies drawn from the rule's own posterior, or from the normal approximation to θ, widened to Student's t, batch
    shape (draws, 1); None for a rule that has neither, and where θ has no standard error."""
    rule = fitted.policies_.rule
    coefficients = rule.coefficients()
    if coefficients is None:
        return rule.draw(BAND_DRAWS, np.random.default_rng(seed))
    covariance = None if influences is None or influences.policy is None else influences.covariance("policy")
    if influences is None or covariance is None or not np.isfinite(covariance).all():
        return None
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0)) * t_quantile(len(influences.critic) - 1) / t_quantile(np.inf)
    noise = np.random.default_rng(seed).standard_normal((BAND_DRAWS, len(root))) @ root.T
    return rule.map(lambda coef: (fitted.coef_ + noise).reshape(BAND_DRAWS, 1, *coef.shape[1:]))


@dataclass(frozen=True)
class Disagreement:
    """A feature whose effect clearly has one sign while the policy responds to it with the other."""

    action: str
    """The name of the action."""
    feature: str
    """The state variable."""
    effect: Interval
    """The additional gain of the action per unit of the feature that the critic expects."""
    before: float
    """The probability of the action where the feature is low."""
    after: float
    """The probability of the action where the feature is high."""


def find_disagreements(
    coefficients: Coefficients, curves: tuple[Curve, ...], action_names: tuple[str, ...]
) -> tuple[Disagreement, ...]:
    """Effects whose interval excludes zero and whose sign is not that of the policy's coefficient (or, without one, of
    the change in its probability)."""
    rows = {(row.part, row.action, row.feature): row.interval for row in coefficients.rows}
    disagreements = []
    for (part, action, feature), effect in rows.items():
        if part != "critic" or action == action_names[0] or not effect.excludes_zero:
            continue
        # The probability at the ends of a variable, or at the reference and the level of a category.
        before = after = np.nan
        for curve in curves:
            at = curve.probability[:, action_names.index(action)].tolist()
            levels = [f"{curve.variable}={setting.label}" for setting in curve.settings]
            if curve.variable == feature:
                before, after = at[0], at[-1]
            elif feature in levels and not any(curve.settings[0].columns):
                before, after = at[0], at[levels.index(feature)]
        policy = rows.get(("policy", action, feature))
        direction = np.nan_to_num(after - before) if policy is None else policy.value
        if direction * effect.value < 0:
            disagreements.append(Disagreement(action, feature, effect, before, after))
    return tuple(disagreements)


@dataclass(frozen=True, eq=False)
class TimeCourse:
    """The share of the people available at a time who would be treated; NaN where there are no data."""

    label: str
    """What `position` counts."""
    position: NDArray[np.float64]
    """Days or decision points."""
    people: NDArray[np.float64]
    """People with a usable decision point there."""
    treated: NDArray[np.float64]
    """Share of decision points at which the policy would send something."""
    logged: NDArray[np.float64]
    """Share of decision points at which something was sent."""


def count_courses(logs: Trajectories, used: NDArray[np.bool_], send: NDArray[np.float64]) -> tuple[TimeCourse, ...]:
    """Along each participant's decision points and, where times are dates, over the hours of the day; `send` is the
    probability of sending anything at every used row."""
    lengths = np.diff(logs.starts)
    width = max(1, -(-int(lengths.max()) // COURSE_BINS))
    middles = 1 + (width - 1) / 2 + width * np.arange(-(-int(lengths.max()) // width), dtype=np.float64)
    scales = [("decision point of the participant", logs.position // width, middles)]
    if logs.time.dtype.kind == "M":
        hour = logs.time.astype("datetime64[h]").astype(np.int64) % 24
        if len(np.unique(hour)) > 1:
            scales.append(("hour of the day, as logged", hour, np.arange(24.0)))
    courses = []
    people = len(logs.participants)
    for label, every_bin, middles in scales:
        bins = every_bin[used]
        size = len(middles)
        count = np.bincount(bins, minlength=size).astype(np.float64)
        count[count == 0] = np.nan
        present = np.unique(bins * people + logs.participant_index[used]) // people
        courses.append(
            TimeCourse(
                label=label,
                position=middles,
                people=np.bincount(present, minlength=size).astype(np.float64),
                treated=np.bincount(bins, weights=send, minlength=size) / count,
                logged=np.bincount(bins, weights=logs.action[used] > 0, minlength=size) / count,
            )
        )
    return tuple(courses)


@dataclass(frozen=True, eq=False)
class ActionConsequence:
    """Change in the outcomes by one action compared with doing nothing, at the mean state, in units of the outcome."""

    action: str
    """Its name."""
    immediate: Interval
    """In the outcome that follows."""
    delayed: Interval
    """In all outcomes after that."""
    total: Interval
    """Both together."""
    felt: int
    """The decision points after which all but a twentieth of the delayed effect has come."""
    through: dict[str, float]
    """The delayed effect by way of each state variable."""
    lags: NDArray[np.float64]
    """The change in the outcome after each number of decision points."""

    @property
    def ways(self) -> dict[str, float]:
        """`through`, the largest first, without state variables that carry hardly any of the delayed effect."""
        least = SHOWN_SHARE * sum(map(abs, self.through.values()))
        ways = sorted(self.through.items(), key=lambda way: -abs(way[1]))
        return {name: change for name, change in ways if abs(change) > least}


def find_consequences(fitted: Method) -> tuple[ActionConsequence, ...]:
    """One for every action but the first; none with an immediate horizon."""
    if fitted.outlook_ is None:
        return ()
    logs = fitted.logs_
    view = fitted.outlook_.pool()
    consequences = []
    for code in range(1, logs.actions):
        estimate = view.consequence(code)
        immediate, delayed, total = (
            t_interval(change.value, change.standard_error, max(view.people - 1, 1))
            for change in (estimate.immediate, estimate.delayed, estimate.total)
        )
        through = dict(zip(logs.state_names, estimate.through.tolist(), strict=True))
        name = logs.action_names[code]
        consequences.append(ActionConsequence(name, immediate, delayed, total, estimate.felt, through, estimate.lags))
    return tuple(consequences)


@dataclass(frozen=True, eq=False)
class EffectCourse:
    """The effect of one action over a participant's time in the study, for the population, at the mean state."""

    action: str
    """Its name."""
    position: NDArray[np.float64]
    """Decision points of a participant, from 1 on; the last is the next one of the participant with the longest logs."""
    effect: NDArray[np.float64]
    """θ + γ_t at the mean state, in units of the outcome."""
    low: NDArray[np.float64]
    """The lower end of its pointwise 95 % interval."""
    high: NDArray[np.float64]
    """The upper end."""
    change: Interval
    """From the first decision point to the last."""


def find_effect_courses(fitted: Method) -> tuple[EffectCourse, ...]:
    """One for every action but the first; none where effects may not change over the study."""
    changing = fitted.time_effects_
    if changing is None:
        return ()
    logs = fitted.logs_
    mean_state = logs.state[fitted.used_].mean(axis=0) * fitted.critic_sees_
    features = np.append(1.0, mean_state)
    degrees = max(len(np.unique(logs.participant_index[fitted.used_])) - 1, 1)
    courses = []
    for code in range(1, logs.actions):
        block = slice((code - 1) * len(features), code * len(features))
        effect = changing.effect_mean[:, block] @ features
        # Of few decision points a variance may be zero, but for rounding.
        variance = np.maximum(features @ changing.effect_covariance[:, block, block] @ features, 0.0)
        half = t_quantile(degrees) * np.sqrt(variance)
        error = float(np.sqrt(max(features @ changing.covariance[-1, block, block] @ features, 0.0)))
        courses.append(
            EffectCourse(
                action=logs.action_names[code],
                position=changing.times.astype(np.float64) + 1,
                effect=effect,
                low=effect - half,
                high=effect + half,
                change=t_interval(float(changing.mean[-1, block] @ features), error, degrees),
            )
        )
    return tuple(courses)
