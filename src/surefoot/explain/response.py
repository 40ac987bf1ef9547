"""What a policy does: its probabilities as one variable moves, what carries its logit, whom it treats when, and where it
moves against the effects."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from surefoot.data.column_kinds import Category, Number, VariableKind, VariableSetting, YesNo
from surefoot.data.trajectories import Trajectories
from surefoot.explain.coefficients import Coefficients
from surefoot.inference.intervals import CONFIDENCE, Interval, mean_interval, t_interval, t_quantile
from surefoot.inference.sandwich import Influences
from surefoot.learning.methods import Method
from surefoot.numerics.arrays import list_blocks
from surefoot.policies.features import policy_features
from surefoot.policies.rules import DecisionRule
from surefoot.reports.numbers import format_estimate, format_number

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
    logs = fitted.logs_
    rows = np.flatnonzero(fitted.used_)
    preferences = fitted.policies_.rule.preferences()
    count = len(rows) * preferences.shape[-2]
    state = logs.state[rows]
    spreads = [np.atleast_2d(np.cov(variable.take(state), rowvar=False, bias=True)) for variable in variables]

    def list_terms() -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        for block in list_blocks(len(rows), cells=int(np.prod(preferences.shape[1:]))):
            coef = preferences[fitted.unit_[rows[block]]]
            yield coef, coef * policy_features(state[block])[:, None, :]

    means = sum((terms.sum(axis=0) for _, terms in list_terms()), start=np.zeros(1)) / len(rows)
    size = 0.0
    variance = 0.0
    intercept_swing = 0.0
    shares = np.zeros(1)
    swings = np.zeros(len(variables))
    for coef, terms in list_terms():
        centred = terms - means
        logit = centred.sum(axis=2, keepdims=True)
        size += float((terms**2).sum())
        variance += float((logit**2).sum())
        intercept_swing += float(np.abs(centred[:, :, -1]).sum())
        shares = shares + (centred * logit).sum(axis=(0, 1))
        for number, variable in enumerate(variables):
            seen = coef[:, :, list(variable.places)]
            swings[number] += np.sqrt(np.maximum(np.einsum("rai,ij,raj->ra", seen, spreads[number], seen), 0.0)).sum()
    # A logit that moves by rounding only has no variance to share.
    shares = shares / variance if variance > ROUNDING**2 * size else np.zeros_like(shares)
    importances = [
        Importance(variable.name, float(swing), float(shares[list(variable.places)].sum()))
        for variable, swing in zip(variables, swings / count, strict=True)
    ]
    if not fitted.pooled_:
        importances.append(Importance("the participant's own intercept", intercept_swing / count, float(shares[-1])))
    return tuple(sorted(importances, key=lambda item: -item.share))


@dataclass(frozen=True, eq=False)
class Curve:
    """Probability of every action as one state variable moves and the others stay as they were logged."""

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
    if len(seen) <= MANY_VARIABLES:
        return seen
    swings = {item.feature: item.swing for item in importances}
    largest = sorted(seen, key=lambda variable: -swings[variable.name])[:MOST_CURVES]
    return [variable for variable in seen if variable in largest]


def trace_curves(
    fitted: Method, variables: list[Variable], *, clip: Clip | None, seed: int, influences: Influences | None
) -> tuple[Curve, ...]:
    """One curve for each of the variables; `influences` are those of people on a pooled fit."""
    rows = _choose_rows(fitted)
    state = fitted.logs_.state[rows]
    rules = fitted.policies_.rule[fitted.unit_[rows]]
    present, person = np.unique(fitted.logs_.participant_index[rows], return_inverse=True)
    members = np.bincount(person)
    sample = _spread_evenly(np.arange(len(rows)), BAND_ROWS)
    drawn_rules = _draw_rules(fitted, seed, influences) if fitted.pooled_ and len(present) > 1 else None

    def decide(
        rule: DecisionRule, states: NDArray[np.float64], variable: Variable, setting: VariableSetting
    ) -> NDArray[np.float64]:
        moved = states.copy()
        moved[..., variable.places] = setting.columns
        probabilities = rule.probabilities(moved)
        if clip is None:
            return probabilities
        return clip(probabilities.reshape(-1, probabilities.shape[-1])).reshape(probabilities.shape)

    def trace(variable: Variable) -> Curve:
        settings = _list_settings(variable, state)
        at = np.stack([decide(rules, state, variable, setting) for setting in settings])
        mean = at.mean(axis=1)
        low = high = mean
        band = ""
        changes = [[Interval(float(value), np.nan, np.nan, np.nan) for value in row] for row in mean - mean[0]]
        if not fitted.pooled_:
            sums = np.zeros((len(present), len(settings), mean.shape[1]))
            np.add.at(sums, person, np.swapaxes(at, 0, 1))
            by_person = np.swapaxes(sums, 0, 1) / members[:, None]
            low, high = np.quantile(by_person, (0.1, 0.9), axis=1)
            band = "middle 80 % of people"
            changes = [[mean_interval(column) for column in difference.T] for difference in by_person - by_person[0]]
        elif drawn_rules is not None:
            states = state[None, sample]
            drawn = np.stack([decide(drawn_rules, states, variable, setting).mean(axis=1) for setting in settings])
            # Drawn at a sample of the decision points: the band is put around the curve of all of them.
            drawn += (mean - at[:, sample].mean(axis=1))[:, None, :]
            low, high = np.quantile(drawn, ENDS, axis=1)
            low = np.clip(low, 0, mean)
            high = np.clip(high, mean, 1)
            band = "95 % interval"
            changes = _change_intervals(mean, drawn)
        return Curve(
            variable=variable.name,
            settings=settings,
            probability=mean,
            low=low,
            high=high,
            band=band,
            changes=tuple(tuple(row) for row in changes),
            points=(len(rows), int(fitted.used_.sum())),
            rare=len(variable.kind.list_settings(variable.take(state))) - len(settings),
        )

    return tuple(trace(variable) for variable in variables)


def _spread_evenly(rows: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """At most that many of them, evenly spaced."""
    return rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), most)).round().astype(np.int64))]


def _choose_rows(fitted: Method) -> NDArray[np.int64]:
    """Usable rows of enough people, in their order."""
    logs = fitted.logs_
    rows = logs.order[fitted.used_[logs.order]]
    most = min(CURVE_ROWS, max(LEAST_ROWS, CURVE_CELLS // fitted.policies_.rule.cells))
    if fitted.pooled_ or len(rows) <= most:
        return _spread_evenly(rows, most)
    index = logs.participant_index[rows]
    people = _spread_evenly(np.unique(index), CURVE_PEOPLE)
    begins, ends = (np.searchsorted(index, people, side=side) for side in ("left", "right"))
    points = max(1, most // len(people))
    return np.concatenate([_spread_evenly(rows[begin:end], points) for begin, end in zip(begins, ends, strict=True)])


def _list_settings(variable: Variable, state: NDArray[np.float64]) -> tuple[VariableSetting, ...]:
    """The values to set the variable to; of many levels, the first and those that were logged most often."""
    values = variable.take(state)
    settings = variable.kind.list_settings(values)
    if len(settings) <= MOST_LEVELS:
        return tuple(settings)
    counts = [int((values == setting.columns).all(axis=1).sum()) for setting in settings]
    counts[0] = len(values)
    often = np.sort(np.argsort(-np.array(counts), kind="stable")[:MOST_LEVELS])
    return tuple(settings[number] for number in often)


def _change_intervals(mean: NDArray[np.float64], drawn: NDArray[np.float64]) -> list[list[Interval]]:
    """From (settings, actions) and draws (settings, draws, actions): differences from the first setting."""
    value = mean - mean[0]
    moved = drawn - drawn[0]
    low, high = np.quantile(moved, ENDS, axis=1)
    numbers = np.stack([value, moved.std(axis=1), np.minimum(low, value), np.maximum(high, value)], axis=-1)
    return [[Interval(*map(float, cell)) for cell in row] for row in numbers]


def _draw_rules(fitted: Method, seed: int, influences: Influences | None) -> DecisionRule | None:
    """Policies drawn from the rule's own posterior, or from the normal approximation to θ, widened to Student's t, batch
    shape (draws, 1); None for a rule that has neither, and where θ has no standard error."""
    rule = fitted.policies_.rule
    coefficients = rule.coefficients()
    if coefficients is None:
        return rule.draw(BAND_DRAWS, np.random.default_rng(seed))
    if influences is None or influences.policy is None:
        return None
    covariance = influences.covariance("policy")
    if not np.isfinite(covariance).all():
        return None
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0)) * t_quantile(len(influences.critic) - 1) / t_quantile(np.inf)
    noise = np.random.default_rng(seed).standard_normal((BAND_DRAWS, len(root))) @ root.T
    return rule.map(lambda coef: (fitted.coef_ + noise).reshape(BAND_DRAWS, 1, *coef.shape[1:]))


@dataclass(frozen=True)
class Disagreement:
    """A feature whose effect surely has one sign while the policy responds to it with the other."""

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
        before, after = _follow_feature(feature, curves, action_names.index(action))
        policy = rows.get(("policy", action, feature))
        direction = np.nan_to_num(after - before) if policy is None else policy.value
        if direction * effect.value < 0:
            disagreements.append(Disagreement(action, feature, effect, before, after))
    return tuple(disagreements)


def _follow_feature(feature: str, curves: tuple[Curve, ...], code: int) -> tuple[float, float]:
    """The probability of an action at the ends of a variable, or at the reference and the level of a category."""
    for curve in curves:
        at = curve.probability[:, code]
        if curve.variable == feature:
            return float(at[0]), float(at[-1])
        for number, setting in enumerate(curve.settings):
            if f"{curve.variable}={setting.label}" == feature and not any(curve.settings[0].columns):
                return float(at[0]), float(at[number])
    return np.nan, np.nan


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


def compute_send_probability(fitted: Method, clip: Clip | None) -> NDArray[np.float64]:
    """Probability of sending anything at every usable row, NaN elsewhere."""
    logs = fitted.logs_
    rows = np.flatnonzero(fitted.used_)
    probabilities = fitted.policies_.probabilities(logs.participant[rows], logs.state[rows])
    send = np.full(len(logs), np.nan)
    send[rows] = 1 - (probabilities if clip is None else clip(probabilities))[:, 0]
    return send


def count_courses(logs: Trajectories, send: NDArray[np.float64]) -> tuple[TimeCourse, ...]:
    """Along each participant's decision points and, where times are dates, over the hours of the day."""
    lengths = np.diff(logs.starts)
    longest = int(lengths.max())
    position = np.empty(len(logs), dtype=np.int64)
    position[logs.order] = np.arange(len(logs)) - np.repeat(logs.starts[:-1], lengths)
    width = max(1, -(-longest // COURSE_BINS))
    middles = (1 + (width - 1) / 2 + width * np.arange(-(-longest // width))).astype(np.float64)
    courses = [_count_course("decision point of the participant", position // width, middles, logs, send)]
    if logs.time.dtype.kind == "M":
        hour = logs.time.astype("datetime64[h]").astype(np.int64) % 24
        if len(np.unique(hour)) > 1:
            courses.append(_count_course("hour of the day, as logged", hour, np.arange(24.0), logs, send))
    return tuple(courses)


def _count_course(
    label: str, bins: NDArray[np.int64], shown: NDArray[np.float64], logs: Trajectories, send: NDArray[np.float64]
) -> TimeCourse:
    rows = np.flatnonzero(~np.isnan(send))
    places = len(shown)
    occupied = bins[rows]
    count = np.bincount(occupied, minlength=places).astype(np.float64)
    count[count == 0] = np.nan
    pairs = np.unique(occupied * len(logs.participants) + logs.participant_index[rows]) // len(logs.participants)
    return TimeCourse(
        label=label,
        position=shown,
        people=np.bincount(pairs, minlength=places).astype(np.float64),
        treated=np.bincount(occupied, weights=send[rows], minlength=places) / count,
        logged=np.bincount(occupied, weights=logs.action[rows] > 0, minlength=places) / count,
    )


@dataclass(frozen=True, eq=False)
class ActionConsequence:
    """Change in the outcomes by one action compared with doing nothing, at the mean state, in units of the reward."""

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

    def describe(self) -> tuple[str, ...]:
        """The action now and later, in sentences."""
        size = sum(map(abs, self.through.values()))
        ways = sorted(self.through.items(), key=lambda way: -abs(way[1]))
        named = [f"{name} ({format_number(value)})" for name, value in ways if abs(value) > SHOWN_SHARE * size]
        sentences = [
            f"{self.action}: {format_estimate(self.immediate)} in the next outcome, {format_estimate(self.delayed)} in all "
            f"later ones together; in total {format_estimate(self.total)}, compared with doing nothing, at the mean state.",
            f"{self.action} is felt for about {self.felt} decision points; later by way of {', '.join(named)}."
            if named
            else f"{self.action} changes no later outcome by way of a state.",
        ]
        if self.immediate.value > 0 > self.total.high:
            sentences.append(f"At the mean state {self.action} pays now and costs more later.")
        return tuple(sentences)


def find_consequences(fitted: Method) -> tuple[ActionConsequence, ...]:
    """One for every action but the first; none with an immediate horizon."""
    if fitted.outlook_ is None:
        return ()
    logs = fitted.logs_
    view = fitted.outlook_.pool()
    degrees = max(view.people - 1, 1)
    consequences = []
    for code in range(1, logs.actions):
        estimate = view.consequence(code)
        changes = (estimate.immediate, estimate.delayed, estimate.total)
        immediate, delayed, total = (t_interval(change.value, change.standard_error, degrees) for change in changes)
        through = dict(zip(logs.state_names, estimate.through.tolist(), strict=True))
        name = logs.action_names[code]
        consequences.append(ActionConsequence(name, immediate, delayed, total, estimate.felt, through, estimate.lags))
    return tuple(consequences)
